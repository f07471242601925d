import Synchronization

/// The tiers that something was removed from while it was being made: it is not to come back to them.
final class Removals: Sendable {
    private let bits = Atomic<UInt8>(0)

    var tiers: DataCache.Tiers { .init(rawValue: bits.load(ordering: .relaxed)) }
    func add(_ tiers: DataCache.Tiers) { bits.bitwiseOr(tiers.rawValue, ordering: .relaxed) }
}
