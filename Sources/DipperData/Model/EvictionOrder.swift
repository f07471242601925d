/// The rule that decides which entries leave a tier first when it is full.
///
/// The default keeps what is used again and again, and still has what was just scrolled past. Another order is worth a
/// try if you know how your program asks: compare the memory hits in ``DataCache/statistics`` of two runs.
public struct EvictionOrder: Sendable, Hashable {
    private enum Kind {
        case adaptive, recency, frequency
    }

    private let kind: Kind

    /// The order in which new entries are on trial until they have been used (S3-FIFO).
    ///
    /// New entries stand in a line of about three tenths of the memory. An entry that is used before it comes to the end
    /// of that line moves to the main line, and stays there as long as it is used. An entry that leaves the trial unused,
    /// and comes back soon, goes to the main line at once. So a long scroll or a scan does not push out what is used again
    /// and again. A use only counts; it moves nothing, so hits of several threads do not hinder one another.
    ///
    /// On disk this order is ``leastRecentlyUsed``.
    public static let adaptive = EvictionOrder(kind: .adaptive)

    /// The order in which the entry whose last use is the longest ago leaves first (LRU).
    public static let leastRecentlyUsed = EvictionOrder(kind: .recency)

    /// The order in which entries that are used often stay longer (LFU).
    ///
    /// The entry whose last use is the longest ago is the next to leave. If it has been used, it goes to the end of the
    /// line instead, and its number of uses is halved: without new uses it leaves after a few turns.
    public static let leastFrequentlyUsed = EvictionOrder(kind: .frequency)

    /// The number of uses of a new entry: as one that is no better and came before it, or none.
    var newUses: UInt8 { movesUsed ? 1 : 0 }

    /// Whether an entry goes to the end of its line when it is used.
    @inline(__always)
    var movesUsed: Bool { kind != .adaptive }

    var onDisk: EvictionOrder { kind == .adaptive ? .leastRecentlyUsed : self }

    /// The number of uses of an entry after one more. The most are eight turns, or three.
    @inline(__always)
    func counted(_ uses: UInt8) -> UInt8 { uses == (movesUsed ? .max : 3) ? uses : uses + 1 }

    /// The number of uses left to an entry that is spared when it is next to leave; `nil` if it leaves.
    @inline(__always)
    func spared(_ uses: UInt8) -> UInt8? {
        // mutant MemoryTier|Eviction: `kind != .recency, uses` => `uses`
        guard kind != .recency, uses > 0 else { return nil }
        return kind == .frequency ? uses / 2 : uses - 1
    }
}
