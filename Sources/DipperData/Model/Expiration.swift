import Foundation

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
