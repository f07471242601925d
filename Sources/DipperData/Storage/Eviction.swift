import Foundation

/// The job that makes room: it removes expired entries, then others in the order of eviction.
struct Eviction: DiskJob {
    private let selection: EntryIndex.Selection
    private let reason: CacheEvent.Cleaning.Reason
    /// The size to which the job first reduces the store with larger steps, in bytes; `nil` once that is done.
    private var atOnce: Int?
    /// The time as of which the job first removes expired entries; `nil` if that is done or not wanted.
    private var expiry: TimeInterval?
    private let isFirstExpired: Bool
    /// The time after which a step ends that removes more than once.
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
