import Foundation

extension DiskTier {
    func removeDamaged(_ id: Int, _ table: EntryIndex.Table, _ content: EntryIndex.Content) {
        guard opened.isWritable else { return }
        do {
            if try remove(id, table, ifStill: content) { complain("an entry was damaged and has been removed", nil) }
        } catch {
            indexFailed(error)
        }
    }

    func remove(_ id: Int, _ table: EntryIndex.Table, ifStill content: EntryIndex.Content) throws -> Bool {
        guard let blobs = try opened.index?.remove(id, from: table, ifStill: content) else { return false }
        remove(blobs)
        return true
    }

    /// Removes expired entries, then others in the order of eviction, until a tenth of the limit is free: for up to ten
    /// milliseconds at once, the rest in the background. The entries take at most three quarters of what they have and
    /// what is free on the volume, so that a small or crowded volume does not become full. Where deleting files was seen
    /// to free nothing, as with snapshots, the volume does not count for a minute.
    func keepLimit() {
        guard let bytes = try? opened.writableIndex?.totals().bytes, case let (limit, isForRoom) = limit(bytes),
            bytes > limit
        else { return }
        var job = Removal(
            (.expired(at: now().timeIntervalSince1970), .expired),
            (.oldest(untilSize: limit - limit / 10), .overLimit))
        job.isForRoom = isForRoom
        let end = ContinuousClock.now + .milliseconds(10)
        do {
            while try attemptOnce({ try job.step(self) }), .now < end {}
            if !job.isDone, !has(.keepingLimit) { return start(job, .keepingLimit) }
        } catch {
            indexFailed(error)
        }
        job.end(self)
    }

    /// The most bytes that ``keepLimit()`` leaves.
    var largestEntry: Int { sizeLimit.map { $0 - $0 / 10 } ?? .max }

    private func limit(_ bytes: Int) -> (bytes: Int, isForRoom: Bool) {
        let limit = sizeLimit ?? .max
        let vain = state.withLock { $0.lastVainEviction }
        // Files that are still to be deleted will leave room.
        if has(.clearing, .leftovers) || abs(now().timeIntervalSince1970 - vain) < 60 { return (limit, false) }
        guard let free = opened.files?.volume?.free, (bytes + free) / 4 * 3 < bytes else { return (limit, false) }
        // What has been removed from the index leaves room in its file.
        let room = (bytes + free + ((try? opened.index?.freeBytes()) ?? 0)) / 4 * 3
        return room < limit ? (room, true) : (limit, false)
    }

    func carryOnClearing() {
        guard let index = opened.writableIndex, (try? index.hasCleared()) == true, !has(.clearing, .leftovers) else {
            return
        }
        start(OrphanSweep(.clearing, index), .leftovers)
    }

    /// - Parameter room: that of the removals of single entries.
    @discardableResult
    func carryOutRemovals(
        _ removals: [StagingArea.Scope: StagingArea.PendingRemoval], _ room: Room = .reserve
    ) -> Bool {
        var areDone = true
        for (scope, removal) in removals {
            // After one that failed, others lose no time.
            let mayTry = areDone || !(removal.hasFailed || state.withLock { $0.isStalled })
            let isDone = mayTry && attempt(room: .bodies, { try removeAll(in: scope, removal) }) == true
            state.withLock { $0.staged.finish(scope, removal, isDone: isDone) }
            areDone = areDone && isDone
        }
        let outdated = state.withLock { $0.staged.outdated }
        if outdated.isEmpty { return areDone }
        let changes = outdated.map { EntryIndex.Change(id: EntryIndex.id(of: $0.key), table: $0.table) }
        guard let index = opened.writableIndex,
            attempt(room: room, { remove(try index.write(.relaxed, changes)) }) != nil
        else {
            return false
        }
        state.withLock { $0.staged.removedOutdated(outdated) }
        return areDone
    }

    private func removeAll(in scope: StagingArea.Scope, _ removal: StagingArea.PendingRemoval) throws -> Bool {
        guard let index = opened.writableIndex else { return false }
        var job: Removal
        switch scope {
        case .derived(let key): job = Removal((.derived(of: key), nil))
        case .url(let address): job = Removal((.url(address, .entry), nil), (.url(address, .partial), nil))
        case .all where removal.hasFailed:
            job = Removal(
                (.partials(storedBefore: removal.time), nil), (.stored(before: removal.time, after: nil), .cleared))
        case .all:
            state.withLock { $0.accesses = [:] }
            opened.indexFile?.removeOlder()
            let (cleared, blobs) = try index.clear()
            remove(blobs)
            tell(cleared, .cleared)
            start(OrphanSweep(.clearing, index), .clearing)
            return true
        }
        while try job.step(self) {}
        return job.isDone
    }

