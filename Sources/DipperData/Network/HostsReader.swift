import Foundation
import Synchronization

/// A reader of a hosts file, which reads the file again when it has changed.
final class HostsReader: Sendable {
    private struct Stamp: Equatable {
        var seconds: Int
        var nanoseconds: Int
        var size: Int64
        var number: UInt64
    }

    private struct State {
        var stamp: Stamp?
        var hosts = HostsFile()
    }

    private let path: String
    private let state = Mutex(State())

    init(path: String) {
        self.path = path
    }

    /// The contents of the file now; empty if there is no file.
    var hosts: HostsFile {
        let stamp = stamp()
        if let known = state.withLock({ $0.stamp == stamp ? $0.hosts : nil }) { return known }
        let text = (try? Data(contentsOf: URL(fileURLWithPath: path))).map { String(decoding: $0, as: UTF8.self) }
        let hosts = HostsFile(text ?? "")
        let old = state.withLock { exchange(&$0, with: State(stamp: stamp, hosts: hosts)) }
        _ = consume old
        return hosts
    }

    private func stamp() -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Stamp(
            seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec, size: Int64(status.st_size),
            number: UInt64(status.st_ino))
    }
}
