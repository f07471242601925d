import Foundation

/// The removals that concern a piece of work since it began. Its result is not kept in the tiers that the removals
/// name.
struct Removed: Sendable {
    /// The tiers from which the picture was removed.
    var tiers: CacheTiers = []
    /// Answers stored before this time, in seconds since 1970, were removed from all tiers.
    var flushedBefore = -TimeInterval.infinity

    /// The removal of everything that was made from older bytes.
    static let replaced = Removed(tiers: .all)

    mutating func add(_ other: Removed) {
        tiers.formUnion(other.tiers)
        flushedBefore = max(flushedBefore, other.flushedBefore)
    }

    /// Returns the tiers in which a picture made from an answer must not be kept.
    func tiers(for info: EntryInfo) -> CacheTiers { info.stored < flushedBefore ? .all : tiers }
}
