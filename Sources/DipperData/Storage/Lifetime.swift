import Foundation

/// An expiration fixed to a moment: what a tier keeps with an entry. Seconds since 1970.
package struct Lifetime: Sendable, Hashable {
    /// Infinite for never.
    var expires: TimeInterval
    /// What an access adds: seconds from the access; `nil` leaves the expiration as it is.
    var accessExtension: TimeInterval?

    static let forever = Lifetime(expires: .infinity, accessExtension: nil)

    init(expires: TimeInterval, accessExtension: TimeInterval?) {
        self.expires = expires
        self.accessExtension = accessExtension
    }

    init(_ expiration: Expiration, extendedBy accessExtension: AccessExtension, now: Date) {
        let lifetime = expiration.lifetime(from: now)
        expires = now.timeIntervalSince1970 + lifetime
        self.accessExtension =
            switch accessExtension {
            case .unchanged: nil
            // "Anew" has a meaning for a span only; a date stays that date.
            case .cacheTime: if case .date = expiration { nil } else { lifetime }
            case .expiration(let expiration): expiration.lifetime(from: now)
            }
    }

    func isExpired(at now: TimeInterval) -> Bool { expires <= now }

    /// The expiration after an access; an access never shortens a life that is given by a span.
    func expires(accessedAt now: TimeInterval) -> TimeInterval {
        accessExtension.map { now + $0 } ?? expires
    }
}
