import Foundation
import Synchronization

/// The files of the disk tier: `blobs/ab/NAME`, one record each, written beside and renamed.
///
/// Files are written in a folder of this store's own under `staging`, which holds a lock as long as the process
/// lives. Whoever opens the store removes the folders whose lock is gone, so that no half-written file outlives
/// its writer.
final class BlobFiles: Sendable {
    private let root: String
    private let blobs: Int32
    private let staging: Int32
    private let stagingName: String?
    /// The folders above those of the files are flushed.
    private let isRootFlushed = Atomic(false)

    /// Creates what is missing.
    /// - Throws: `FileError` if the folder cannot be written; then nothing is open.
    init(root: String) throws(FileError) {
        self.root = root
        try Self.makeFolder(root)
        try Self.makeFolder(root + "/blobs")
        try Self.makeFolder(root + "/staging")
        let blobs = open(root + "/blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard blobs >= 0 else { throw FileError("open", root + "/blobs") }
        do {
            (staging, stagingName) = try Self.claimStaging(root + "/staging")
        } catch {
            close(blobs)
            throw error
        }
        self.blobs = blobs
        removeAbandonedStaging()
    }

    /// Opens an existing store that cannot be written; every write fails.
    init(readingOnly root: String) throws(FileError) {
        self.root = root
        blobs = open(root + "/blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard blobs >= 0 else { throw FileError("open", root + "/blobs") }
        staging = -1
        stagingName = nil
    }

    var isReadOnly: Bool { stagingName == nil }

    deinit {
        if let stagingName {
            removeContents(ofStaging: stagingName)
            close(staging)
        }
        close(blobs)
    }

    // MARK: One file

    /// The whole file, in memory from `malloc` that the caller takes over; `nil` if there is no such file.
    func read(_ name: String) throws(FileError) -> (bytes: UnsafeMutableRawPointer, count: Int)? {
        try Self.read(path(name), in: blobs)
    }

    /// The same for any file in a folder.
    static func read(
        _ name: String, in folder: Int32
    ) throws(FileError) -> (bytes: UnsafeMutableRawPointer, count: Int)? {
        let file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw FileError("open", name)
        }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw FileError("fstat", name) }
        // Anything else that somebody has put there might never end.
        guard status.st_mode & S_IFMT == S_IFREG else { return nil }
        let size = Int(status.st_size)
        guard let bytes = malloc(max(size, 1)) else { throw FileError("malloc", name) }
        var count = 0
        while count < size {
            let read = Glibc.read(file, bytes + count, size - count)
            if read == 0 { break }
            if read < 0 {
                if errno == EINTR { continue }
                let error = FileError("read", name)
                free(bytes)
                throw error
            }
            count += read
        }
        return (bytes, count)
    }

