import Foundation

extension DiskTier {
    /// Removes a damaged row, unless another one has replaced it since.
    /// - Returns: whether there was such a row.
    @discardableResult
    func removeDamaged(_ id: Int, _ table: EntryIndex.Table = .entry, _ content: EntryIndex.Content) -> Bool {
        let opened = opened
        guard opened.files?.isReadOnly == false else { return false }
        do {
            let isRemoved = try remove(id, table, ifStill: content)
            if isRemoved { complain("an entry was damaged and has been removed", nil) }
            return isRemoved
        } catch {
            indexFailed(error)
            return false
        }
    }

    /// Removes a row that still is as it was read, with its file.
    /// - Returns: whether there was such a row.
    func remove(_ id: Int, _ table: EntryIndex.Table, ifStill content: EntryIndex.Content) throws -> Bool {
        guard let blobs = try opened.index?.remove(id, from: table, ifStill: content) else { return false }
        remove(blobs)
        return true
    }

    /// - Returns: what was removed, and what is left to remove.
    func removeSome(of selection: EntryIndex.Selection, _ index: EntryIndex) throws -> EntryIndex.Removed {
        let removed = try index.removeSome(of: selection)
        remove(removed.blobs)
        return removed
    }

    /// Removes expired entries, then others in the order of eviction: the excess at once, for up to ten milliseconds,
    /// then in the background, a few entries at a time, until a tenth of the limit is free.
    func keepLimit() {
        let opened = opened
        guard let limit = sizeLimit, let index = opened.index, opened.files?.isReadOnly == false,
            let totals = try? index.totals(), totals.bytes > limit
        else { return }
        var job = Eviction(.oldest(untilSize: limit - limit / 10), .overLimit, atOnce: limit, isFirstExpired: true)
        do {
            guard try job.step(self) else { return job.tell(self) }
        } catch {
            indexFailed(error)
            return job.tell(self)
        }
        guard !jobs.withLock({ exchange(&$0.isKeepingLimit, with: true) }) else { return job.tell(self) }
        start(job) { job in
            job.tell(self)
            self.jobs.withLock { $0.isKeepingLimit = false }
        }
    }

    func start(_ clearing: Clearing, _ kind: DiskJobs.Kind) {
        jobs.withLock { $0.isClearing = true }
        start(clearing, kind) { clearing in
            clearing.end(self)
            self.jobs.withLock { $0.isClearing = false }
        }
    }

    func carryOnClearing() {
        let opened = opened
        guard opened.files?.isReadOnly == false, (try? opened.index?.hasCleared()) == true,
            !jobs.withLock({ $0.isClearing })
        else { return }
        start(Clearing(), .background)
    }

    /// In the order of eviction, in the background, until at most `size` bytes are left.
    func trim(toSize size: Int) {
        start(Eviction(.oldest(untilSize: max(0, size)), .overLimit)) { $0.tell(self) }
    }

    func removeExpiredLater() {
        let time = now().timeIntervalSince1970
        start(Eviction(.expired(at: time), .expired)) { job in
            job.tell(self)
            if self.opened.files?.isReadOnly != false { return }
            self.noteExpiries()
            do {
                self.remove(try self.opened.index?.removePartials(expiredAt: time) ?? [])
            } catch {
                self.indexFailed(error)
            }
        }
    }

    func tell(_ cleaned: EntryIndex.Totals, _ reason: CacheEvent.Cleaning.Reason) {
        guard cleaned.entries > 0 else { return }
        events?.cleaned(.init(tier: .disk, reason: reason, entries: cleaned.entries, bytes: cleaned.bytes))
    }
}

private struct Eviction: DiskJob {
    private let selection: EntryIndex.Selection
    private let reason: CacheEvent.Cleaning.Reason
    /// In bytes, reached with larger steps; `nil` once that is done.
    private var atOnce: Int?
    /// The time as of which expired entries are removed first; `nil` if that is done or not wanted.
    private var expiry: TimeInterval?
    private let isFirstExpired: Bool
    /// After this time a step ends that removes more than once.
    static let longestStep = Duration.milliseconds(10)
    private var isBegun = false
    private var cleaned = EntryIndex.Totals()
    private var expired = EntryIndex.Totals()

