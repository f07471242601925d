import Foundation

/// The job that clears the store: at once for everyone, and then row by row and file by file.
struct Clearing: DiskJob {
    /// Called once: with `true` as soon as nothing can be found any more, or with `false` if that fails.
    private let whenEmpty: @Sendable (Bool) -> Void
    /// The entries that were removed; `nil` as long as they can be found.
    private var cleaned: EntryIndex.Totals?
    private var sweep: Sweep?

    init(whenEmpty: @escaping @Sendable (Bool) -> Void) { self.whenEmpty = whenEmpty }

    /// Creates a job that carries on with a clearing that was cut short.
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
                // Nothing is left over after a clearing, not even what an interrupted write left.
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