    /// The metadata of a file and its size, without its body; `nil` if there is no file or it is no record.
    func readMetadata(_ name: String) -> (size: Int, bytes: [UInt8])? {
        let file = openat(blobs, path(name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        let size = Int(status.st_size)
        var tail = [UInt8](repeating: 0, count: min(size, 4_096))
        guard pread(file, &tail, tail.count, off_t(size - tail.count)) == tail.count,
            let (body, metadata, _) = tail.withUnsafeBytes({ EntryRecord.layout($0, size: size) })
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: metadata)
        guard pread(file, &bytes, metadata, off_t(body)) == metadata else { return nil }
        return (size, bytes)
    }

    func exists(_ name: String) -> Bool {
        faccessat(blobs, path(name), F_OK, 0) == 0
    }

    /// How the body in a file is compressed; `nil` if there is no file or it is no record.
    func coding(of name: String) -> StorageCompression.Coding? {
        let file = openat(blobs, path(name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        let size = Int(status.st_size)
        var footer = [UInt8](repeating: 0, count: min(size, EntryRecord.footerSize))
        guard pread(file, &footer, footer.count, off_t(size - footer.count)) == footer.count else { return nil }
        return footer.withUnsafeBytes { EntryRecord.layout($0, size: size)?.coding }
    }

    /// Writes a record and puts it in place of the one of that name, in one step. A durable one is on
    /// the device when this returns.
    func write(
        _ name: String, body: Data, trailer: [UInt8], _ durability: Durability = .relaxed
    ) throws(FileError) {
        let file = openat(staging, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw FileError("create", name) }
        var failure = Self.write(body, trailer, to: file, name)
        if failure == nil, durability == .durable, fdatasync(file) != 0 { failure = FileError("fdatasync", name) }
        if close(file) != 0, failure == nil { failure = FileError("close", name) }
        if failure == nil, !moveIntoPlace(name) { failure = FileError("rename", name) }
        if let failure {
            unlinkat(staging, name, 0)
            throw failure
        }
        if durability == .durable { try flushFolders(of: name) }
    }

    /// Sees to it that what has been renamed or removed under this name stays so after a power cut.
    func flushFolders(of name: String) throws(FileError) {
        let shard = String(Self.shard(of: name))
        let folder = openat(blobs, shard, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if folder >= 0 {
            defer { close(folder) }
            try Self.flush(folder, shard)
        } else if errno != ENOENT {
            throw FileError("open", shard)
        }
        try Self.flush(blobs, "blobs")
        if isRootFlushed.load(ordering: .relaxed) { return }
        for path in [root, (root as NSString).deletingLastPathComponent] {
            let folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard folder >= 0 else { continue }
            defer { close(folder) }
            try Self.flush(folder, path)
        }
        isRootFlushed.store(true, ordering: .relaxed)
    }

    private static func flush(_ folder: Int32, _ path: String) throws(FileError) {
        // Some file systems know no such thing for folders.
        guard fsync(folder) == 0 || errno == EINVAL else { throw FileError("fsync", path) }
    }

    private func moveIntoPlace(_ name: String) -> Bool {
        let target = path(name)
        if renameat(staging, name, blobs, target) == 0 { return true }
        guard errno == ENOENT else { return false }
        _ = mkdirat(blobs, String(Self.shard(of: name)), 0o700)
        return renameat(staging, name, blobs, target) == 0
    }

    /// Writes all of both; `nil` if that went well.
    static func write(_ body: Data, _ trailer: [UInt8], to file: Int32, _ name: String) -> FileError? {
        body.withUnsafeBytes { body in
            trailer.withUnsafeBytes { trailer -> FileError? in
                var parts = [
                    iovec(iov_base: .init(mutating: body.baseAddress), iov_len: body.count),
                    iovec(iov_base: .init(mutating: trailer.baseAddress), iov_len: trailer.count),
                ][...]
                while let first = parts.first {
                    if first.iov_len == 0 {
                        parts.removeFirst()
                        continue
                    }
                    var written = parts.withUnsafeBufferPointer { writev(file, $0.baseAddress, Int32($0.count)) }
                    if written < 0 {
                        if errno == EINTR { continue }
                        return FileError("write", name)
                    }
                    while written > 0, let part = parts.first {
                        let taken = min(written, part.iov_len)
                        parts[parts.startIndex].iov_len -= taken
                        parts[parts.startIndex].iov_base = part.iov_base.map { $0 + taken }
                        written -= taken
                        if taken == part.iov_len { parts.removeFirst() }
                    }
                }
                return nil
            }
        }
    }

    /// True if there was such a file.
    @discardableResult
    func remove(_ name: String) -> Bool {
        unlinkat(blobs, path(name), 0) == 0
    }

    // MARK: All files

    /// The names of the two-letter folders that exist.
    func shards() -> [String] {
        Self.names(in: root + "/blobs")
    }

    func names(inShard shard: String) -> [String] {
        Self.names(in: root + "/blobs/" + shard)
    }

    /// Where a record lies.
    func location(_ name: String) -> String { root + "/blobs/" + path(name) }

    static func shard(of name: String) -> Substring {
        let first = name.prefix(2)
        return first.utf8.count == 2 && !first.contains(".") ? first : "__"
    }

    private func path(_ name: String) -> String { "\(Self.shard(of: name))/\(name)" }

    // MARK: Folders

    static func makeFolder(_ path: String) throws(FileError) {
        if mkdir(path, 0o700) == 0 || errno == EEXIST { return }
        guard errno == ENOENT else { throw FileError("mkdir", path) }
        let parent = (path as NSString).deletingLastPathComponent
        guard !parent.isEmpty, parent != path else { throw FileError("mkdir", path) }
        try makeFolder(parent)
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw FileError("mkdir", path) }
    }

    private static func claimStaging(_ folder: String) throws(FileError) -> (Int32, String) {
        for _ in 0..<100 {
            let name = String(UInt64.random(in: .min ... .max), radix: 36)
            let path = folder + "/" + name
            guard mkdir(path, 0o700) == 0 else {
                if errno == EEXIST { continue }
                throw FileError("mkdir", path)
            }
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            // Somebody who is cleaning up may have taken it for abandoned between the two calls.
            var status = stat()
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0, status.st_nlink > 0,
                access(path, F_OK) == 0
            {
                return (descriptor, name)
            }
            close(descriptor)
        }
        throw FileError("claim", folder)
    }

    /// Whether another store that may write is open on the folder, in this process or in another.
    func hasOtherWriters() -> Bool {
        Self.names(in: root + "/staging").contains { name in
            guard name != stagingName else { return false }
            let descriptor = open(root + "/staging/" + name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { return false }
            defer { close(descriptor) }
            return flock(descriptor, LOCK_EX | LOCK_NB) != 0
        }
    }

    private func removeAbandonedStaging() {
        for name in Self.names(in: root + "/staging") where name != stagingName {
            let descriptor = open(root + "/staging/" + name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { removeContents(ofStaging: name) }
            close(descriptor)
        }
    }

    private func removeContents(ofStaging name: String) {
        let folder = root + "/staging/" + name
        for file in Self.names(in: folder) { unlink(folder + "/" + file) }
        rmdir(folder)
    }

    static func names(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}

/// A system call that failed on a file.
struct FileError: Error, CustomStringConvertible {
    let call: String
    let path: String
    let code: Int32

    init(_ call: String, _ path: String) {
        code = errno
        self.call = call
        self.path = path
    }

    var description: String { "\(call) \(path): \(String(cString: strerror(code)))" }
}
