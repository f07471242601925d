import Foundation

/// The job that removes the entries which the index selects, with the partial bodies that go with them.
struct Removal: DiskJob {
    private var selection: EntryIndex.Selection
    /// The reason that the program's listeners are told; `nil` if they are not told.
    private let reason: CacheEvent.Cleaning.Reason?
    private var isBegun = false
    private var sweep: Sweep?
    private var cleaned = EntryIndex.Totals()
    /// Whether everything that was selected has been removed.
    private(set) var isDone = false

    init(_ scope: StagingArea.Scope) {
        switch scope {
        case .all: (selection, reason) = (.all, .cleared)
        case .derived(let key): (selection, reason) = (.derived(of: key), nil)
        }
    }

    init(storedBefore limit: TimeInterval, _ reason: CacheEvent.Cleaning.Reason = .flushed) {
        selection = .stored(before: limit, after: nil)
        self.reason = reason
    }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        if !isBegun { tier.reopenIfLost() }
        guard let index = tier.opened.index, tier.opened.files?.isReadOnly == false else { return false }
        if !isBegun {
            try begin(tier, index)
            isBegun = true
        }
        if isDone { return try sweepOn(tier, index) }
        if case .stored(let limit, let last) = selection, reason == .flushed {
            // If the clock has been set back since, what is stored now stays.
            selection = .stored(before: min(limit, tier.history.storedBefore), after: last)
        }
        let removed = try tier.removeSome(of: selection, index)
        cleaned.add(removed.totals)
        if let rest = removed.rest {
            selection = rest
            return true
        }
        isDone = true
        guard case .all = selection else { return false }
        // Nothing is left over after a clearing, not even what an interrupted write left.
        sweep = Sweep(index, isForFiles: true)
        return true
    }

    private mutating func sweepOn(_ tier: DiskTier, _ index: EntryIndex) throws -> Bool {
        if try sweep?.step(tier) == true { return true }
        if sweep?.isIncomplete == true { try index.requestSweep() }
        // Another process may be reading the log.
        try? index.emptyLog()
        return false
    }

    private func begin(_ tier: DiskTier, _ index: EntryIndex) throws {
        switch selection {
        case .all:
            tier.accesses.withLock { $0 = [:] }
            tier.opened.indexFile?.removeOlder()
            tier.remove(try index.removePartials(expiredAt: .infinity))
        case .stored(let limit, _):
            tier.remove(try index.removePartials(expiredAt: -.infinity, storedBefore: limit))
        case .oldest, .expired, .derived: break
        }
    }

    func tell(_ tier: DiskTier) { if let reason { tier.tell(cleaned, reason) } }
}
