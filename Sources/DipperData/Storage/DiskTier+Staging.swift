import Foundation

/// Changes are staged by the caller, where reads see them at once, and carried out by the writer in batches.
extension DiskTier {
    /// Stages a record that replaces the one of its key, and removes the partial body of the key.
    /// - Parameters:
    ///   - isLatest: whether to keep a record that was written after the claim was made.
    ///   - takesPlace: called in the moment in which the record is staged. If it returns `false`, nothing changes.
    ///   - whenDone: called once, with whether this record, or one staged in its place meanwhile, is on disk.
    /// - Returns: the answer of `takesPlace`; if it is `false`, `whenDone` is not called.
    @discardableResult
    func write(
        _ record: EntryRecord, _ durability: Durability = .relaxed, claim: Claim? = nil, isLatest: Bool = false,
        by fetch: CacheEvent.ID? = nil, if takesPlace: () -> Bool = { true },
        whenDone: (@Sendable (Bool) -> Void)? = nil
    ) -> Bool {
        let permit = Permit(record.value.info, claim, isLatest: isLatest)
        let tell = events?.beginWrite(record.key, record.value.data.count, of: fetch)
        var end = whenDone
        if let tell {
            end = { isOnDisk in
                tell(isOnDisk)
                whenDone?(isOnDisk)
            }
        }
        var isInPlace = false
        let isStaged = stage(record, for: .init(key: record.key), durability, whenDone: end) {
            isInPlace = takesPlace()
            return isInPlace && permit.isGranted(in: .disk, by: history)
        }
        if !isStaged { (isInPlace ? end : tell)?(false) }
        return isInPlace
    }

    func isStaged(_ key: CacheKey) -> Bool { state.withLock { $0.staged[.init(key: key)] != nil } }

    func remove(_ key: CacheKey) { stage(nil, for: .init(key: key)) }

    /// - Parameter isArriving: whether the rest is on its way. Then the body does not count towards the limit.
    func keepPartial(_ body: PartialBody, for key: CacheKey, asked: String?, isArriving: Bool, claim: Claim) {
        if isArriving {
            guard options.partialLimit > 0, growsFile(body) else { return }
        } else if body.count > options.partialLimit {
            return dropPartial(of: key)
        }
        stage(
            EntryRecord(body, for: key, asked: asked, now: now()), .init(body: body, isArriving: isArriving),
            for: .init(key: key, table: .partial), ifAllowed: { claim.isCurrent })
    }

    /// The failure takes the place of a partial body.
    func keepFailure(_ record: EntryRecord, claim: Claim, whenDone: @escaping @Sendable (Bool) -> Void) {
        let slot = StagingArea.Slot(key: record.key, table: .partial)
        if !stage(record, for: slot, whenDone: whenDone, ifAllowed: { claim.isCurrent }) { whenDone(false) }
    }

    func dropPartial(of key: CacheKey) { stage(nil, for: .init(key: key, table: .partial)) }

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
            let isStaged = self.stage(record, for: .init(key: key), durability, whenDone: whenDone) {
                permit.isGranted(in: .disk, by: self.history)
            }
            // A newer entry may have been staged.
            if !isStaged, !self.join(key, durability, whenDone) { whenDone(false) }
        }
        if !isRunning { whenDone(false) }
    }

    private func join(
        _ key: CacheKey, _ durability: Durability, _ whenDone: @escaping @Sendable (Bool) -> Void
    ) -> Bool {
        update { $0.staged.join(.init(key: key), durability, whenDone: whenDone) }
    }

    /// - Returns: whether the change was allowed. If not, `whenDone` is not called.
    @discardableResult
    private func stage(
        _ record: EntryRecord?, _ partial: StagingArea.Partial? = nil, for slot: StagingArea.Slot,
        _ durability: Durability = .relaxed, whenDone: (@Sendable (Bool) -> Void)? = nil,
        ifAllowed isAllowed: () -> Bool = { true }
    ) -> Bool {
        let id = EntryIndex.id(of: slot.key)
        let isFull = update { state -> Bool? in
            guard isAllowed(), !state.isClosed else { return nil }
            if slot.table == .entry {
                // A complete entry, or a removed one, has no partial body.
                state.staged.drop(.init(key: slot.key, table: .partial))
                // Accesses to the earlier entry do not concern this one, which may contain earlier bytes.
                state.accesses[id] = nil
            }
            let isFull =
                record.map { state.staged.isFull(for: $0, partial, of: slot) } ?? false
            // The part before this one stays.
            if isFull, partial?.isArriving == true { return false }
            beginWriting(&state)
            if isFull {
                state.staged.add(nil, for: slot)
                return true
            }
            state.staged.add(record, partial, for: slot, durability, whenDone: whenDone)
            return false
        }
        if isFull == true { complain("an entry stays in memory only: the disk is behind", nil) }
        if isFull == true { whenDone?(false) }
        return isFull != nil
    }

    private func beginWriting(_ state: inout State) {
        if !state.isWriting { state.isWriting = writer.run { self.writeStaged() } }
    }

    func clear() { remove(.all) }

    func removeDerived(of key: CacheKey) { remove(.derived(of: key)) }

    func removeAll(of address: String) {
        remove(.url(address))
        // Its row has the URL as key alone.
        let key = CacheKey(verbatim: address)
        remove(key)
        dropPartial(of: key)
    }

    private func remove(_ scope: StagingArea.Scope) {
        let time = now().timeIntervalSince1970.nextUp
        update { state -> Void in
            if state.isClosed {
                state.staged.drop(scope)
            } else {
                state.staged.remove(scope, storedBefore: time)
                beginWriting(&state)
            }
        }
    }

    /// Removes expired entries, and entries and partial bodies stored before `limit`, in the background.
    func remove(storedBefore limit: TimeInterval) {
        update { state -> Void in
            state.staged.removeWrites(storedBefore: limit)
            beginWriting(&state)
        }
        writer.run { self.reopenIfLost() }
        removeExpiredLater()
        start(Removal((.partials(storedBefore: limit), nil), (.stored(before: limit, after: nil), .flushed)))
    }
}
