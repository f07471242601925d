import Foundation

/// The folder of the disk comparisons: an ext4 with a journal on a loop device if root can mount one, else a plain
/// folder.
struct DiskFolder {
    let path: String
    /// A remark on the folder's file system, for the text under a table.
    let remark: String
    private let cleanUp: Int

    init(_ bench: Bench) throws {
        let mount = bench.work.appendingPathComponent("disk").path
        let image = bench.work.appendingPathComponent("disk.ext4").path
        // A killed run leaves its mount behind.
        if getuid() == 0 { _ = try? Command.run("/usr/bin/env", ["umount", mount]) }
        try FileManager.default.createDirectory(atPath: mount, withIntermediateDirectories: true)
        path = mount
        guard getuid() == 0, let mkfs = Command.find("mkfs.ext4") else {
            remark = "On the plain folder `.work/disk`: a mount needs root."
            cleanUp = CleanUp.add { try? FileManager.default.removeItem(atPath: mount) }
            return
        }
        do {
            try? FileManager.default.removeItem(atPath: image)
            try Command.run("/usr/bin/env", ["truncate", "-s", "6G", image])
            try Command.run(mkfs, ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image])
            try Command.run("/usr/bin/env", ["mount", "-o", "loop,noatime", image, mount])
        } catch {
            try? FileManager.default.removeItem(atPath: image)
            remark = "On the plain folder `.work/disk`: \(error)."
            cleanUp = CleanUp.add { try? FileManager.default.removeItem(atPath: mount) }
            return
        }
        remark = "On an ext4 of its own with a journal, mounted through a loop device."
        cleanUp = CleanUp.add {
            if (try? Command.run("/usr/bin/env", ["umount", mount])) == nil {
                _ = try? Command.run("/usr/bin/env", ["umount", "-l", mount])
            }
            try? FileManager.default.removeItem(atPath: image)
        }
    }

    func end() { CleanUp.run(cleanUp) }

    /// Creates an empty folder, in place of an existing one of this name.
    func make(_ name: String) throws -> String {
        let folder = path + "/" + name
        try? FileManager.default.removeItem(atPath: folder)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Waits until the device has written the data of earlier turns.
    func settle() { sync() }

    /// Returns the bytes that the files of a folder take on the device.
    static func space(_ folder: String) -> Int {
        guard let names = FileManager.default.enumerator(atPath: folder) else { return 0 }
        var blocks = 0
        for case let name as String in names {
            var status = stat()
            if lstat(folder + "/" + name, &status) == 0 { blocks += Int(status.st_blocks) }
        }
        return blocks * 512
    }
}
