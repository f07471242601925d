import Foundation
import Synchronization

/// The files of partial bodies, which interrupted transfers leave: `partial/NAME`. Each contains one record in the
/// format of complete entries, which is written under `staging` and then renamed. A record codec encodes them, too.
///
/// Their size, number and age are limited; writing a file removes the oldest ones. The index does not list them,
/// because losing one costs no more than fetching it again.
final class PartialFiles: Sendable {
    private let root: Folder
    private let files: BlobFiles
    private let format: RecordFormat
    private let account = Mutex<PartialAccount?>(nil)
    private static let folderName = "partial"

    /// - Parameter codec: the codec that encodes the records; `nil` for none.
    init(root: Folder, files: BlobFiles, codec: (any RecordCodec)?) {
        self.root = root
        self.files = files
        // Only a body as it came can be continued.
        format = RecordFormat(compression: .off, codec: codec)
    }

    func read(_ name: String) -> EntryRecord? {
        if files.faults?.error(for: .read) != nil { return nil }
        guard let folder = try? root.folder(Self.folderName), let file = try? FileWriting.read(name, in: folder) else {
            return nil
        }
        var isTaken = false
        let reading = format.decode(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        if reading.key == nil { remove(name) }
        return reading.record
    }

    /// Writes a record and makes room for it. A record whose body is larger than `limit` bytes is not kept, and neither
    /// is the earlier one of that name.
    func write(_ record: EntryRecord, named name: String, limit: Int, now: TimeInterval) throws {
        guard record.value.data.count <= limit else { return remove(name) }
        let (body, trailer) = try format.encode(record)
        let size = body.count + trailer.count
        try files.faults?.check(.write, name)
        guard let staging = files.staging else { throw FileError("write", name, EROFS) }
        let folder = try root.makeFolder(Self.folderName)
        let removed = update(folder, now: now) { account in
            account.forget(name)
            return account.trim(
                to: max(0, limit - size), count: PartialAccount.mostFiles - 1, writtenAfter: now - Self.longestLife)
        }
        for name in removed { folder.remove(name) }
        try staging.write(name, body: body, trailer: trailer, .relaxed)
        do throws(FileError) {
            try staging.place(name, in: folder)
        } catch {
            staging.discard(name)
            throw error
        }
        update(folder, now: now) { $0.note(name, size: size, written: now) }
    }

    func remove(_ name: String) {
        guard let folder = try? root.folder(Self.folderName) else { return }
        folder.remove(name)
        account.withLock { $0?.forget(name) }
    }

    /// Removes partial bodies that were written more than seven days ago.
    func trimToLife(now: TimeInterval) { trim(writtenAfter: now - Self.longestLife, now: now) }

    func removeAll() { trim(writtenAfter: .infinity, now: 0) }

    /// Removes partial bodies that were written before `limit`, in seconds since 1970.
    func trim(writtenAfter limit: TimeInterval, now: TimeInterval) {
        guard let folder = try? root.folder(Self.folderName) else { return }
        // Without the account the folder is listed again, so that files of other processes are removed, too.
        account.withLock { $0 = nil }
        let removed = update(folder, now: now) {
            $0.trim(to: .max, count: PartialAccount.mostFiles, writtenAfter: limit)
        }
        for name in removed { folder.remove(name) }
    }

    /// Changes the account. If there is none, or if it is out of date, lists the folder first.
    private func update<Result>(
        _ folder: Folder, now: TimeInterval, _ body: (inout PartialAccount) -> Result
    ) -> Result {
        let isCurrent = account.withLock { $0?.isCurrent(at: now) ?? false }
        let listed = isCurrent ? nil : Self.list(folder, now: now)
        return account.withLock { account in
            var current = listed ?? account ?? PartialAccount(listedAt: now)
            defer { account = current }
            return body(&current)
        }
    }

    private static func list(_ folder: Folder, now: TimeInterval) -> PartialAccount {
        var account = PartialAccount(listedAt: now)
        for name in folder.names() where KeyDigest.isPlainFileName(name) {
            guard BlobFiles.isEntry(name, in: folder), let status = folder.file(name) else { continue }
            let written = TimeInterval(status.st_mtim.tv_sec) + TimeInterval(status.st_mtim.tv_nsec) / 1e9
            account.note(name, size: Int(status.st_size), written: written)
        }
        account.writes = 0
        return account
    }

    private static let longestLife: TimeInterval = 7 * 86_400
}

/// The contents of the folder of partial bodies, as far as this process knows them. A value.
struct PartialAccount {
    /// The largest number of files, however small they are.
    static let mostFiles = 1_024

    private var files: [String: (size: Int, written: TimeInterval)] = [:]
    private(set) var size = 0
    /// The number of files written since the folder was listed.
    var writes = 0
    private let listedAt: TimeInterval

    init(listedAt: TimeInterval) {
        self.listedAt = listedAt
    }

    var count: Int { files.count }

    /// Returns whether the account is recent enough: since the folder was listed, fewer than 256 files have been
    /// written and less than ten minutes have passed, so that other processes can hardly have changed much.
    func isCurrent(at time: TimeInterval) -> Bool { writes < 256 && abs(time - listedAt) < 600 }

    mutating func note(_ name: String, size: Int, written: TimeInterval) {
        forget(name)
        files[name] = (size, written)
        self.size += size
        writes += 1
    }

    mutating func forget(_ name: String) {
        if let old = files.removeValue(forKey: name) { size -= old.size }
    }

    /// Forgets the files written before `limit`, then the oldest until at most `most` bytes and `count` files are left.
    /// Returns the names of all forgotten files.
    mutating func trim(to most: Int, count: Int, writtenAfter limit: TimeInterval) -> [String] {
        var removed = files.filter { $0.value.written < limit }.map(\.key)
        for name in removed { forget(name) }
        guard size > most || files.count > count else { return removed }
        for (name, _) in files.sorted(by: { $0.value.written < $1.value.written }) {
            guard size > most || files.count > count else { break }
            forget(name)
            removed.append(name)
        }
        return removed
    }
}
