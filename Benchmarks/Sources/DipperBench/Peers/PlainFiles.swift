import Foundation

/// A minimal store with one file per entry, in 256 folders. Files are written under another name and renamed, without
/// fsync.
struct PlainFiles {
    private let root: String

    init(root: String) throws {
        self.root = root
        try FileManager.default.createDirectory(atPath: root + "/new", withIntermediateDirectories: true)
        for shard in 0..<256 { mkdir(root + "/" + String(format: "%02x", shard), 0o700) }
    }

    /// Returns the path of the entry with a digest as its name.
    func path(_ name: String) -> String { "\(root)/\(name.prefix(2))/\(name)" }

    func write(_ data: Data, _ name: String, to path: String) throws {
        try Self.write(data, beside: root + "/new/" + name, to: path)
    }

    static func write(_ data: Data, beside temporary: String, to path: String) throws {
        let file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw BenchError("\(temporary) cannot be made") }
        let written = data.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        guard close(file) == 0, written == data.count, rename(temporary, path) == 0 else {
            throw BenchError("\(path) cannot be written")
        }
    }

    static func read(_ path: String) throws -> Data {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw BenchError("\(path) cannot be opened") }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, let bytes = malloc(max(1, Int(status.st_size))) else {
            throw BenchError("\(path) cannot be read")
        }
        let size = Int(status.st_size)
        guard Glibc.read(file, bytes, size) == size else {
            free(bytes)
            throw BenchError("\(path) cannot be read")
        }
        return Data(bytesNoCopy: bytes, count: size, deallocator: .free)
    }
}
