import Foundation
import GRDB

/// What the writer's thread does. Nothing here is called from elsewhere.
extension DiskTier {
    /// Carries out a batch of changes: rows first, then files.
    func carryOut(_ batch: [StagingArea.Item]) {
        reopenIfLost()
        guard let files = opened.files, !files.isReadOnly else { return }
        var rows: [EntryIndex.Row] = []
        var large: [(name: String, record: EntryRecord, trailer: [UInt8])] = []
        var removed: [String] = []
        let time = now().timeIntervalSince1970
        for item in batch {
            let name = options.naming.name(item.key)
            switch item.change {
            case .remove:
                files.remove(name)
                removed.append(name)
            case .write(let record):
                let trailer = record.encodeTrailer()
                let size = record.value.data.count + trailer.count
                var row = EntryIndex.Row(
                    name: name, key: record.key.string, url: record.value.info.url, size: size,
                    stored: record.value.info.stored, accessed: time, lifetime: record.lifetime)
                if size <= options.inlineLimit {
                    files.remove(name)
                    row.record = record.value.data + trailer
                } else {
                    large.append((name, record, trailer))
                }
                rows.append(row)
            }
        }
        guard commit(rows, removing: removed) else {
            // What was to be replaced or removed must not be found any more.
            for item in batch { files.remove(options.naming.name(item.key)) }
            return
        }
        var failed: [String] = []
        for entry in large {
            do {
                try files.write(entry.name, body: entry.record.value.data, trailer: entry.trailer)
            } catch {
                // A later entry may be smaller; the old file must not stand for the new entry.
                complain("an entry cannot be written and stays in memory only", error)
                files.remove(entry.name)
                failed.append(entry.name)
            }
        }
        if !failed.isEmpty { removeNow(failed) }
        listAgain(rows.filter { $0.record == nil && !failed.contains($0.name) })
        keepLimit()
    }

    private func commit(_ rows: [EntryIndex.Row], removing names: [String]) -> Bool {
        guard let index = opened.index else { return false }
        do {
            try index.write(rows, removing: names)
            return true
        } catch {
            indexFailed(error)
            return false
        }
    }

    /// Another process may have removed rows before their files were in place.
    private func listAgain(_ rows: [EntryIndex.Row]) {
        guard !rows.isEmpty, let index = opened.index, opened.files?.hasOtherWriters() == true else { return }
        do {
            let missing = try index.missing(rows.map(\.name))
            if !missing.isEmpty { try index.addMissing(rows.filter { missing.contains($0.name) }) }
        } catch {
            indexFailed(error)
        }
    }

    func removeNow(_ names: [String]) {
        guard let files = opened.files, !files.isReadOnly else { return }
        for name in names { files.remove(name) }
        do {
            try opened.index?.remove(names)
        } catch {
            indexFailed(error)
        }
    }

    func writeAccesses() {
        let accesses = accesses.withLock { exchange(&$0, with: [:]) }
        guard !accesses.isEmpty, opened.files?.isReadOnly == false else { return }
        do {
            try opened.index?.touch(accesses)
        } catch {
            indexFailed(error)
        }
    }

    /// Removes the least recently used entries, a few at a time, until there is a tenth of room.
    func keepLimit() {
        guard let limit = sizeLimit, let index = opened.index, let files = opened.files, !files.isReadOnly,
            let totals = try? index.totals(), totals.bytes > limit
        else { return }
        removeExpired()
        removeOldest(untilSize: limit - limit / 10)
    }

    func removeOldest(untilSize size: Int) {
        // Who was read lately is not among the oldest.
        writeAccesses()
        guard let index = opened.index else { return }
        do {
            while true {
                var excess = try index.totals().bytes - size
                guard excess > 0 else { return }
                var names: [String] = []
                for entry in try index.oldest(64) where excess > 0 {
                    names.append(entry.name)
                    excess -= entry.size
                }
                guard !names.isEmpty else { return }
                for name in names { opened.files?.remove(name) }
                try index.removeListed(names)
            }
        } catch {
            indexFailed(error)
        }
    }

    func removeExpired() {
        writeAccesses()
        do {
            while let names = try opened.index?.expired(at: now().timeIntervalSince1970, limit: 64).map(\.name),
                !names.isEmpty
            {
                for name in names { opened.files?.remove(name) }
                try opened.index?.removeListed(names)
            }
        } catch {
            indexFailed(error)
        }
    }

    func clearNow() {
        accesses.withLock { $0 = [:] }
        guard let files = opened.files, !files.isReadOnly else { return }
        for shard in files.shards() {
            for name in files.names(inShard: shard) { files.remove(name) }
        }
        PartialFiles(root: options.folder).removeAll()
        do {
            try opened.index?.removeAll()
        } catch {
            indexFailed(error)
        }
    }
}
