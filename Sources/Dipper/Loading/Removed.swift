import Foundation

/// The removals of a picture since a piece of work for it began: the work's result stays out of those tiers.
struct Removed: Sendable {
    /// The tiers that the picture was removed from.
    var tiers: CacheTiers = []
    /// Answers that were stored before this moment were removed, in seconds since 1970.
    var flushedBefore = -TimeInterval.infinity

    /// The removal of everything that was made of older bytes.
    static let replaced = Removed(tiers: .all)

    mutating func add(_ other: Removed) {
        tiers.formUnion(other.tiers)
        flushedBefore = max(flushedBefore, other.flushedBefore)
    }

    /// The tiers that something made of an answer stays out of.
    func tiers(for info: EntryInfo) -> CacheTiers { info.stored < flushedBefore ? .all : tiers }
}
