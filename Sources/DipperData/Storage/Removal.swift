import Foundation

/// The job that removes the entries which the index selects, with the partial bodies that go with them.
struct Removal: DiskJob {
    private var selection: EntryIndex.Selection
    /// The reason that the program's listeners are told; `nil` if they are not told.
    private let reason: CacheEvent.Cleaning.Reason?
    private var isBegun = false
    private var cleaned = EntryIndex.Totals()
    /// Whether everything that was selected has been removed.
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
        return false
    }

    func tell(_ tier: DiskTier) { if let reason { tier.tell(cleaned, reason) } }
}
