import Foundation

/// How long an entry counts as present.
public enum Expiration: Sendable, Hashable {
    case never
    case seconds(TimeInterval)
    case days(Int)
    case date(Date)
    /// At once: the entry is handed to those who asked, and not kept.
    case expired

    /// Seconds from `now`; infinite for never, zero or less for expired. What is not a number counts as expired.
    func lifetime(from now: Date) -> TimeInterval {
        switch self {
        case .never: .infinity
        case .seconds(let seconds): seconds.isNaN ? 0 : seconds
        case .days(let days): Double(days) * 86_400
        case .date(let date): date.timeIntervalSince(now)
        case .expired: 0
        }
    }
}

/// What reading an entry does to its expiration.
public enum AccessExtension: Sendable, Hashable {
    /// Nothing.
    case unchanged
    /// Its lifetime begins anew.
    case cacheTime
    /// It now expires as given, counted from the access.
    case expiration(Expiration)
}
