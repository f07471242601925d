import Foundation
import TortureSupport

/// A small file system for the caches that can be filled up; an ordinary folder if the user may not mount one.
final class SmallDisk {
    let folder: URL
    let isMounted: Bool
    private var ballast: URL { folder.appendingPathComponent("ballast") }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("soak-\(getpid())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        isMounted = Self.run("/bin/mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", folder.path])
    }

    deinit {
        if isMounted { _ = Self.run("/bin/umount", [folder.path]) }
        try? FileManager.default.removeItem(at: folder)
    }

    func fill() {
        guard isMounted else { return }
        let file = open(ballast.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return }
        defer { close(file) }
        let bytes = [UInt8](repeating: 1, count: 64 << 10)
        while write(file, bytes, bytes.count) > 0 {}
    }

    func empty() { unlink(ballast.path) }

    private static func run(_ program: String, _ arguments: [String]) -> Bool {
        Child(program, arguments)?.succeeds() == true
    }
}
