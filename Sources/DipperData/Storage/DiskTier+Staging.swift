import Foundation

extension DiskTier {
    struct Staged: Sendable {
        var area = StagingArea()
        var isWriting = false
        var backlog = StorageBacklog.none
        var notices: UInt64 = 0
        var isClosed = false

        /// Returns a changed backlog; `nil` for none. A backlog ends only when half of the limit is free again.
        mutating func updateBacklog(limit: Int) -> BacklogNotice? {
            let new: StorageBacklog =
                switch area.bytes {
                case ...(limit / 2): .none
                case ...limit: min(backlog, .high)
                case ...(limit * 2): .high
                default: .full
                }
            guard new != backlog else { return nil }
            backlog = new
            notices += 1
            return BacklogNotice(backlog: new, number: notices)
        }
    }

    /// Reports a new backlog and the dropped writes, after the change and without the lock.
    func updateStaged<Result: Sendable>(
        _ change: (inout Staged) -> (Result, [StagingArea.Item])
    ) -> Result {
        let (result, dropped, notice) = staged.withLock { staged -> (Result, [StagingArea.Item], BacklogNotice?) in
            let (result, dropped) = change(&staged)
            return (result, dropped, staged.updateBacklog(limit: backlogLimit))
        }
        if let notice { onBacklog(notice) }
        for item in dropped { for tell in item.whenDone { tell(false) } }
        return result
    }

    private func beginWriting(_ staged: inout Staged) {
        if !exchange(&staged.isWriting, with: true) { writer.run { self.writeStaged() } }
    }

    /// Stages a record that replaces the one of its key, and removes the partial body of the key.
    /// - Parameters:
    ///   - isLatest: whether to keep a record that was written after the claim was made.
    ///   - whenDone: called once, with whether this record, or one staged in its place meanwhile, is on disk.
    func write(
        _ record: EntryRecord, _ durability: Durability = .relaxed, claim: Claim? = nil, isLatest: Bool = false,
        by fetch: CacheEvent.ID? = nil, whenDone: (@Sendable (Bool) -> Void)? = nil
    ) {
        let permit = Permit(record.value.info, claim, isLatest: isLatest)
        stage(
            .write(record), for: .init(key: record.key), durability,
            whenDone: events?.beginWrite(record.key, record.value.data.count, of: fetch, whenDone) ?? whenDone
        ) { permit.isGranted(in: .disk, by: self.history) }
    }

    func remove(_ key: CacheKey) { stage(.remove, for: .init(key: key)) }

    /// Waits for the staged write of an entry that the caller already has. If a durable entry has none, flushes the
    /// entry on disk, or else writes `record`.
    /// - Parameters:
    ///   - record: the entry in memory, looked up after the claim was made; `nil` if only the disk may have one.
    ///   - whenDone: called once, with the outcome of the staged write or flush; `true` at once if neither is needed.
    func settle(
        _ key: CacheKey, _ durability: Durability, _ record: EntryRecord?, claim: Claim,
        whenDone: @escaping @Sendable (Bool) -> Void
    ) {
        if join(key, durability, whenDone) { return }
        guard durability == .durable else { return whenDone(true) }
        let isRunning = writer.run {
            if self.join(key, durability, whenDone) { return }
            if self.flush(key) { return whenDone(true) }
            guard let record else { return whenDone(false) }
            let permit = Permit(record.value.info, claim, isLatest: true)
            self.stage(
                .write(record), for: .init(key: key), durability,
                whenDone: {
                    // A newer entry may have been staged, if this record was refused.
                    if $0 || !self.join(key, durability, whenDone) { whenDone($0) }
                }
            ) { permit.isGranted(in: .disk, by: self.history) }
        }
        if !isRunning { whenDone(false) }
    }

    private func join(
        _ key: CacheKey, _ durability: Durability, _ whenDone: @escaping @Sendable (Bool) -> Void
    ) -> Bool {
        staged.withLock { $0.area.join(.init(key: key), durability, whenDone: whenDone) }
    }

