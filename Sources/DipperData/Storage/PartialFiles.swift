import Foundation
import Synchronization

/// The beginnings of bodies that were broken off: `partial/NAME`, one record each as for whole entries, written under
/// `staging` and renamed.
///
/// Bounded in size, number and age; the oldest go when the next one is written. Not listed in the index: losing them
/// costs no more than fetching them again.
final class PartialFiles: Sendable {
    private let root: Folder
    private let files: BlobFiles
    private let account = Mutex<PartialAccount?>(nil)
    private static let folderName = "partial"

    init(root: Folder, files: BlobFiles) {
        self.root = root
        self.files = files
    }

    func read(_ name: String) -> EntryRecord? {
        guard let folder = try? root.folder(Self.folderName), let file = try? FileWriting.read(name, in: folder) else {
            return nil
        }
        var isTaken = false
        let record = EntryRecord.decode(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        if record == nil { remove(name) }
        return record
    }

    /// Keeps a record, and makes room for it. One that is larger than the limit is not kept.
    func write(_ record: EntryRecord, named name: String, limit: Int, now: TimeInterval) throws(FileError) {
        let trailer = record.encodeTrailer()
        let size = record.value.data.count + trailer.count
        guard record.value.data.count <= limit else { return remove(name) }
        guard let staging = files.staging else { throw FileError("write", name, EROFS) }
        let folder = try root.makeFolder(Self.folderName)
        let removed = update(folder, now: now) { account in
            account.forget(name)
            return account.trim(
                to: max(0, limit - size), count: PartialAccount.mostFiles - 1, writtenAfter: now - Self.longestLife)
        }
        for name in removed { folder.remove(name) }
        try staging.write(name, body: record.value.data, trailer: trailer, .relaxed)
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

    /// Removes what is too old to be of use.
    func trimToLife(now: TimeInterval) { trim(writtenAfter: now - Self.longestLife, now: now) }

    func removeAll() { trim(writtenAfter: .infinity, now: 0) }

    /// Removes what was written before a moment.
    func trim(writtenAfter limit: TimeInterval, now: TimeInterval) {
        guard let folder = try? root.folder(Self.folderName) else { return }
        // Other processes' files go, too.
        account.withLock { $0 = nil }
        let removed = update(folder, now: now) {
            $0.trim(to: .max, count: PartialAccount.mostFiles, writtenAfter: limit)
        }
        for name in removed { folder.remove(name) }
    }

    /// Changes the account, which is read from the folder first if there is none, or if it has been in use for long.
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

/// The contents of the folder of partial files, as far as this process knows. A value.
struct PartialAccount {
    /// More are not kept, however small they are.
    static let mostFiles = 1_024

    private var files: [String: (size: Int, written: TimeInterval)] = [:]
    private(set) var size = 0
    /// Files written since the folder was listed.
    var writes = 0
    private let listedAt: TimeInterval

    init(listedAt: TimeInterval) {
        self.listedAt = listedAt
    }

    var count: Int { files.count }

    /// Whether other processes can hardly have changed much since the folder was listed.
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

    /// Forgets files that are too old, then the oldest until no more than this is left, and names them.
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
