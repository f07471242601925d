import Foundation
import ProcessShims
import Synchronization

/// The name of a file in `blobs`, which is never used again: the number of the row, the identifier of the store that
/// wrote the file, the store's number for the file, and the name by ``FileNaming``.
struct BlobName {
    let text: String
    let id: Int
    let store: Substring

    init(id: Int, store: String, number: UInt64, _ name: String) {
        self.id = id
        self.store = store[...]
        text = "\(Folder.name(of: UInt64(bitPattern: Int64(id))))-\(store)-\(String(number, radix: 16))-\(name)"
    }

    /// `nil` if the cache cannot have made the name.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, Folder.isRandomName(parts[0]), Folder.isRandomName(parts[1]),
            let id = UInt64(parts[0], radix: 16), (1...16).contains(parts[2].utf8.count),
            Folder.isHexadecimal(parts[2]), KeyDigest.isPlainFileName(String(parts[3]))
        else { return nil }
        (self.text, self.id, store) = (text, Int(Int64(bitPattern: id)), parts[1])
    }

    var shard: String { Self.shard(text) }

    static func shard(_ text: String) -> String { String(text.prefix(2)) }
}

/// The files of bodies: `blobs/ab/NAME`. Once its row is there, a file is not changed; that of a body that arrives grows.
final class BlobFiles: Sendable {
    private let root: Folder
    private let blobs: Folder
    private let faults: (any DiskFaults)?
    let lock: StoreLock?
    private let written = Atomic<UInt64>(0)
    private let isRoomGivenUp = Atomic(false)
    private let hasRetried = Atomic(false)
    private let lastLinked = Atomic<UInt64>(0)
    /// Once is enough: `blobs` is created when the store is opened.
    private let isRootFlushed = Atomic(false)

    /// - Throws: `FileError` if the folder cannot be written; then nothing is open.
    init(root: Folder, faults: (any DiskFaults)? = nil) throws(FileError) {
        try faults?.check(.write, root.path)
        self.root = root
        self.faults = faults
        blobs = try root.makeFolder("blobs")
        lock = try StoreLock(in: root.makeFolder("stores"))
    }

    init(readingOnly root: Folder, faults: (any DiskFaults)? = nil) throws(FileError) {
        self.root = root
        self.faults = faults
        guard let blobs = try root.folder("blobs") else { throw FileError("open", root.path + "/blobs", ENOENT) }
        self.blobs = blobs
        lock = nil
    }

    var isReadOnly: Bool { lock == nil }

    var isWritableByGroup: Bool { root.status.st_mode & S_IWGRP != 0 }

    var isThere: Bool { isLinked && lock?.isThere != false }

    /// Whether nobody has deleted the folder: the cheapest question about it.
    var isLinked: Bool { blobs.status.st_nlink > 0 }

    /// As ``isLinked``, or was so up to 50 µs ago: of many reads in a row, few ask the kernel.
    var wasLinked: Bool {
        let now = DispatchTime.now().uptimeNanoseconds
        if now &- lastLinked.load(ordering: .relaxed) < 50_000 { return true }
        guard isLinked else { return false }
        lastLinked.store(now, ordering: .relaxed)
        return true
    }

    /// - Parameters:
    ///   - size: the expected size, in bytes; at most one byte more is read.
    ///   - mayGrow: whether the file may have become longer.
    func read(_ name: String, size: Int, mayGrow: Bool = false) throws(FileError) -> Data? {
        try faults?.check(.read, name)
        guard let path = Self.path(name) else { return nil }
        return try blobs.readFile(path, atMost: mayGrow ? size : size + 1)
    }

    func size(of name: String) throws(FileError) -> Int? {
        guard let path = Self.path(name), let (file, size) = try blobs.openFile(path) else { return nil }
        close(file)
        return size
    }

