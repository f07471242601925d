import Foundation

/// Changes: staged by callers, seen by reads at once, and carried out by the writer's thread.
extension DiskTier {
    struct Staged {
        var area = StagingArea()
        var isWriting = false
        var backlog = StorageBacklog.none
        var notices: UInt64 = 0
        /// The store has been shut down: nothing more is taken.
        var isClosed = false

        /// The new backlog if it has changed. It ends only when half of the limit is free again.
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

    // MARK: Changing

    /// Keeps a record, in place of the one its key had. The beginning of a body that was kept for the key goes.
    /// - Parameters:
    ///   - claim: the right to do so, of work that began before.
    ///   - whenDone: called once: with `true` when the record is on disk, with `false` when it will not be. Whoever
    ///     writes the next record for the key before this one has been carried out decides for both.
    func write(
        _ record: EntryRecord, _ durability: Durability = .relaxed, claim: Claim? = nil,
        whenDone: (@Sendable (Bool) -> Void)? = nil
    ) {
        let beginning = partials.withLock { $0.remove(record.key) }
        _ = consume beginning
        stage(
            .write(record), for: record.key, durability, permit: Permit(record.value.info, claim), whenDone: whenDone)
    }

    func remove(_ key: CacheKey) {
        stage(.remove, for: key, .relaxed, permit: nil, whenDone: nil)
    }

    /// Waits for the write of an entry that the caller has already, and sees to it that there is one where the entry is to
    /// be durable: what is on disk is brought to the device, and what is not is written.
    /// - Parameters:
    ///   - record: what memory has under the key, looked up after the claim was made; `nil` if it has nothing.
    ///   - whenDone: called once: with `false` if a durable entry is not on the device. An entry that need not be durable
    ///     is waited for only while it is staged.
    func settle(
        _ key: CacheKey, _ durability: Durability, _ record: EntryRecord?, claim: Claim,
        whenDone: @escaping @Sendable (Bool) -> Void
    ) {
        if join(key, durability, whenDone) { return }
        guard durability == .durable else { return whenDone(true) }
        let isRunning = writer.run {
            // Another write may have been staged meanwhile.
            if self.join(key, durability, whenDone) { return }
            if self.flush(key) { return whenDone(true) }
            guard let record else { return whenDone(false) }
            self.stage(.write(record), for: key, durability, permit: Permit(record.value.info, claim, isLatest: true)) {
                // A newer entry may have come first.
                if $0 || !self.join(key, durability, whenDone) { whenDone($0) }
            }
        }
        if !isRunning { whenDone(false) }
    }

    private func join(
        _ key: CacheKey, _ durability: Durability, _ whenDone: @escaping @Sendable (Bool) -> Void
    ) -> Bool {
        staged.withLock { $0.area.join(key, durability, whenDone: whenDone) }
    }

    private enum Staging {
        case done(replaced: StagingArea.Item?, BacklogNotice?)
        /// The earlier version is removed instead.
        case noRoom(replaced: StagingArea.Item?, BacklogNotice?)
        case refused
    }

    private func stage(
        _ change: StagingArea.Change, for key: CacheKey, _ durability: Durability, permit: Permit?,
        whenDone: (@Sendable (Bool) -> Void)?
    ) {
        let staging = staged.withLock { staged -> Staging in
            if staged.isClosed || permit?.isGranted(in: .disk, by: history) == false { return .refused }
            var isFull = false
            // A removal takes little, and must not fail to happen.
            if case .write = change { isFull = staged.area.isFull(options.stagingLimit * 4, for: change, of: key) }
            let replaced =
                isFull
                ? staged.area.add(.remove, for: key)
                : staged.area.add(change, for: key, durability, whenDone: whenDone)
            // Under the lock: whoever synchronizes comes behind.
            if !exchange(&staged.isWriting, with: true) { writer.run { self.writeStaged() } }
            let backlog = staged.updateBacklog(limit: backlogLimit)
            return isFull ? .noRoom(replaced: replaced, backlog) : .done(replaced: replaced, backlog)
        }
        switch staging {
        case .refused:
            whenDone?(false)
        case .noRoom(let replaced, let backlog):
            complain("an entry stays in memory only: the disk is behind", nil)
            if let backlog { onBacklog(backlog) }
            for tell in replaced?.whenDone ?? [] { tell(false) }
            whenDone?(false)
        case .done(let replaced, let backlog):
            if let backlog { onBacklog(backlog) }
            for tell in replaced?.whenDone ?? [] { tell(false) }
        }
    }

    /// Forgets everything, at once for readers.
    func clear() {
        let partials = partials.withLock { $0.removeAll() }
        _ = consume partials
        remove(.all, Clearing()) { job in
            if !job.isDone { self.hideAll() }
            job.tell(self)
        }
    }

    /// Forgets what was made from an entry, at once for readers. See ``CacheKey/isDerived(of:)``.
    func removeDerived(of key: CacheKey) {
        remove(.derived(of: key), DerivedRemoval(of: key)) { _ in }
    }

    private func remove<Work: DiskJob>(
        _ scope: StagingArea.Scope, _ job: Work, whenDone: @escaping @Sendable (Work) -> Void
    ) {
        let (dropped, backlog, isClosed) = staged.withLock { staged in
            // After the store has been shut down nobody would end the removal.
            if staged.isClosed { return (staged.area.drop(scope), nil as BacklogNotice?, true) }
            return (staged.area.beginRemoving(scope), staged.updateBacklog(limit: backlogLimit), false)
        }
        if !isClosed {
            start(job) { job in
                whenDone(job)
                self.staged.withLock { staged in
                    staged.area.endRemoving(scope)
                    staged.isWriting = true
                }
                self.writeStaged()
            }
        }
        if let backlog { onBacklog(backlog) }
        for item in dropped { for tell in item.whenDone { tell(false) } }
    }

    /// Removes entries stored before the moment, in the background. Readers have been told by ``history``.
    func remove(storedBefore limit: TimeInterval) {
        let partials = partials.withLock { $0.remove(storedBefore: limit) }
        _ = consume partials
        let replaced = staged.withLock { staged in
            let replaced = staged.area.removeWrites(storedBefore: limit)
            if !replaced.isEmpty, !exchange(&staged.isWriting, with: true) { writer.run { self.writeStaged() } }
            return replaced
        }
        for item in replaced { for tell in item.whenDone { tell(false) } }
        removeExpiredLater()
        start(Flush(limit: limit)) { $0.tell(self) }
    }

    // MARK: The writer's thread

    private func writeStaged() {
        while true {
            let (batch, hidden) = staged.withLock { staged in
                let batch = staged.area.nextBatch(count: 128, bytes: 4 << 20)
                if batch.isEmpty { staged.isWriting = false }
                return (batch, staged.area.hidden)
            }
            if batch.isEmpty { return }
            let outcome = carryOut(batch, hidden: hidden)
            let (finished, backlog) = staged.withLock { staged in
                (staged.area.finish(batch, outcome), staged.updateBacklog(limit: backlogLimit))
            }
            if let backlog { onBacklog(backlog) }
            for (item, isDone) in finished { for tell in item.whenDone { tell(isDone) } }
        }
    }
}
