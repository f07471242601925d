import Foundation
import GRDB
import Logging
import Synchronization
import TestSupport

@testable import DipperData

/// The messages of a logger.
final class LogLines: Sendable {
    private let state = Mutex<[String]>([])
    var all: [String] { state.withLock { $0 } }
    var logger: Logger {
        var logger = Logger.recording { event, _ in
            self.state.withLock { $0.append("\(event.level): \(event.message)") }
        }
        logger.logLevel = .notice
        return logger
    }
}

/// Returns a list of the contents of a folder: paths, kinds, modes, times and bytes.
func snapshot(_ path: String) -> [String] {
    (FileManager.default.subpaths(atPath: path) ?? []).sorted().map { name in
        var status = stat()
        lstat(path + "/" + name, &status)
        let contents =
            status.st_mode & S_IFMT == S_IFREG ? FileManager.default.contents(atPath: path + "/" + name) : nil
        let time = "\(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
        return "\(name) \(status.st_mode) \(status.st_uid) \(status.st_ino) \(time) \(contents?.hashValue ?? 0)"
    }
}

extension TemporaryFolder {
    var path: String { url.path }

    /// Writes a file and creates the folders above it.
    func put(_ name: String, _ text: String) throws {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
    }
}

/// Returns a connection to the index of a folder. It waits for a store that is writing, as stores do for it.
func indexQueue(_ folder: TemporaryFolder) throws -> DatabaseQueue {
    var configuration = GRDB.Configuration()
    configuration.busyMode = .timeout(40)
    return try DatabaseQueue(path: folder.path + "/index.sqlite", configuration: configuration)
}

/// Returns a disk tier whose log the test can read.
func diskTier(
    _ folder: TemporaryFolder, _ lines: LogLines = LogLines(), _ change: (inout DiskTier.Options) -> Void = { _ in }
) -> DiskTier {
    var options = DiskTier.Options(folder: folder.path)
    change(&options)
    return DiskTier(options, logger: lines.logger, now: { Date(timeIntervalSince1970: 1_800_000_000) })
}

func diskRecord(_ key: String, size: Int, stored: TimeInterval = 1_800_000_000) -> EntryRecord {
    EntryRecord(
        key: CacheKey(key),
        value: StoredData(
            data: patterned(size, from: key.utf8.count),
            info: EntryInfo(url: "http://host/", stored: stored)),
        lifetime: .forever)
}

/// Returns bytes that repeat after 256, which is fast for any size.
private func patterned(_ size: Int, from first: Int) -> Data {
    let pattern = Data((0..<256).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ first) })
    var data = Data(capacity: size)
    while data.count < size { data.append(pattern.prefix(size - data.count)) }
    return data
}

func fill(_ tier: DiskTier, _ keys: [String], size: Int) async {
    for key in keys { tier.write(diskRecord(key, size: size)) }
    await tier.synchronize()
}
