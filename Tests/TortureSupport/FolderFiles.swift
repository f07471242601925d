import Foundation

/// The files in a cache's folder, read without the cache.
public struct FolderFiles {
    /// The sizes of the records' files by path, in bytes.
    public private(set) var records: [String: Int] = [:]
    public private(set) var partials = 0
    public private(set) var indexFiles: [String] = []
    public private(set) var hasBrokenIndex = false
    public private(set) var indexIdentity: UInt64?
    /// Files and folders that users other than the owner can access.
    public private(set) var open: [String] = []

    public init(_ folder: URL) {
        for path in (try? FileManager.default.subpathsOfDirectory(atPath: folder.path)) ?? [] {
            var status = stat()
            guard lstat(folder.path + "/" + path, &status) == 0 else { continue }
            if status.st_mode & 0o077 != 0 { open.append(path) }
            guard status.st_mode & S_IFMT == S_IFREG else { continue }
            if path.hasPrefix("index-") { hasBrokenIndex = true }
            if path == "index.sqlite" { indexIdentity = UInt64(status.st_ino) }
            if path.hasPrefix("index"), path.hasSuffix(".sqlite") || path.hasSuffix("-wal") {
                indexFiles.append(folder.path + "/" + path)
            }
            guard path.hasPrefix("blobs/") else { continue }
            if path.hasSuffix("-partial") {
                partials += 1
            } else {
                records[folder.path + "/" + path] = Int(status.st_size)
            }
        }
    }

    public var recordBytes: Int { records.values.reduce(0, +) }
}
