import Foundation
import GRDB
import Synchronization

/// Writes, on the writer thread. Only ``backlogLimit`` is used on other threads.
extension DiskTier {
    /// Carries out a batch of changes. First writes the files of large entries to the staging folder. Then puts these
    /// files in place, removes other files and changes all rows, in one transaction. Last, removes files that are out
    /// of date. An entry can therefore be found until the one that replaces it can, and files match rows even if other
    /// processes write as well.
    /// - Parameter hidden: keys whose versions on disk could not be removed before.
    func carryOut(_ batch: [StagingArea.Item], hidden: Set<CacheKey>) -> StagingArea.Outcome {
        reopenIfLost()
        waitForIndex()
        var outcome = StagingArea.Outcome()
        guard let files = opened.files, !files.isReadOnly else {
            giveUp(batch, &outcome)
            return outcome
        }
        var rows: [EntryIndex.Row] = []
        var small: [(item: StagingArea.Item, name: String)] = []
        // A custom rule may give two keys one name: the later key has it.
        var large: [String: StagingArea.Item] = [:]
        var removed = Set(hidden.map { options.naming.name($0) })
        let partials = opened.partials
        let time = now().timeIntervalSince1970
        for item in batch {
            let name = options.naming.name(item.key)
            // A complete entry, or a removed one, has no partial body.
            partials?.remove(name)
            guard case .write(let record) = item.change else {
                removed.insert(name)
                continue
            }
            let body: Data
            let trailer: [UInt8]
            do {
                (body, trailer) = try options.format.encode(record)
            } catch {
                fail(item, error, &outcome)
                removed.insert(name)
                continue
            }
            let size = body.count + trailer.count
            var row = EntryIndex.Row(
                name: name, key: record.key.string, url: record.value.info.url, size: size,
                stored: record.value.info.stored, accessed: time, lifetime: record.lifetime)
            if size <= options.inlineLimit {
                row.record = body + trailer
                small.append((item, name))
            } else {
                do {
                    try files.stage(name, body: body, trailer: trailer, item.durability)
                    large[name] = item
                } catch {
                    fail(item, error, &outcome)
                    removed.insert(name)
                    continue
                }
            }
            rows.append(row)
        }
        removed.subtract(rows.map(\.name))
        let durability: Durability = batch.contains { $0.durability == .durable } ? .durable : .relaxed
        let isCommitted = attempt { index in
            try index.write(durability) {
                // Emptied, because the transaction may be attempted again.
                while let (name, item) = large.popFirst() {
                    do {
                        try files.place(name, item.durability)
                    } catch {
                        fail(item, error, &outcome)
                        rows.removeAll { $0.name == name }
                        removed.insert(name)
                    }
                }
                for name in removed { files.remove(name) }
                return (rows, Array(removed))
            }
        }
        guard isCommitted else {
            for name in large.keys { files.unstage(name) }
            giveUp(batch, &outcome)
            return outcome
        }
        removeReplaced(small, files, &outcome)
        outcome.freed = hidden.filter { !isFound($0) }
        outcome.stuck.formUnion(
            batch.filter { outcome.failed.contains($0.number) && isFound($0.key) }.map(\.key))
        // After a power cut, an earlier file that reappeared would hide the small entry. Until then readers find the
        // right entry.
        for (item, name) in small where item.durability == .durable && !flushFolders(of: name, files) {
            outcome.failed.insert(item.number)
        }
        keepLimit()
        // The entry may have been removed at once, to keep the limit or by another process.
        for item in batch where item.durability == .durable {
            if case .write = item.change, !isFound(item.key) { outcome.failed.insert(item.number) }
        }
        return outcome
    }

    /// Records that an entry cannot be encoded, or that the file of a large entry cannot be written. The caller removes
    /// the earlier version, which must not stand for the entry.
    private func fail(_ item: StagingArea.Item, _ error: any Error, _ outcome: inout StagingArea.Outcome) {
        complain("an entry cannot be written and stays in memory only", error)
        outcome.failed.insert(item.number)
    }

