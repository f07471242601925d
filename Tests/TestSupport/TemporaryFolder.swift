package import Foundation

/// A new, empty folder that only the user can read, deleted when the test releases it.
package final class TemporaryFolder: Sendable {
    package let url: URL

    /// The folder of all folders of this process, deleted when the process ends: a cache that writes after its own
    /// folder has been deleted creates it again. Folders that killed processes have left are deleted too.
    private static let parent: URL = {
        let (all, prefix) = (FileManager.default.temporaryDirectory, "dipper-tests-")
        for name in (try? FileManager.default.contentsOfDirectory(atPath: all.path)) ?? [] {
            guard name.hasPrefix(prefix), let owner = pid_t(name.dropFirst(prefix.count)), kill(owner, 0) != 0,
                errno == ESRCH
            else { continue }
            try? FileManager.default.removeItem(at: all.appendingPathComponent(name))
        }
        let parent = all.appendingPathComponent("\(prefix)\(getpid())")
        // Other users may pass through it, such as the workers of a server.
        try? FileManager.default.createDirectory(
            at: parent, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
        atexit { _ = try? FileManager.default.removeItem(at: TemporaryFolder.parent) }
        return parent
    }()

    package init() {
        url = Self.parent.appendingPathComponent(UUID().uuidString)
        try? FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    package var path: String { url.path }

    package var files: [String] {
        (FileManager.default.subpaths(atPath: path) ?? []).filter { name in
            var isFolder: ObjCBool = false
            return FileManager.default.fileExists(atPath: path + "/" + name, isDirectory: &isFolder)
                && !isFolder.boolValue && !isSocket(name)
        }
    }

    /// An open cache has one, which nobody can read.
    private func isSocket(_ name: String) -> Bool {
        var status = stat()
        return lstat(path + "/" + name, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// The contents of the folder: paths, kinds, modes, owners, times and bytes.
    package var inventory: [String] {
        (FileManager.default.subpaths(atPath: path) ?? []).sorted().map { name in
            var status = stat()
            lstat(path + "/" + name, &status)
            let isFile = status.st_mode & S_IFMT == S_IFREG
            let contents = isFile ? FileManager.default.contents(atPath: path + "/" + name) : nil
            let time = "\(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
            return "\(name) \(status.st_mode) \(status.st_uid) \(status.st_ino) \(time) \(contents?.hashValue ?? 0)"
        }
    }

    /// Writes a file, and makes the folders that it lies in.
    @discardableResult
    package func place(_ bytes: Data, at name: String) throws -> URL {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try bytes.write(to: file)
        return file
    }

    @discardableResult
    package func place(_ text: String, at name: String) throws -> URL { try place(Data(text.utf8), at: name) }

    package func text(_ name: String) -> String? {
        try? String(contentsOf: url.appendingPathComponent(name), encoding: .utf8)
    }
}
