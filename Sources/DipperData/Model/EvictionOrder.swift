/// The rule that decides which entries leave a tier first when it is full.
///
/// The default keeps what is used again and again, and still has what was just scrolled past. Another order is worth a
/// try if you know how your program asks: compare the memory hits in ``DataCache/statistics`` of two runs.
public struct EvictionOrder: Sendable, Hashable {
    private enum Kind {
        case adaptive, recency, frequency
    }

    private let kind: Kind

    /// The order in which new entries are on trial until they have been used several times (after S3-FIFO and ARC).
    ///
    /// New entries stand in one line, proven ones in another. At the end of its line a new entry leaves, unless it has
    /// been used: then it gets another turn, or, after seven uses, joins the proven ones. A proven entry gets a turn for
    /// each use. An entry that left a short time ago and comes back counts as proven.
    ///
    /// The trial has three tenths of the memory at first. It grows when an entry comes back that left the trial, and
    /// shrinks when a proven one comes back. So a long scroll or a scan does not push out what is used again and again, and
    /// what was just seen is there when the user scrolls back. A use only counts, and moves nothing, so hits of several
    /// threads do not hinder one another.
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

    /// The number of uses that prove an entry, and the most that count.
    static let proof: UInt8 = 7

    /// The number of uses of an entry after one more.
    @inline(__always)
    func counted(_ uses: UInt8) -> UInt8 { uses == (movesUsed ? .max : Self.proof) ? uses : uses + 1 }

    /// Returns the line to which the oldest entry of a line goes, and its uses there; `nil` if it leaves.
    /// - Parameter isUsed: whether it has been used since it took its place.
    func turn(_ uses: UInt8, isUsed: Bool, in line: MemoryLine) -> (line: MemoryLine, uses: UInt8)? {
        if line == .main { return spared(uses).map { (.main, $0) } }
        return uses == Self.proof ? (.main, 0) : isUsed ? (.trial, uses) : nil
    }

    /// The number of uses left to an entry that is spared when it is next to leave; `nil` if it leaves.
    @inline(__always)
    func spared(_ uses: UInt8) -> UInt8? {
        // mutant MemoryTier|Eviction: `kind != .recency, uses` => `uses`
        guard kind != .recency, uses > 0 else { return nil }
        return kind == .frequency ? uses / 2 : uses - 1
    }
}

/// The lines in which entries stand, from the newest to the oldest. Only the adaptive order has a trial.
enum MemoryLine: Int, Sendable {
    case main, trial
}
