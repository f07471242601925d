import Foundation

/// The job that removes entries which the index selects.
struct Eviction: DiskJob {
    private let selection: EntryIndex.Selection
    private let reason: CacheEvent.Cleaning.Reason
    /// The size to which the job first reduces the store with larger steps, in bytes; `nil` once that is done.
    private var atOnce: Int?
    /// The time as of which the job first removes expired entries; `nil` if that is done or not wanted.
    private var expiry: TimeInterval?
    private let isFirstExpired: Bool
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
        guard let index = tier.opened.index, let files = tier.opened.files, !files.isReadOnly else { return false }
        if !isBegun {
            isBegun = true
            // Recent accesses, once written, keep entries from being among the oldest and may extend their lifetimes.
            tier.writeAccesses()
            if isFirstExpired { expiry = tier.now().timeIntervalSince1970 }
        }
        // The number of times that this step removes up to 64 entries.
        var rounds = atOnce == nil ? 1 : 64
        while let time = expiry, rounds > 0 {
            rounds -= 1
            let removed = try index.removeSome(of: .expired(at: time)) { files.remove($0) }
            expired.add(removed)
            if removed.entries == 0 { expiry = nil }
        }
        while let size = atOnce, rounds > 0 {
            rounds -= 1
            let removed = try index.removeSome(of: .oldest(untilSize: size, now: tier.now().timeIntervalSince1970)) {
                files.remove($0)
            }
            cleaned.add(removed)
            if removed.entries == 0 { atOnce = nil }
        }
        if rounds == 0 { return true }
        let removed = try index.removeSome(of: selection) { files.remove($0) }
        cleaned.add(removed)
        return removed.entries > 0
    }

    func tell(_ tier: DiskTier) {
        tier.tell(expired, .expired)
        tier.tell(cleaned, reason)
    }
}

extension EntryIndex.Totals {
    mutating func add(_ other: Self) {
        bytes += other.bytes
        entries += other.entries
    }
}
