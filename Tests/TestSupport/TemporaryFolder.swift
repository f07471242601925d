package import Foundation

/// A new, empty folder that only the user can read, deleted when the test releases it.
package final class TemporaryFolder: Sendable {
    package let url: URL

    package init() {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("dipper-\(UUID().uuidString)")
        try? FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    package var path: String { url.path }

    /// All files in the folder, as relative paths.
    package var files: [String] {
        (FileManager.default.subpaths(atPath: path) ?? []).filter { name in
            var isFolder: ObjCBool = false
            return FileManager.default.fileExists(atPath: path + "/" + name, isDirectory: &isFolder)
                && !isFolder.boolValue
        }
    }

    /// Writes a file and creates the folders above it.
    package func place(_ text: String, at name: String) throws {
        let file = url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
    }

    /// Returns the text of a file in the folder; `nil` if there is no such file.
    package func text(_ name: String) -> String? {
        try? String(contentsOf: url.appendingPathComponent(name), encoding: .utf8)
    }
}