    /// - Parameter isAllowed: called under the lock.
    func stage(
        _ change: StagingArea.Change, for slot: StagingArea.Slot, _ durability: Durability = .relaxed,
        whenDone: (@Sendable (Bool) -> Void)? = nil, ifAllowed isAllowed: () -> Bool = { true }
    ) {
        // `nil` if the change is refused.
        let isFull = updateStaged { staged -> (Bool?, [StagingArea.Item]) in
            guard !staged.isClosed, isAllowed() else { return (nil, []) }
            var isFull = false
            // A removal takes little memory.
            if case .write = change { isFull = staged.area.isFull(options.stagingLimit * 4, for: change, of: slot) }
            // A complete entry, or a removed one, has no partial body.
            let partial = slot.table == .entry ? staged.area.drop(.init(key: slot.key, table: .partial)) : nil
            let replaced =
                isFull
                ? staged.area.add(.remove, for: slot)
                : staged.area.add(change, for: slot, durability, whenDone: whenDone)
            // Accesses to the earlier entry do not concern this one, which may contain earlier bytes.
            if slot.table == .entry { accesses.withLock { $0[EntryIndex.id(of: slot.key)] = nil } }
            beginWriting(&staged)
            return (isFull, [partial, replaced].compactMap { $0 })
        }
        if isFull == true { complain("an entry stays in memory only: the disk is behind", nil) }
        if isFull != false { whenDone?(false) }
    }

    func clear() { remove(.all) }

    func removeDerived(of key: CacheKey) { remove(.derived(of: key)) }

    private func remove(_ scope: StagingArea.Scope) {
        let time = now().timeIntervalSince1970.nextUp
        let isClosed = updateStaged { staged -> (Bool, [StagingArea.Item]) in
            // No job would end the removal.
            if staged.isClosed { return (true, staged.area.drop(scope)) }
            return (false, staged.area.beginRemoving(scope))
        }
        if isClosed { return }
        let end: @Sendable (Bool) -> Void = { isDone in
            let isIdle = self.staged.withLock { staged in
                staged.area.endRemoving(scope, isDone: isDone, begun: time)
                return !exchange(&staged.isWriting, with: true)
            }
            if isIdle { self.writeStaged() }
        }
        writer.run { self.reopenIfLost() }
        switch scope {
        case .all:
            jobs.withLock { $0.isClearing = true }
            start(Clearing(whenEmpty: end))
        case .derived(let key):
            var job = Removal((.derived(of: key), nil))
            job.whenEnded = end
            start(job)
        }
    }

    /// Removes expired entries, and entries and partial bodies stored before `limit`, in the background.
    func remove(storedBefore limit: TimeInterval) {
        updateStaged { staged -> (Void, [StagingArea.Item]) in
            let replaced = staged.area.removeWrites(storedBefore: limit)
            if !replaced.isEmpty { beginWriting(&staged) }
            return ((), replaced)
        }
        writer.run { self.reopenIfLost() }
        removeExpiredLater()
        start(Removal((.partials(storedBefore: limit), nil), (.stored(before: limit, after: nil), .flushed)))
    }

    // MARK: Writer thread

    private func writeStaged() {
        while writeBatch() {
            // mutant WaitingWrite: `if writer.run({ self.writeStaged() })` => `if isClosed`
            if writer.run({ self.writeStaged() }) { return }
        }
    }

    private func writeBatch() -> Bool {
        let batch = staged.withLock { staged in
            let batch = staged.area.nextBatch()
            if batch.isEmpty { staged.isWriting = false }
            return batch
        }
        if batch.isEmpty { return false }
        let outcome = carryOut(batch)
        let finished = updateStaged { ($0.area.finish(batch, outcome), []) }
        for (item, isDone) in finished { for tell in item.whenDone { tell(isDone) } }
        return true
    }
}

/// How far writing to disk is behind fetching.
enum StorageBacklog: Int, Sendable, Comparable {
    case none
    /// No fetch of `slowQueue` starts.
    case high
    /// No fetch starts.
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The notice with the highest number holds; notices may overtake one another.
struct BacklogNotice: Sendable {
    var backlog: StorageBacklog
    var number: UInt64
}
