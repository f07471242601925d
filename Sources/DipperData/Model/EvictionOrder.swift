import Foundation

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

/// The time for which an entry counts as present.
public enum Expiration: Sendable, Hashable {
    case never
    /// The end of a span that begins when the entry is stored; see also ``days(_:)``.
    case after(Duration)
    case date(Date)
    /// The entry expires at once: the cache hands it to the callers that asked for it, and does not keep it.
    case expired

    /// The expiration after a number of days of 24 hours.
    public static func days(_ days: Int) -> Expiration { .after(.seconds(86_400) * max(0, min(days, 1 << 31))) }

    /// The seconds from `now` to the expiration: infinite for never, zero or less for expired, also for NaN.
    func lifetime(from now: Date) -> TimeInterval {
        switch self {
        case .never: .infinity
        case .after(let span): span.timeInterval
        case .date(let date): date.timeIntervalSince(now)
        case .expired: 0
        }
    }
}

/// The effect of a read on an entry's expiration.
///
/// ```swift
/// configuration.diskExpiration = .days(7)
/// configuration.diskAccessExtension = .cacheTime      // a week after the last use
/// ```
public enum AccessExtension: Sendable, Hashable {
    /// The expiration stays.
    case unchanged
    /// The entry's lifetime starts again.
    case cacheTime
    /// The entry expires as given, counted from the access; a date stays the same for every access.
    case expiration(Expiration)
}
