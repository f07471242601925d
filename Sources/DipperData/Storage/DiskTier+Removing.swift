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
    /// milliseconds at once, the rest in the background.
    func keepLimit() {
        guard let limit = sizeLimit, let totals = try? opened.writableIndex?.totals(), totals.bytes > limit else {
            return
        }
        var job = Removal(
            (.expired(at: now().timeIntervalSince1970), .expired),
            (.oldest(untilSize: limit - limit / 10), .overLimit))
        let end = ContinuousClock.now + .milliseconds(10)
        do {
            while try job.step(self), .now < end {}
            if !job.isDone, !hasJob(.keepingLimit) { return start(job, .keepingLimit) }
        } catch {
            indexFailed(error)
        }
        job.end(self)
    }

    /// Ends a clearing that another store has begun.
    func carryOnClearing() {
        if (try? opened.writableIndex?.hasCleared()) == true, !hasJob(.clearing, .leftovers) {
            start(Clearing(), .leftovers)
        }
    }

    func trim(toSize size: Int) { start(Removal((.oldest(untilSize: max(0, size)), .overLimit))) }

    func removeExpiredLater() {
        let time = now().timeIntervalSince1970
        var job = Removal((.expired(at: time), .expired), (.partials(expiredAt: time), nil))
        job.whenEnded = { _ in if self.opened.isWritable { self.noteExpiries() } }
        start(job)
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
    var whenEnded: @Sendable (_ isDone: Bool) -> Void = { _ in }
    private var isBegun = false
    private var removed = EntryIndex.Totals()

    init(_ parts: Part...) { self.parts = parts }

    var isDone: Bool { parts.isEmpty }

    /// Removes a few entries, so that what is to be written does not wait long.
    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.writableIndex, let part = parts.first else { return false }
        if !isBegun {
            isBegun = true
            // Recent accesses, once written, keep entries from being the oldest and may extend lifetimes.
            if parts.contains(where: { $0.reason == .overLimit || $0.reason == .expired }) { tier.writeAccesses() }
        }
        var selection = part.selection
        if case .stored(let limit, let last) = selection, part.reason == .flushed {
            // If the clock has been set back since, entries stored from then on stay.
            selection = .stored(before: min(limit, tier.history.storedBefore), after: last)
        }
        let step = try index.removeSome(of: selection)
        tier.remove(step.blobs)
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
        whenEnded(isDone)
    }
}

/// Clears the store: at once for everyone, and then row by row and file by file.
struct Clearing: DiskJob {
    /// Called with whether no entry can be found any more; `nil` afterwards.
    private var whenEmpty: (@Sendable (Bool) -> Void)?
    private var cleared = EntryIndex.Totals()
    private var removal = Removal((.cleared, nil))
    private var sweep: OrphanSweep?

    init(whenEmpty: (@Sendable (Bool) -> Void)? = nil) { self.whenEmpty = whenEmpty }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.writableIndex else { return false }
        if let whenEmpty {
            tier.state.withLock { $0.accesses = [:] }
            tier.opened.indexFile?.removeOlder()
            let (entries, blobs) = try index.clear()
            cleared = entries
            self.whenEmpty = nil
            whenEmpty(true)
            tier.remove(blobs)
        } else if sweep == nil {
            // A clearing leaves nothing, not even the files of an interrupted write.
            if try !removal.step(tier) { sweep = OrphanSweep(.clearing, index) }
        } else if try sweep?.step(tier) == false {
            if sweep?.isIncomplete == true { try index.requestSweep() }
            try? index.emptyLog()
            return false
        }
        return true
    }

    func end(_ tier: DiskTier) {
        if let whenEmpty { whenEmpty(false) } else { tier.tell(cleared, .cleared) }
    }
}
