import Foundation

/// The files in a cache's folder, read without the cache.
struct FolderFiles {
    private(set) var records: [String] = []
    private(set) var recordBytes = 0
    private(set) var partials = 0
    private(set) var indexFiles: [String] = []
    private(set) var hasBrokenIndex = false
    private(set) var indexIdentity: UInt64?
    /// Files and folders that users other than the owner can access.
    private(set) var open: [String] = []

    init(_ folder: URL) {
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
                continue
            }
            recordBytes += Int(status.st_size)
            records.append(folder.path + "/" + path)
        }
    }
}
