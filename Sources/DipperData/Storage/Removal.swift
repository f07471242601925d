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

    init(storedBefore limit: TimeInterval) { (selection, reason) = (.stored(before: limit, after: nil), .flushed) }

    mutating func step(_ tier: DiskTier) throws -> Bool {
        guard let index = tier.opened.index, tier.opened.files?.isReadOnly == false else { return false }
        if !isBegun {
            try begin(tier, index)
            isBegun = true
        }
        if let isUnfinished = try sweep?.step(tier) {
            if !isUnfinished {
                // Another process may be reading the log.
                try? index.emptyLog()
                isDone = true
            }
            return isUnfinished
        }
        if case .stored(let limit, let last) = selection {
            // If the clock has been set back since, what is stored now stays.
            selection = .stored(before: min(limit, tier.history.storedBefore), after: last)
        }
        let removed = try tier.removeSome(of: selection, index)
        cleaned.add(removed.totals)
        if let rest = removed.rest {
            selection = rest
            return true
        }
        guard case .all = selection else {
            isDone = true
            return false
        }
        // Nothing is left over after a clearing, not even what an interrupted write left.
        sweep = Sweep(index, isForFiles: true)
        return true
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
