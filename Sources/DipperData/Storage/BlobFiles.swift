import Foundation
import Synchronization

/// The entry files of the disk tier: `blobs/ab/NAME`. Each contains one record, which is written under `staging` and
/// then renamed.
final class BlobFiles: Sendable {
    private let root: Folder
    private let blobs: Folder
    let faults: (any DiskFaults)?
    /// The staging folder; `nil` if the store cannot be written.
    let staging: StagingFolder?
    /// Whether the root folder has been flushed to the device. Once is enough, because `blobs` is created when the
    /// store is opened.
    private let isRootFlushed = Atomic(false)
    /// Whether an earlier store in this folder ended without closing: its process was killed, or the power failed.
    let foundAbandoned: Bool

    /// Opens the folders and creates those that are missing.
    /// - Throws: `FileError` if the folder cannot be written; then nothing is open.
    init(root: Folder, faults: (any DiskFaults)? = nil) throws(FileError) {
        try faults?.check(.write, root.path)
        self.root = root
        self.faults = faults
        blobs = try root.makeFolder("blobs")
        let staging = try StagingFolder(in: root.makeFolder("staging"))
        self.staging = staging
        foundAbandoned = staging.removeAbandoned()
    }

    /// Opens an existing store that cannot be written. Every write fails.
    init(readingOnly root: Folder, faults: (any DiskFaults)? = nil) throws(FileError) {
        self.root = root
        self.faults = faults
        guard let blobs = try root.folder("blobs") else { throw FileError("open", root.path + "/blobs", ENOENT) }
        self.blobs = blobs
        staging = nil
        foundAbandoned = false
    }

    var isReadOnly: Bool { staging == nil }

    // MARK: Single files

    /// Returns the bytes of a file; `nil` if there is no such file. The memory is from `malloc`, and the caller takes
    /// it over.
    func read(_ name: String) throws(FileError) -> FileBytes? {
        try faults?.check(.read, name)
        guard let shard = try folder(of: name) else { return nil }
        return try FileWriting.read(name, in: shard)
    }

