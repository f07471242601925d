import Foundation

/// An expiration fixed to a moment: what a tier keeps with an entry. Seconds since 1970.
package struct Lifetime: Sendable, Hashable {
    /// Infinite for never.
    var expires: TimeInterval
    /// What an access adds: seconds from the access; `nil` leaves the expiration as it is.
    var accessExtension: TimeInterval?

    static let forever = Lifetime(expires: .infinity, accessExtension: nil)

    /// Three million years. What is further off is never, so that no time is too large for a row of the index.
    static let longest: TimeInterval = 1e14

    init(expires: TimeInterval, accessExtension: TimeInterval?) {
        self.expires = Self.clamped(expires)
        self.accessExtension = accessExtension.map(Self.clamped)
    }

    private static func clamped(_ time: TimeInterval) -> TimeInterval {
        time.isNaN ? 0 : time >= longest ? .infinity : max(time, -longest)
    }

    init(_ expiration: Expiration, extendedBy accessExtension: AccessExtension, now: Date) {
        let lifetime = expiration.lifetime(from: now)
        let added: TimeInterval? =
            switch accessExtension {
            case .unchanged: nil
            // "Anew" has a meaning for a span only; a date stays that date.
            case .cacheTime: if case .date = expiration { nil } else { lifetime }
            case .expiration(let expiration): expiration.lifetime(from: now)
            }
        self.init(expires: now.timeIntervalSince1970 + lifetime, accessExtension: added)
    }

    func isExpired(at now: TimeInterval) -> Bool { expires <= now }

    /// The expiration after an access; an access never shortens a life that is given by a span.
    func expires(accessedAt now: TimeInterval) -> TimeInterval {
        accessExtension.map { now + $0 } ?? expires
    }
}
