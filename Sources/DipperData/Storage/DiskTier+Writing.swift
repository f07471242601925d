import Foundation
import Synchronization

/// Used on the writer thread alone, except ``backlogLimit``.
extension DiskTier {
    /// Writes files of large bodies, changes all rows in one transaction, then removes files that no row names.
    func carryOut(_ batch: [StagingArea.Item]) -> StagingArea.Outcome {
        reopenIfLost()
        waitForIndex()
        guard let files = opened.files, opened.writableIndex != nil, repeatFailedRemovals() else {
            return failure(of: batch)
        }
        var outcome = StagingArea.Outcome()
        var changes: [EntryIndex.Change] = []
        var written: [String] = []
        let time = now().timeIntervalSince1970
        for item in batch {
            let id = EntryIndex.id(of: item.slot.key)
            let table = item.slot.table
            if table == .entry { changes.append(.remove(id, from: .partial)) }
            guard case .write(let record) = item.change else {
                changes.append(.remove(id, from: table))
                continue
            }
            do {
                var (row, body) = try row(of: record, id, table, accessed: time)
                if row.size > options.inlineLimit {
                    // The name shows other programs a whole body.
                    let name = table == .partial ? "partial" : options.naming.name(record.key)
                    let blob = try files.write(body, id, name, item.durability)
                    written.append(blob)
                    row.blob = blob
                }
                changes.append(.put(row, body: row.blob == nil ? body : nil, in: table))
            } catch {
                complain("an entry cannot be written and stays in memory only", error)
                outcome.failed.insert(item.number)
                // The earlier version must not stand for the entry.
                changes.append(.remove(id, from: table))
            }
        }
        let durability: Durability = batch.contains { $0.durability == .durable } ? .durable : .relaxed
        var unneeded: [String] = []
        guard attempt({ unneeded = try $0.write(durability, changes) }) else {
            remove(written)
            return failure(of: batch)
        }
        for case .put(let row, _, .entry) in changes { noteExpiry(row.lifetime.expires) }
        remove(unneeded)
        if batch.contains(where: { $0.slot.table == .partial }) { keepPartialLimit() }
        keepLimit()
        // mutant Clearing: `carryOnClearing()` => `noteExpiries()`
        carryOnClearing()
        // The entry may have been removed at once, to keep the limit or by another process.
        for item in batch where item.durability == .durable {
            if case .write = item.change, !isFound(item.slot) { outcome.failed.insert(item.number) }
        }
        return outcome
    }

    private func row(
        of record: EntryRecord, _ id: Int, _ table: EntryIndex.Table, accessed time: TimeInterval
    ) throws -> (EntryIndex.Row, body: Data) {
        var format = options.format
        // Only a body as it came can be continued.
        if table == .partial { format.compression = .off }
        let (body, trailer) = try format.encode(record)
        let row = EntryIndex.Row(
            id: id, key: record.key.string, url: record.value.info.url, size: body.count + trailer.count,
            stored: record.value.info.stored, accessed: time, lifetime: record.lifetime, trailer: Data(trailer))
        return (row, body)
    }

    /// If a file stays, the next process to open the store looks for it.
    func remove(_ blobs: [String]) {
        guard let files = opened.files, !files.remove(blobs) else { return }
        do {
            try opened.index?.requestSweep()
        } catch {
            indexFailed(error)
        }
    }

    /// Returns whether all removals that failed earlier are done.
    func repeatFailedRemovals() -> Bool {
        let (failed, outdated) = staged.withLock { ($0.area.failedRemovals, $0.area.outdated) }
        for (scope, time) in failed {
            var job =
                switch scope {
                // Entries stored since then stay.
                case .all:
                    Removal((.partials(storedBefore: time), nil), (.stored(before: time, after: nil), .cleared))
                case .derived(let key): Removal((.derived(of: key), nil))
                }
            guard attempt({ _ in while try job.step(self) {} }), job.isDone else { return false }
            staged.withLock { $0.area.endRemoving(scope, isDone: true, begun: time) }
        }
        if outdated.isEmpty { return true }
        let removals = outdated.map { EntryIndex.Change.remove(EntryIndex.id(of: $0.key), from: $0.table) }
        guard attempt({ remove(try $0.write(.relaxed, removals)) }) else { return false }
        staged.withLock { $0.area.removedOutdated(outdated) }
        return true
    }

    private func keepPartialLimit() {
        let limits = EntryIndex.Selection.partials(
            expiredAt: now().timeIntervalSince1970, bytes: options.partialLimit, count: Self.mostPartials)
        do {
            remove(try opened.index?.removeSome(of: limits).blobs ?? [])
        } catch {
            indexFailed(error)
        }
    }

    /// Readers must not find earlier versions any more.
    private func failure(of batch: [StagingArea.Item]) -> StagingArea.Outcome {
        StagingArea.Outcome(failed: Set(batch.map(\.number)), outdated: Set(batch.map(\.slot).filter(isFound)))
    }

    private func isFound(_ slot: StagingArea.Slot) -> Bool {
        // An index that cannot be read now may be read later.
        guard let index = opened.index else { return opened.problem?.isRefusal != true }
        do {
            return try index.content(EntryIndex.id(of: slot.key), in: slot.table) != nil
        } catch {
            return true
        }
    }

    func flush(_ key: CacheKey) -> Bool {
        let (opened, id) = (opened, EntryIndex.id(of: key))
        guard info(of: key) != nil, let files = opened.files, let index = opened.writableIndex else { return false }
        do {
            guard let content = try index.content(id) else { return false }
            // mutant Flush: `try files.flush(blob)` => `_ = blob`
            if let blob = content.blob { try files.flush(blob) }
            return try index.flush(id, ifStill: content)
        } catch {
            complain("an entry cannot be flushed", error)
            return false
        }
    }

    /// Attempts to wait for another process: one while the tier is stalled, so that later changes lose no time.
    private var attempts: Int { isStalled.load(ordering: .relaxed) ? 1 : mostAttempts }

    private var mostAttempts: Int { isClosed ? 5 : 30 }

    private func waitForIndex() {
        var left = attempts
        while opened.isIndexHeld, left > 0 {
            left = min(left, mostAttempts) - 1
            setStalled(true)
            reopen()
        }
    }

    /// Returns `false` if the change fails, or if another process holds the index too long.
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

    private func setStalled(_ isStalled: Bool) {
        guard self.isStalled.exchange(isStalled, ordering: .relaxed) != isStalled else { return }
        if isStalled { complain("another process holds the index: entries wait in memory", nil) }
        updateStaged { _ in ((), []) }
    }

    var backlogLimit: Int { isStalled.load(ordering: .relaxed) ? 1 << 50 : options.stagingLimit }

    func writeAccesses() {
        let opened = opened
        if opened.isIndexHeld { return }
        let accesses = accesses.withLock { exchange(&$0, with: [:]) }
        guard !accesses.isEmpty, let index = opened.writableIndex else { return }
        do {
            var rest = accesses[...]
            while !rest.isEmpty {
                try index.touch(rest.prefix(128))
                rest = rest.dropFirst(128)
            }
            noteExpiries()
        } catch {
            indexFailed(error)
        }
    }
}
