/// The rule that decides which entries leave a tier first when it is full, in memory and on disk alike.
public struct EvictionOrder: Sendable, Hashable {
    let countsUses: Bool

    /// The order in which the entry whose last use is the longest ago leaves first (LRU).
    public static let leastRecentlyUsed = EvictionOrder(countsUses: false)

    /// The order in which entries that are used often stay longer (LFU).
    ///
    /// The entry whose last use is the longest ago is the next to leave. If it has been used, it goes to the end of the
    /// line instead, and its number of uses is halved: without new uses it leaves after a few turns.
    public static let leastFrequentlyUsed = EvictionOrder(countsUses: true)

    /// The number of uses of an entry after one more; at most 255, which is eight turns.
    @inline(__always)
    static func counted(_ uses: UInt8) -> UInt8 { uses == .max ? uses : uses + 1 }

    /// The number of uses left to an entry that is spared when it is next to leave; `nil` if it leaves.
    @inline(__always)
    // mutant Eviction: `countsUses && uses > 0 ? uses / 2 : nil` => `countsUses && uses > 1 ? uses : nil`
    func spared(_ uses: UInt8) -> UInt8? { countsUses && uses > 0 ? uses / 2 : nil }
}