    /// Returns a name for a file of this store that has not been used.
    func newName(_ id: Int, _ name: String) throws(FileError) -> String {
        guard let lock else { throw FileError("write", name, EROFS) }
        return BlobName(id: id, store: lock.id, number: written.add(1, ordering: .relaxed).newValue, name).text
    }

    func write(_ body: Data, _ id: Int, _ name: String, _ durability: Durability) throws(FileError) -> String {
        try faults?.check(.write, name)
        if durability == .durable { try faults?.check(.flush, name) }
        let blob = try newName(id, name)
        let shard = try blobs.makeFolder(BlobName.shard(blob))
        try shard.writeFile(blob, body, isFlushed: durability == .durable)
        guard durability == .durable else { return blob }
        do throws(FileError) {
            try flushFolders(shard)
        } catch {
            shard.remove(blob)
            throw error
        }
        return blob
    }

    /// Makes a file longer that this store has written, or creates it.
    /// - Parameter count: the present size, in bytes; zero for a new file.
    /// - Returns: `false`, and nothing is written, if the file is not there or has another size.
    func append(_ pieces: [Data], to name: String, at count: Int) throws(FileError) -> Bool {
        let shard = try blobs.makeFolder(BlobName.shard(name))
        do throws(FileError) {
            try faults?.check(.write, name)
            return try shard.append(pieces, to: name, at: count)
        } catch {
            // A new file has no row yet.
            if count == 0 { shard.remove(name) }
            throw error
        }
    }

    /// Gives a file another name, on file systems without hard links in place of its name.
    /// - Returns: `false` if the file is not there.
    func link(_ name: String, as new: String, _ durability: Durability) throws(FileError) -> Bool {
        let shard = try blobs.makeFolder(BlobName.shard(new))
        guard
            linkat(shard.descriptor, name, shard.descriptor, new, 0) == 0
                || (errno != ENOENT && renameat(shard.descriptor, name, shard.descriptor, new) == 0)
        else {
            if errno == ENOENT { return false }
            throw FileError("link", name)
        }
        guard durability == .durable else { return true }
        do throws(FileError) {
            try flush(new)
        } catch {
            shard.remove(new)
            throw error
        }
        return true
    }

    func flush(_ name: String) throws(FileError) {
        try faults?.check(.flush, name)
        guard let shard = try folder(of: name), let (file, _) = try shard.openFile(name) else {
            throw FileError("open", name, ENOENT)
        }
        defer { close(file) }
        guard fdatasync(file) == 0 else { throw FileError("fdatasync", name) }
        try flushFolders(shard)
    }

    private func flushFolders(_ shard: Folder) throws(FileError) {
        try shard.flush()
        try blobs.flush()
        if isRootFlushed.load(ordering: .relaxed) { return }
        try root.flush()
        isRootFlushed.store(true, ordering: .relaxed)
    }

    /// Returns the names of the files that are still there.
    func remove(_ names: some Sequence<String>) -> [String] {
        names.filter { name in
            guard faults?.error(for: .remove) == nil else { return true }
            do {
                guard let shard = try folder(of: name) else { return false }
                return !shard.remove(name) && shard.entry(name) != nil
            } catch {
                return true
            }
        }
    }

    func shards() throws(FileError) -> [String] {
        try blobs.listing().filter { $0.utf8.count == 2 && Folder.isHexadecimal($0) }
    }

    func names(inShard shard: String) throws(FileError) -> [String] {
        guard blobs.entry(shard).map({ $0.st_mode & S_IFMT == S_IFDIR }) == true else { return [] }
        return try blobs.folder(shard)?.listing() ?? []
    }

    func isOpenElsewhere(_ store: some StringProtocol) -> Bool {
        guard let lock else { return true }
        return store != lock.id && lock.isOpen(store)
    }

