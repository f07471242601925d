import Foundation
import GRDB

/// Tells one file from another of the same name.
struct FileIdentity: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64

    /// `nil` if there is no file.
    init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
    }
}

/// Opening, and opening again when something was lost.
extension DiskTier {
    private var indexPath: String { options.folder + "/index.sqlite" }

    func reopen() {
        var new = Opened()
        do throws(FileError) {
            new.files = try BlobFiles(root: options.folder)
        } catch {
            complain("the folder cannot be written: nothing is kept on disk", error)
            new.files = try? BlobFiles(readingOnly: options.folder)
            replaceOpened(new)
            return
        }
        new.index = openIndex()
        new.indexFile = FileIdentity(indexPath)
        replaceOpened(new)
        startRebuilding(new)
    }

    private func openIndex() -> EntryIndex? {
        do {
            return try EntryIndex(path: indexPath)
        } catch {
            guard Self.isDamage(error) else {
                complain("the index cannot be opened: nothing is kept on disk", error)
                return nil
            }
            logger.warning("the index cannot be read and is set aside", metadata: ["error": "\(error)"])
            setIndexAside()
        }
        do {
            return try EntryIndex(path: indexPath)
        } catch {
            complain("the index cannot be made anew: nothing is kept on disk", error)
            return nil
        }
    }

    private func setIndexAside() {
        rename(indexPath, options.folder + "/index.broken")
        unlink(indexPath + "-wal")
        unlink(indexPath + "-shm")
    }

    private static func isDamage(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return !(error is FileError) }
        switch error.resultCode {
        // What the machine may do to a sound database. A read that comes up short is the database's own fault.
        case .SQLITE_IOERR: return error.extendedResultCode == .SQLITE_IOERR_SHORT_READ
        case .SQLITE_FULL, .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_NOMEM,
            .SQLITE_INTERRUPT, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_ABORT:
            return false
        // All else, such as a missing table or a broken constraint, comes of a flipped byte or another's hand.
        default: return true
        }
    }

    /// The index has failed. A damaged one is made anew on the writer's thread.
    func indexFailed(_ error: any Error) {
        guard Self.isDamage(error) else {
            complain("the index fails", error)
            return
        }
        let failed = opened.index
        writer.run {
            // The first to notice has done it for all.
            guard let failed, self.opened.index === failed else { return }
            self.logger.warning("the index is damaged and is made anew", metadata: ["error": "\(error)"])
            let isStillThere = self.opened.indexFile == FileIdentity(self.indexPath)
            try? failed.close()
            // Another process may have put a sound one in its place.
            if isStillThere { self.setIndexAside() }
            self.reopen()
        }
    }

    /// The folder may have been removed, or the index set aside by another process.
    func reopenIfLost() {
        let opened = opened
        if opened.index != nil, opened.indexFile == FileIdentity(indexPath) { return }
        if opened.files == nil || opened.indexFile != FileIdentity(indexPath) {
            logger.notice("the folder has changed behind the cache's back and is opened again")
        }
        reopen()
    }

    private func startRebuilding(_ opened: Opened) {
        guard let index = opened.index, let files = opened.files else { return }
        do {
            if index.isNew, !files.shards().isEmpty { try index.setRebuildPosition("") }
            guard try index.rebuildPosition() != nil else { return }
        } catch {
            indexFailed(error)
            return
        }
        writer.run { self.rebuildNextShard() }
    }

    /// Reads in one folder of files and leaves the thread to others before the next.
    private func rebuildNextShard() {
        let opened = opened
        guard let index = opened.index, let files = opened.files else { return }
        do {
            guard let position = try index.rebuildPosition() else { return }
            guard let shard = files.shards().filter({ $0 > position }).min() else {
                try index.setRebuildPosition(nil)
                logger.notice("the index has been rebuilt")
                keepLimit()
                return
            }
            var rows: [EntryIndex.Row] = []
            for name in files.names(inShard: shard) {
                guard let file = files.readMetadata(name),
                    let head = file.bytes.withUnsafeBytes({ EntryRecord.decodeMetadata($0) })
                else {
                    files.remove(name)
                    continue
                }
                rows.append(
                    .init(
                        name: name, key: head.key.string, url: head.info.url, size: file.size,
                        stored: head.info.stored, accessed: head.info.stored, lifetime: head.lifetime))
            }
            try index.addMissing(rows)
            try index.setRebuildPosition(shard)
        } catch {
            indexFailed(error)
            return
        }
        writer.run { self.rebuildNextShard() }
    }
}