    /// Removes the files of entries that have become small, unless an entry has become large again meanwhile.
    private func removeReplaced(
        _ small: [(item: StagingArea.Item, name: String)], _ files: BlobFiles, _ outcome: inout StagingArea.Outcome
    ) {
        let replaced = small.filter { files.exists($0.name) }
        let isDone =
            replaced.isEmpty
            || attempt { index in
                try index.compare(replaced.map(\.name)) { name, listed in
                    if listed?.isSmall == true { files.remove(name) }
                    return .keep
                }
            }
        // A file that stays hides the small entry.
        if !isDone { outcome.failed.formUnion(replaced.map(\.item.number)) }
    }

    /// Marks all changes of a batch as failed, and removes the files of their keys, because readers must not find
    /// earlier versions any more.
    private func giveUp(_ batch: [StagingArea.Item], _ outcome: inout StagingArea.Outcome) {
        outcome.failed = Set(batch.map(\.number))
        if let files = opened.files, !files.isReadOnly {
            for item in batch { files.remove(options.naming.name(item.key)) }
        }
        outcome.stuck = Set(batch.map(\.key).filter(isFound))
    }

    /// Returns whether readers could find something under a key on disk.
    private func isFound(_ key: CacheKey) -> Bool {
        let name = options.naming.name(key)
        if opened.files?.exists(name) == true { return true }
        // An index that cannot be read now may be read later.
        guard let index = opened.index else { return opened.isIndexHeld || opened.files?.isReadOnly != false }
        do {
            return try index.smallRecord(name) != nil
        } catch {
            return true
        }
    }

    /// Flushes an entry on disk to the device.
    /// - Returns: `false` if there is no such entry, or if flushing fails.
    func flush(_ key: CacheKey) -> Bool {
        let opened = opened
        guard info(of: key) != nil, let files = opened.files, !files.isReadOnly, let index = opened.index else {
            return false
        }
        let name = options.naming.name(key)
        do {
            // mutant DurableHit|Flush: `try files.flush(name)` => `_ = files`
            try files.flush(name)
            // A process that was killed may have put the file in place and not committed its row.
            return try index.flush(name, orAdd: { row(of: name, nil, files) })
        } catch {
            complain("an entry cannot be flushed", error)
            return false
        }
    }

    private func flushFolders(of name: String, _ files: BlobFiles) -> Bool {
        do {
            try files.flushFolders(of: name)
            return true
        } catch {
            complain("a folder cannot be flushed", error)
            return false
        }
    }

    /// The number of attempts to wait for another process that holds the index: a single one while the tier is stalled,
    /// so that later changes lose no more time.
    private var attempts: Int { isStalled.load(ordering: .relaxed) ? 1 : mostAttempts }

    /// The largest number of attempts. A cache that is being shut down makes fewer.
    private var mostAttempts: Int { isClosed ? 5 : 30 }

    /// Opens the index once another process releases it, if that happens within the attempts.
    private func waitForIndex() {
        var left = attempts
        while opened.isIndexHeld, left > 0 {
            left = min(left, mostAttempts) - 1
            setStalled(true)
            reopen()
        }
    }

    /// Changes the index. Returns `false` if that fails, or if another process holds the index for too long.
    private func attempt(_ change: (EntryIndex) throws -> Void) -> Bool {
        guard let index = opened.index else { return false }
        var left = attempts
        while true {
            do {
                try change(index)
                setStalled(false)
                return true
            } catch {
                left = min(left, mostAttempts) - 1
                guard IndexFailure(error) == .busy, left > 0 else {
                    indexFailed(error)
                    return false
                }
                setStalled(true)
            }
        }
    }

    /// Sets ``isStalled``. While another process holds the index, transfers go on and entries wait in memory.
    private func setStalled(_ isStalled: Bool) {
        guard self.isStalled.exchange(isStalled, ordering: .relaxed) != isStalled else { return }
        if isStalled { complain("another process holds the index: entries wait in memory", nil) }
        if let backlog = staged.withLock({ $0.updateBacklog(limit: backlogLimit) }) { onBacklog(backlog) }
    }

    /// The number of bytes that may wait before there is a backlog.
    var backlogLimit: Int { isStalled.load(ordering: .relaxed) ? 1 << 50 : options.stagingLimit }

    func writeAccesses() {
        if opened.isIndexHeld { return }
        let accesses = accesses.withLock { exchange(&$0, with: [:]) }
        guard !accesses.isEmpty, opened.files?.isReadOnly == false else { return }
        do {
            try opened.index?.touch(accesses)
        } catch {
            indexFailed(error)
        }
    }
}