    /// The number of rows to remove in one transaction.
    var mostRemoved: Int { opened.files?.isTight == true ? 4 : 64 }

    /// - Throws: ``DipperError/notRemoved`` if a removal that the writer has tried has failed.
    func finishRemovals() async throws(DipperError) {
        let failure: DipperError? = await fromThread { answer in
            let isRunning = writer.run {
                self.carryOutRemovals(self.state.withLock { $0.staged.removals.filter(\.value.hasFailed) }, .bodies)
                self.remove(Array(self.state.withLock { exchange(&$0.undeleted, with: []) }))
                let (isOwed, hasFailed) = self.state.withLock { state in
                    (
                        state.staged.owesRemovals || !state.undeleted.isEmpty,
                        exchange(&state.hasFailedRemoval, with: false)
                    )
                }
                if hasFailed { self.start(OrphanSweep(.clearing), .clearing) }
                if !isOwed, !hasFailed { return answer(nil) }
                let reason = self.opened.problem?.description ?? self.state.withLock { $0.lastFailure }
                answer(reason.map(DipperError.notRemoved.with(detail:)) ?? .notRemoved)
            }
            if !isRunning { answer(.shutDown) }
        }
        if let failure { throw failure }
    }

    func trim(toSize size: Int) { start(Removal((.oldest(untilSize: max(0, size)), .overLimit))) }

    func removeExpiredLater(_ kind: JobKind = .asked) {
        let time = now().timeIntervalSince1970
        start(Removal((.expired(at: time), .expired), (.partials(expiredAt: time), nil)), kind)
    }

    fileprivate func tell(_ removed: EntryIndex.Totals, _ reason: CacheEvent.Cleaning.Reason?) {
        guard let reason, removed.entries > 0 else { return }
        events?.cleaned(.init(tier: .disk, reason: reason, entries: removed.entries, bytes: removed.bytes))
    }
}

struct Removal: DiskJob {
    /// A selection, and the reason that an event gives for its removal; `nil` for no event.
    typealias Part = (selection: EntryIndex.Selection, reason: CacheEvent.Cleaning.Reason?)

    private var parts: [Part]
    private var isBegun = false
    private var removed = EntryIndex.Totals()
    /// Whether the removal is to leave room on the volume, and then the size of the files so far and what that has freed.
    var isForRoom = false
    private var deleted = 0
    private var freed = 0

    init(_ parts: Part...) { self.parts = parts }

    var isDone: Bool { parts.isEmpty }

    /// Removes a few entries, so that what is to be written does not wait long.
    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let part = parts.first else { return false }
        guard let index = tier.opened.writableIndex else { throw FileError("remove", tier.options.folder, EROFS) }
        if !isBegun {
            // Recent accesses, once written, keep entries from being the oldest and may extend lifetimes.
            if parts.contains(where: { $0.reason == .overLimit || $0.reason == .expired }) { try tier.writeAccesses() }
            isBegun = true
        }
        var selection = part.selection
        if case .stored(let limit, let last) = selection, part.reason == .flushed {
            // If the clock has been set back since, entries stored from then on stay.
            selection = .stored(before: min(limit, tier.history.storedBefore), after: last)
        }
        let step = try index.removeSome(of: selection, atMost: tier.mostRemoved)
        if isForRoom, let files = tier.opened.files, let before = files.volume?.free {
            deleted += step.blobs.reduce(0) { $0 + ((try? files.size(of: $1)) ?? 0) }
            tier.remove(step.blobs)
            freed += (files.volume?.free ?? before) - before
        } else {
            tier.remove(step.blobs)
        }
        removed.add(step.totals)
        if let rest = step.rest {
            parts[0].selection = rest
        } else {
            tier.tell(removed, part.reason)
            removed = EntryIndex.Totals()
            parts.removeFirst()
        }
        return !parts.isEmpty
    }

    func end(_ tier: DiskTier) {
        tier.tell(removed, parts.first?.reason)
        if freed < deleted / 2 {
            let time = tier.now().timeIntervalSince1970
            tier.state.withLock { $0.lastVainEviction = time }
        }
        if tier.opened.isWritable { tier.noteExpiries() }
    }
}