    /// Gives another file the bytes of a body without a copy: it shares them until one of the files changes, on a file
    /// system that can do this, or else it is one more name of the body's file, and read-only. A file that has had another
    /// name already is not shared: somebody may have changed it, or may later.
    func share(_ name: String, size: Int, in folder: Folder, as other: String) -> Bool {
        guard let path = Self.path(name), let (file, known) = try? blobs.openFile(path) else { return false }
        defer { close(file) }
        var status = stat()
        guard known == size, fstat(file, &status) == 0, status.st_nlink == 1, status.st_mode & 0o777 == 0o600 else {
            return false
        }
        let clone = openat(folder.descriptor, other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard clone >= 0 else { return false }
        defer { close(clone) }
        if dipper_clone(file, clone) == 0 { return true }
        folder.remove(other)
        guard linkat(blobs.descriptor, path, folder.descriptor, other, 0) == 0 else { return false }
        // A program that writes in the file would change the entry.
        if fchmod(file, 0o400) == 0 { return true }
        folder.remove(other)
        return false
    }

    func location(_ name: String) -> String { "\(blobs.path)/\(BlobName.shard(name))/\(name)" }

    // MARK: Room

    static let reserve = "reserve"
    private static let reserveSize = 256 << 10
    static let mostGivenUp = 2 * reserveSize

    /// The size of the volume and what is free, in bytes; `nil` if the file system does not say.
    var volume: (size: Int, free: Int)? {
        var status = statvfs()
        guard fstatvfs(root.descriptor, &status) == 0, status.f_blocks > 0 else { return nil }
        let block = min(status.f_frsize, 1 << 20)
        return (Int(min(status.f_blocks, 1 << 40) * block), Int(min(status.f_bavail, 1 << 40) * block))
    }

    /// Whether removals must do with the room that has been given up for them.
    var isTight: Bool { isRoomGivenUp.load(ordering: .relaxed) }

    func keepReserve() {
        guard lock != nil, !(isTight && faults?.error(for: .write) != nil) else { return }
        let file = openat(
            root.descriptor, Self.reserve, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
        let code = file < 0 ? errno : posix_fallocate(file, 0, off_t(Self.reserveSize))
        if file >= 0 { close(file) }
        if FileError.isFull(code) { root.remove(Self.reserve) }
        isRoomGivenUp.store(FileError.isFull(code), ordering: .relaxed)
        if code == 0 { hasRetried.store(false, ordering: .relaxed) }
    }

    /// Gives up the reserve, for a removal on a full disk; without one, files of bodies, whose rows then count as
    /// absent: as many as the reserve has bytes, whatever the file system says is free then. A snapshot may keep them,
    /// another program may take them, and a quota does not show in what is free.
    /// - Parameter most: the size of the files to give up, in bytes.
    /// - Returns: the size of the files given up; `nil` if it is no use to try again.
    func giveUpRoom(bodies most: Int) -> Int? {
        isRoomGivenUp.store(true, ordering: .relaxed)
        if root.remove(Self.reserve) { return 0 }
        // Another process may have given up the reserve just now.
        if let free = volume?.free, free >= Self.reserveSize, !hasRetried.exchange(true, ordering: .relaxed) {
            return 0
        }
        let most = min(most, Self.reserveSize)
        var given = 0
        for shard in most > 0 ? (try? shards()) ?? [] : [] where given < most {
            for name in (try? names(inShard: shard)) ?? [] where given < most && BlobName(name) != nil {
                if let size = try? size(of: name), remove([name]).isEmpty { given += size }
            }
        }
        return given > 0 ? given : nil
    }

    /// `nil` for a name from a damaged index that might lead elsewhere.
    private static func path(_ name: String) -> String? {
        name.utf8.contains(UInt8(ascii: "/")) || name.hasPrefix(".") || name.utf8.count > 255
            ? nil : "\(BlobName.shard(name))/\(name)"
    }

    private func folder(of name: String) throws(FileError) -> Folder? {
        guard let name = BlobName(name) else { return nil }
        return try blobs.folder(name.shard)
    }
}
