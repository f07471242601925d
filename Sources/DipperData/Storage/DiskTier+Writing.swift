import Foundation
import GRDB

/// What the writer's thread does. Nothing here is called from elsewhere.
extension DiskTier {
    /// Carries out a batch of changes: rows first, then files.
    func carryOut(_ batch: [StagingArea.Item]) {
        reopenIfLost()
        guard let files = opened.files, !files.isReadOnly else { return }
        var rows: [EntryIndex.Row] = []
        var large: [(name: String, body: Data, trailer: [UInt8], durability: Durability)] = []
        var unflushed: Set<String> = []
        var removed: [String] = []
        let time = now().timeIntervalSince1970
        for item in batch {
            let name = options.naming.name(item.key)
            switch item.change {
            case .remove:
                files.remove(name)
                removed.append(name)
            case .write(let record):
                let (body, trailer) = record.encoded(options.compression)
                let size = body.count + trailer.count
                var row = EntryIndex.Row(
                    name: name, key: record.key.string, url: record.value.info.url, size: size,
                    stored: record.value.info.stored, accessed: time, lifetime: record.lifetime)
                if size <= options.inlineLimit {
                    files.remove(name)
                    if item.durability == .durable { unflushed.insert(name) }
                    row.record = body + trailer
                } else {
                    large.append((name, body, trailer, item.durability))
                }
                rows.append(row)
            }
        }
        // A file that came back would stand for the small entry.
        for name in unflushed { flushFolders(of: name, files) }
        let isDurable = batch.contains { $0.durability == .durable }
        guard commit(rows, removing: removed, isDurable ? .durable : .relaxed) else {
            // What was to be replaced or removed must not be found any more.
            for item in batch { files.remove(options.naming.name(item.key)) }
            return
        }
        var failed: [String] = []
        for entry in large {
            do {
                try files.write(entry.name, body: entry.body, trailer: entry.trailer, entry.durability)
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

    private func flushFolders(of name: String, _ files: BlobFiles) {
        do {
            try files.flushFolders(of: name)
        } catch {
            complain("a folder cannot be flushed", error)
        }
    }

    private func commit(_ rows: [EntryIndex.Row], removing names: [String], _ durability: Durability) -> Bool {
        guard let index = opened.index else { return false }
        do {
            try index.write(rows, removing: names, durability)
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

    func writeAccesses() {
        let accesses = accesses.withLock { exchange(&$0, with: [:]) }
        guard !accesses.isEmpty, opened.files?.isReadOnly == false else { return }
        do {
            try opened.index?.touch(accesses)
        } catch {
            indexFailed(error)
        }
    }
}