    /// Returns the size of a file and the metadata of its record, without the body; `nil` if there is no file or it is
    /// not a record. The metadata of an encoded record is its label.
    func readMetadata(_ name: String) -> (size: Int, isEncoded: Bool, bytes: [UInt8])? {
        if faults?.error(for: .read) != nil { return nil }
        guard let shard = try? folder(of: name), let (file, size) = try? shard.openFile(name) else { return nil }
        defer { close(file) }
        var tail = [UInt8](repeating: 0, count: min(size, 4_096))
        guard pread(file, &tail, tail.count, off_t(size - tail.count)) == tail.count,
            let layout = tail.withUnsafeBytes({ EntryRecord.layout($0, size: size) })
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: layout.metadata)
        guard pread(file, &bytes, layout.metadata, off_t(layout.body)) == layout.metadata else { return nil }
        return (size, layout.isEncoded, bytes)
    }

    /// Returns the row that a file's metadata describes; `nil` if the file is not a record. Needs no codec.
    func row(of name: String) -> EntryIndex.Row? {
        guard let file = readMetadata(name),
            let label = file.bytes.withUnsafeBytes({ RecordLabel($0, isEncoded: file.isEncoded) })
        else { return nil }
        return EntryIndex.Row(
            name: name, key: label.key.string, url: label.url, size: file.size, stored: label.stored,
            accessed: label.stored, lifetime: label.lifetime)
    }

    /// Returns whether a file is a record with a valid checksum. Reads the whole file, and needs no codec.
    func isWhole(_ name: String) -> Bool {
        guard let file = try? read(name) else { return false }
        defer { free(file.bytes) }
        let bytes = UnsafeRawBufferPointer(start: file.bytes, count: file.count)
        return RecordFormat().decode(bytes) { _ in Data() }.key != nil
    }

    /// Returns the size of a file in bytes; `nil` if there is none.
    func size(of name: String) -> Int? {
        guard let shard = try? folder(of: name) else { return nil }
        return shard.file(name).map { Int($0.st_size) }
    }

    func exists(_ name: String) -> Bool { size(of: name) != nil }

    /// Returns the layout of the record in a file; `nil` if there is no file or it is not a record.
    func layout(of name: String) -> EntryRecord.Layout? {
        (try? folder(of: name)).flatMap { Self.layout(of: name, in: $0) }
    }

    private static func layout(of name: String, in folder: Folder) -> EntryRecord.Layout? {
        guard let (file, size) = try? folder.openFile(name) else { return nil }
        defer { close(file) }
        var footer = [UInt8](repeating: 0, count: min(size, EntryRecord.footerSize))
        guard pread(file, &footer, footer.count, off_t(size - footer.count)) == footer.count else { return nil }
        return footer.withUnsafeBytes { EntryRecord.layout($0, size: size) }
    }

    /// Writes a record to the staging folder, where readers do not see it. A durable record is on the device when this
    /// returns.
    func stage(
        _ name: String, body: Data, trailer: [UInt8], _ durability: Durability = .relaxed
    ) throws(FileError) {
        try faults?.check(.write, name)
        if durability == .durable { try faults?.check(.flush, name) }
        guard let staging else { throw FileError("write", name, EROFS) }
        try staging.write(name, body: body, trailer: trailer, durability)
    }

    /// Moves a staged record into place in one step, where it replaces the file of that name. A durable record is still
    /// there after a power cut when this returns. If the move fails, the staged record is removed.
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

    /// Flushes the file of that name, if there is one, and its folders to the device.
    func flush(_ name: String) throws(FileError) {
        try faults?.check(.flush, name)
        if let (file, _) = try folder(of: name)?.openFile(name) {
            defer { close(file) }
            guard fdatasync(file) == 0 else { throw FileError("fdatasync", name) }
        }
        try flushFolders(of: name)
    }

    /// Removes a staged record that will not be put in place.
    func unstage(_ name: String) { staging?.discard(name) }

    /// Flushes the folders of a name to the device, so that a renaming or a removal under that name survives a power
    /// cut.
    func flushFolders(of name: String) throws(FileError) {
        try folder(of: name)?.flush()
        try blobs.flush()
        if isRootFlushed.load(ordering: .relaxed) { return }
        try root.flush()
        isRootFlushed.store(true, ordering: .relaxed)
    }

    /// Removes the file of that name. Returns `true` if there was one.
    @discardableResult
    func remove(_ name: String) -> Bool {
        guard faults?.error(for: .remove) == nil, let shard = try? folder(of: name) else { return false }
        return shard.remove(name)
    }

    /// Returns whether the cache can have made the file: its name is a digest, or its bytes end as those of a record
    /// do.
    func isEntry(_ name: String) -> Bool { KeyDigest.isDigest(name) || layout(of: name) != nil }

    /// Returns whether the cache can have made a file in another folder of records.
    static func isEntry(_ name: String, in folder: Folder) -> Bool {
        KeyDigest.isDigest(name) || layout(of: name, in: folder) != nil
    }

    // MARK: Listing

    /// Returns the names of the existing two-character folders, sorted.
    func shards() -> [String] { blobs.names().filter { $0.utf8.count == 2 && $0 != ".." }.sorted() }

    /// Returns the names of the files in a shard that entries can have.
    func names(inShard shard: String) -> [String] {
        guard let folder = try? blobs.folder(shard) else { return [] }
        return folder.names().filter { KeyDigest.isPlainFileName($0) && Self.shard(of: $0) == shard }
    }

    /// Returns the path of an entry's file.
    func location(_ name: String) -> String { "\(blobs.path)/\(Self.shard(of: name))/\(name)" }

    static func shard(of name: String) -> String {
        let first = name.prefix(2)
        return first.utf8.count == 2 && !first.contains(".") ? String(first) : "__"
    }

    private func folder(of name: String) throws(FileError) -> Folder? { try blobs.folder(Self.shard(of: name)) }
}
