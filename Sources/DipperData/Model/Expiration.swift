import Foundation

/// The time for which an entry counts as present.
///
/// ```swift
/// let request = DataRequest(url).with(\.diskExpiration, .days(30)).with(\.memoryExpiration, .seconds(600))
/// ```
public enum Expiration: Sendable, Hashable {
    case never
    case seconds(TimeInterval)
    case days(Int)
    case date(Date)
    /// The entry expires at once: the cache hands it to the callers that asked for it, and does not keep it.
    case expired

    /// Returns the seconds from `now` to the expiration: infinite for never, zero or less for expired. A number that is
    /// NaN counts as expired.
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

/// The effect of a read on an entry's expiration.
///
/// ```swift
/// var configuration = DataCache.Configuration(directory: DataCache.Configuration.defaultDirectory)
/// configuration.diskExpiration = .days(7)
/// configuration.diskAccessExtension = .cacheTime      // a week after the last use
/// ```
public enum AccessExtension: Sendable, Hashable {
    /// The expiration stays.
    case unchanged
    /// The entry's lifetime begins anew.
    case cacheTime
    /// The entry expires as given, counted from the access; a date is not exceeded, however often the entry is read.
    case expiration(Expiration)
}
