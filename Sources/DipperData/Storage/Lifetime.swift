import Foundation
import Synchronization

/// The expiration that a tier keeps with an entry. Times are in seconds since 1970.
package struct Lifetime: Sendable, Hashable {
    var expires: TimeInterval
    /// The lifetime that an access gives the entry, in seconds from the access. A negative number stands for a fixed
    /// time, at which the entry then expires. `nil` if an access leaves the expiration as it is.
    var accessExtension: TimeInterval?

    static let forever = Lifetime(expires: .infinity, accessExtension: nil)

    /// About three million years. A later time counts as never, so that no time is too large for a row of the index.
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
            // Only a span can begin anew. A date stays the same.
            case .cacheTime: if case .date = expiration { nil } else { lifetime }
            case .expiration(.date(let date)): -max(0, date.timeIntervalSince1970)
            case .expiration(let expiration): max(0, expiration.lifetime(from: now))
            }
        self.init(expires: now.timeIntervalSince1970 + lifetime, accessExtension: added)
    }

    /// The lifetime options of a request that reads an entry; `nil` leaves what the entry has.
    struct Reader {
        var expiration: Expiration?
        var accessExtension: AccessExtension?
    }

    /// The lifetime for a request with options of its own that reads the entry. An extension of the request's own has
    /// taken effect.
    /// - Parameter entered: when the entry has come.
    func read(by reader: Reader, entered: TimeInterval, at now: TimeInterval) -> Lifetime {
        // With an extension of the entry's own, the last hit that extended it counts as its coming.
        let extended = reader.accessExtension == nil ? accessExtension.flatMap { $0 > 0 ? expires - $0 : nil } : nil
        let begun = extended.flatMap { $0.isFinite ? max(entered, $0) : nil } ?? entered
        var lifetime = Lifetime(
            reader.expiration ?? Expiration(span: span(since: entered)),
            extendedBy: reader.accessExtension ?? .unchanged, now: Date(timeIntervalSince1970: begun))
        if reader.expiration == nil { lifetime.expires = expires }
        if reader.accessExtension == nil {
            lifetime.accessExtension = accessExtension
        } else {
            lifetime.expires = lifetime.expires(accessedAt: now)
        }
        return lifetime
    }

    func span(since entered: TimeInterval) -> TimeInterval {
        accessExtension.flatMap { $0 < 0 ? nil : $0 } ?? max(0, expires - entered)
    }

    // mutant Expiry|MemoryTier: `xpires <= now ` => `xpires + 10 <= now `
    func isExpired(at now: TimeInterval) -> Bool { expires <= now }

    /// The expiration after an access, by ``accessExtension``. It can be earlier than ``expires``.
    func expires(accessedAt now: TimeInterval) -> TimeInterval {
        accessExtension.map { $0 < 0 ? -$0 : now + $0 } ?? expires
    }
}

extension Expiration {
    init(span: TimeInterval) { self = span < Lifetime.longest ? .after(.seconds(span)) : .never }
}

/// Notes when the next entry in the tiers expires, and then cleans them.
final class ExpiryWatch: Sendable {
    /// In seconds since 1970, as bits: those of a later time are a larger number.
    private let earliest = Atomic<UInt64>(TimeInterval.infinity.bitPattern)
    private let cleaners = Mutex<[@Sendable () -> Void]>([])
    private let onChange: @Sendable (TimeInterval) -> Void

    init(onChange: @escaping @Sendable (TimeInterval) -> Void) {
        self.onChange = onChange
    }

    func note(_ expires: TimeInterval) {
        let new = max(0, expires).bitPattern
        // Most entries expire later, and need no more than this look.
        guard new < earliest.load(ordering: .relaxed) else { return }
        if new < earliest.min(new, ordering: .acquiringAndReleasing).oldValue { onChange(expires) }
    }

    /// The listener may not have been there before.
    func tell() {
        let expires = TimeInterval(bitPattern: earliest.load(ordering: .acquiring))
        if expires < .infinity { onChange(expires) }
    }

    /// - Parameter cleaner: removes what has expired from a tier, and then notes when the rest of it expires.
    func add(_ cleaner: @escaping @Sendable () -> Void) { cleaners.withLock { $0.append(cleaner) } }

    func clean() {
        earliest.store(TimeInterval.infinity.bitPattern, ordering: .releasing)
        for clean in cleaners.withLock({ $0 }) { clean() }
    }
}