    init(
        _ selection: EntryIndex.Selection, _ reason: CacheEvent.Cleaning.Reason, atOnce: Int? = nil,
        isFirstExpired: Bool = false
    ) {
        self.selection = selection
        self.reason = reason
        self.atOnce = atOnce
        self.isFirstExpired = isFirstExpired
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index, tier.opened.files?.isReadOnly == false else { return false }
        if !isBegun {
            isBegun = true
            // Recent accesses, once written, keep entries from being among the oldest and may extend their lifetimes.
            tier.writeAccesses()
            if isFirstExpired { expiry = tier.now().timeIntervalSince1970 }
        }
        let end = ContinuousClock.now + Self.longestStep
        while let time = expiry {
            let removed = try tier.removeSome(of: .expired(at: time), index)
            expired.add(removed.totals)
            if removed.rest == nil { expiry = nil }
            if .now > end { return true }
        }
        while let size = atOnce {
            let removed = try tier.removeSome(of: .oldest(untilSize: size), index)
            cleaned.add(removed.totals)
            if removed.rest == nil { atOnce = nil }
            if .now > end { return true }
        }
        let removed = try tier.removeSome(of: selection, index)
        cleaned.add(removed.totals)
        return removed.rest != nil
    }

    func tell(_ tier: DiskTier) {
        tier.tell(expired, .expired)
        tier.tell(cleaned, reason)
    }
}

/// Removes the entries which the index selects, with the partial bodies that go with them.
struct Removal: DiskJob {
    private var selection: EntryIndex.Selection
    private let reason: CacheEvent.Cleaning.Reason?
    private var isBegun = false
    private var cleaned = EntryIndex.Totals()
    private(set) var isDone = false

    init(derivedOf key: CacheKey) { (selection, reason) = (.derived(of: key), nil) }

    init(storedBefore limit: TimeInterval, _ reason: CacheEvent.Cleaning.Reason = .flushed) {
        selection = .stored(before: limit, after: nil)
        self.reason = reason
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        if !isBegun { tier.reopenIfLost() }
        guard let index = tier.opened.index, tier.opened.files?.isReadOnly == false else { return false }
        if !isBegun {
            if case .stored(let limit, _) = selection {
                tier.remove(try index.removePartials(expiredAt: -.infinity, storedBefore: limit))
            }
            isBegun = true
        }
        if case .stored(let limit, let last) = selection, reason == .flushed {
            // If the clock has been set back since, entries that are stored now stay.
            selection = .stored(before: min(limit, tier.history.storedBefore), after: last)
        }
        let removed = try tier.removeSome(of: selection, index)
        cleaned.add(removed.totals)
        if let rest = removed.rest {
            selection = rest
            return true
        }
        isDone = true
        return false
    }

    func tell(_ tier: DiskTier) { if let reason { tier.tell(cleaned, reason) } }
}

/// Clears the store: at once for everyone, and then row by row and file by file.
struct Clearing: DiskJob {
    /// Called once: with `true` as soon as no entry can be found any more, or with `false` if that fails.
    private let whenEmpty: @Sendable (Bool) -> Void
    /// `nil` as long as the entries can be found.
    private var cleaned: EntryIndex.Totals?
    private var sweep: Sweep?

    init(whenEmpty: @escaping @Sendable (Bool) -> Void) { self.whenEmpty = whenEmpty }

    init() { (whenEmpty, cleaned) = ({ _ in }, .init()) }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        if cleaned == nil { tier.reopenIfLost() }
        guard let index = tier.opened.index, tier.opened.files?.isReadOnly == false else { return false }
        if cleaned == nil {
            tier.accesses.withLock { $0 = [:] }
            tier.opened.indexFile?.removeOlder()
            let (entries, blobs) = try index.clear()
            cleaned = entries
            whenEmpty(true)
            tier.remove(blobs)
        } else if sweep == nil {
            let end = ContinuousClock.now + Eviction.longestStep
            repeat {
                // A clearing leaves nothing, not even the files of an interrupted write.
                if try tier.removeSome(of: .cleared, index).rest == nil { sweep = Sweep(index, isForFiles: true) }
            } while sweep == nil && .now < end
        } else if try sweep?.step(tier) == false {
            if sweep?.isIncomplete == true { try index.requestSweep() }
            // Another process may be reading the log.
            try? index.emptyLog()
            return false
        }
        return true
    }

    func end(_ tier: DiskTier) {
        if let cleaned { tier.tell(cleaned, .cleared) } else { whenEmpty(false) }
    }
}
