import Foundation
import Synchronization

/// The files of the disk tier: `blobs/ab/NAME`, one record each, written under `staging` and renamed.
final class BlobFiles: Sendable {
    private let root: Folder
    private let blobs: Folder
    /// `nil` if the store cannot be written.
    let staging: StagingFolder?
    /// The folder above those of the files is flushed.
    private let isRootFlushed = Atomic(false)
    /// A store that was open here has ended without closing: killed, or by a power cut.
    let foundAbandoned: Bool

    /// Creates what is missing.
    /// - Throws: `FileError` if the folder cannot be written; then nothing is open.
    init(root: Folder) throws(FileError) {
        self.root = root
        blobs = try root.makeFolder("blobs")
        let staging = try StagingFolder(in: root.makeFolder("staging"))
        self.staging = staging
        foundAbandoned = staging.removeAbandoned()
    }

    /// Opens an existing store that cannot be written; every write fails.
    init(readingOnly root: Folder) throws(FileError) {
        self.root = root
        guard let blobs = try root.folder("blobs") else { throw FileError("open", root.path + "/blobs", ENOENT) }
        self.blobs = blobs
        staging = nil
        foundAbandoned = false
    }

    var isReadOnly: Bool { staging == nil }

    // MARK: One file

    /// The whole file, in memory from `malloc` that the caller takes over; `nil` if there is no such file.
    func read(_ name: String) throws(FileError) -> FileBytes? {
        guard let shard = try folder(of: name) else { return nil }
        return try FileWriting.read(name, in: shard)
    }

    /// The metadata of a file and its size, without its body; `nil` if there is no file or it is no record.
    func readMetadata(_ name: String) -> (size: Int, bytes: [UInt8])? {
        guard let shard = try? folder(of: name), let (file, size) = try? shard.openFile(name) else { return nil }
        defer { close(file) }
        var tail = [UInt8](repeating: 0, count: min(size, 4_096))
        guard pread(file, &tail, tail.count, off_t(size - tail.count)) == tail.count,
            let (body, metadata, _) = tail.withUnsafeBytes({ EntryRecord.layout($0, size: size) })
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: metadata)
        guard pread(file, &bytes, metadata, off_t(body)) == metadata else { return nil }
        return (size, bytes)
    }

    /// The row that a file says it has; `nil` if it is no record.
    func row(of name: String) -> EntryIndex.Row? {
        guard let file = readMetadata(name),
            let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) })
        else { return nil }
        return EntryIndex.Row(
            name: name, key: head.key.string, url: head.info.url, size: file.size, stored: head.info.stored,
            accessed: head.info.stored, lifetime: head.lifetime)
    }

    /// Whether a file is a record with the right checksum. Reads all of it.
    func isWhole(_ name: String) -> Bool {
        guard let file = try? read(name) else { return false }
        defer { free(file.bytes) }
        let bytes = UnsafeRawBufferPointer(start: file.bytes, count: file.count)
        return EntryRecord.decode(bytes) { _ in Data() } != nil
    }

    /// The size of a file; `nil` if there is none.
    func size(of name: String) -> Int? {
        guard let shard = try? folder(of: name) else { return nil }
        return shard.file(name).map { Int($0.st_size) }
    }

    func exists(_ name: String) -> Bool { size(of: name) != nil }

    /// How the body in a file is compressed; `nil` if there is no file or it is no record.
    func coding(of name: String) -> StorageCompression.Coding? {
        (try? folder(of: name)).flatMap { Self.coding(of: name, in: $0) }
    }

    private static func coding(of name: String, in folder: Folder) -> StorageCompression.Coding? {
        guard let (file, size) = try? folder.openFile(name) else { return nil }
        defer { close(file) }
        var footer = [UInt8](repeating: 0, count: min(size, EntryRecord.footerSize))
        guard pread(file, &footer, footer.count, off_t(size - footer.count)) == footer.count else { return nil }
        return footer.withUnsafeBytes { EntryRecord.layout($0, size: size)?.coding }
    }

    /// Writes a record where it is not seen yet. The bytes of a durable one are on the device when this returns.
    func stage(
        _ name: String, body: Data, trailer: [UInt8], _ durability: Durability = .relaxed
    ) throws(FileError) {
        guard let staging else { throw FileError("write", name, EROFS) }
        try staging.write(name, body: body, trailer: trailer, durability)
    }

    /// Puts the record that was staged in place of the one of that name, in one step. A durable one stays there after a
    /// power cut when this returns.
    func place(_ name: String, _ durability: Durability = .relaxed) throws(FileError) {
        guard let staging else { throw FileError("rename", name, EROFS) }
        do throws(FileError) {
            try staging.place(name, in: blobs.makeFolder(Self.shard(of: name)))
        } catch {
            staging.discard(name)
            throw error
        }
        if durability == .durable { try flushFolders(of: name) }
    }

    /// Returns when the file of that name, if there is one, will be there after a power cut.
    func flush(_ name: String) throws(FileError) {
        if let (file, _) = try folder(of: name)?.openFile(name) {
            defer { close(file) }
            guard fdatasync(file) == 0 else { throw FileError("fdatasync", name) }
        }
        try flushFolders(of: name)
    }

    /// Removes a record that was staged and is not to be put in place.
    func unstage(_ name: String) { staging?.discard(name) }

    /// Returns when what has been renamed or removed under this name will stay so after a power cut.
    func flushFolders(of name: String) throws(FileError) {
        try folder(of: name)?.flush()
        try blobs.flush()
        if isRootFlushed.load(ordering: .relaxed) { return }
        try root.flush()
        isRootFlushed.store(true, ordering: .relaxed)
    }

    /// True if there was such a file.
    @discardableResult
    func remove(_ name: String) -> Bool {
        guard let shard = try? folder(of: name) else { return false }
        return shard.remove(name)
    }

    /// Whether the cache can have made the file: its name is a digest, or its bytes end as those of a record do.
    func isEntry(_ name: String) -> Bool { KeyDigest.isDigest(name) || coding(of: name) != nil }

    /// The same for a file in another folder of records.
    static func isEntry(_ name: String, in folder: Folder) -> Bool {
        KeyDigest.isDigest(name) || coding(of: name, in: folder) != nil
    }

    // MARK: All files

    /// The names of the two-letter folders that exist, in order.
    func shards() -> [String] { blobs.names().filter { $0.utf8.count == 2 && $0 != ".." }.sorted() }

    /// The names of files that entries can have.
    func names(inShard shard: String) -> [String] {
        guard let folder = try? blobs.folder(shard) else { return [] }
        return folder.names().filter { KeyDigest.isPlainFileName($0) && Self.shard(of: $0) == shard }
    }

    /// Where a record lies.
    func location(_ name: String) -> String { "\(blobs.path)/\(Self.shard(of: name))/\(name)" }

    static func shard(of name: String) -> String {
        let first = name.prefix(2)
        return first.utf8.count == 2 && !first.contains(".") ? String(first) : "__"
    }

    private func folder(of name: String) throws(FileError) -> Folder? { try blobs.folder(Self.shard(of: name)) }
}
