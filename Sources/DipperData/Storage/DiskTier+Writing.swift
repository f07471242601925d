import Foundation
import GRDB
import Synchronization

/// What the writer's thread does. Nothing here is called from elsewhere.
extension DiskTier {
    /// Carries out a batch of changes: the files of large entries are written; then, in one transaction, they are put in
    /// place, other files are removed, and all rows are changed; then files that are out of date are removed. So an entry is
    /// found until the one that takes its place is, and files are in step with rows whoever else writes.
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
        // Two keys may share a name by a custom rule: the later one has it.
        var large: [String: StagingArea.Item] = [:]
        var removed = Set(hidden.map { options.naming.name($0) })
        let partials = opened.partials
        let time = now().timeIntervalSince1970
        for item in batch {
            let name = options.naming.name(item.key)
            // What is whole, or is not wanted any more, has no beginning.
            partials?.remove(name)
            guard case .write(let record) = item.change else {
                removed.insert(name)
                continue
            }
            let (body, trailer) = record.encoded(options.compression)
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
                // Emptied, should there be another attempt.
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
        // A file that came back would stand for the small entry. What is found until then is the right one.
        for (item, name) in small where item.durability == .durable && !flushFolders(of: name, files) {
            outcome.failed.insert(item.number)
        }
        keepLimit()
        // It may have been removed at once to keep the limit, or by another process.
        for item in batch where item.durability == .durable {
            if case .write = item.change, !isFound(item.key) { outcome.failed.insert(item.number) }
        }
        return outcome
    }

    /// The file of a large entry cannot be written: the earlier file must not stand for the entry.
    private func fail(_ item: StagingArea.Item, _ error: any Error, _ outcome: inout StagingArea.Outcome) {
        complain("an entry cannot be written and stays in memory only", error)
        outcome.failed.insert(item.number)
    }

    /// Removes files whose entries have become small, unless they have become large again meanwhile.
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
        // A file that stays stands for the small entry.
        if !isDone { outcome.failed.formUnion(replaced.map(\.item.number)) }
    }

    /// Nothing of the batch can be carried out. What was to be replaced or removed must not be found any more.
    private func giveUp(_ batch: [StagingArea.Item], _ outcome: inout StagingArea.Outcome) {
        outcome.failed = Set(batch.map(\.number))
        if let files = opened.files, !files.isReadOnly {
            for item in batch { files.remove(options.naming.name(item.key)) }
        }
        outcome.stuck = Set(batch.map(\.key).filter(isFound))
    }

    /// Whether readers would find something under a key.
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

    /// Brings an entry that lies on disk to the device.
    /// - Returns: `false` if there is none, or if that fails.
    func flush(_ key: CacheKey) -> Bool {
        let opened = opened
        guard info(of: key) != nil, let files = opened.files, !files.isReadOnly, let index = opened.index else {
            return false
        }
        let name = options.naming.name(key)
        do {
            try files.flush(name)
            return try index.flush(name)
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

    /// How often another process that holds the index is waited for. Once it has been held for so long, no more time is given
    /// to the next batches.
    private var attempts: Int { isStalled.load(ordering: .relaxed) ? 1 : mostAttempts }

    /// A cache that is shut down meanwhile waits less.
    private var mostAttempts: Int { isClosed ? 5 : 30 }

    /// Opens the index once another process lets go of it.
    private func waitForIndex() {
        var left = attempts
        while opened.isIndexHeld, left > 0 {
            left = min(left, mostAttempts) - 1
            setStalled(true)
            reopen()
        }
    }

    /// Changes the index. False if that fails, or if another process holds it for too long.
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

    /// While another process holds the index the network goes on, with what fits into memory.
    private func setStalled(_ isStalled: Bool) {
        guard self.isStalled.exchange(isStalled, ordering: .relaxed) != isStalled else { return }
        if isStalled { complain("another process holds the index: entries wait in memory", nil) }
        if let backlog = staged.withLock({ $0.updateBacklog(limit: backlogLimit) }) { onBacklog(backlog) }
    }

    /// Bytes that may wait before there is a backlog.
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
