import Foundation
import Synchronization

/// The expiration that a tier keeps with an entry. Times are in seconds since 1970.
package struct Lifetime: Sendable, Hashable {
    var expires: TimeInterval
    /// The lifetime after an access, in seconds; negative for a fixed time in seconds since 1970, negated. `nil` if an
    /// access leaves the expiration as it is.
    var accessExtension: TimeInterval?

    static let forever = Lifetime(expires: .infinity, accessExtension: nil)

    init(expires: TimeInterval, accessExtension: TimeInterval?) {
        self.expires = Self.clamped(expires)
        self.accessExtension = accessExtension.map(Self.clamped)
    }

    private static func clamped(_ time: TimeInterval) -> TimeInterval { max(time.bounded, -.longest) }

    init(_ expiration: Expiration, extendedBy accessExtension: AccessExtension, now: Date) {
        let lifetime = expiration.lifetime(from: now)
        let added: TimeInterval? =
            switch accessExtension {
            case .unchanged: nil
            case .cacheTime: if case .date = expiration { nil } else { lifetime }
            case .expiration(.date(let date)): -max(0, date.timeIntervalSince1970)
            case .expiration(let expiration): max(0, expiration.lifetime(from: now))
            }
        self.init(expires: now.timeIntervalSince1970 + lifetime, accessExtension: added)
    }

    /// The lifetime options of a request that reads an entry; `nil` keeps the entry's.
    struct Reader {
        var expiration: Expiration?
        var accessExtension: AccessExtension?
    }

    /// The lifetime for a request with other options that reads the entry. The request's extension has taken effect.
    /// - Parameter entered: when the entry was stored, in seconds since 1970.
    func read(by reader: Reader, entered: TimeInterval, at now: TimeInterval) -> Lifetime {
        // With the entry's extension, its lifetime began at the last access that extended it.
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

    /// The expiration after an access. It can be earlier than ``expires``.
    func expires(accessedAt now: TimeInterval) -> TimeInterval {
        accessExtension.map { $0 < 0 ? -$0 : now + $0 } ?? expires
    }
}

extension Expiration {
    init(span: TimeInterval) { self = span < .longest ? .after(.seconds(clamping: span)) : .never }
}

/// The tiers whose expired entries are removed together: soon after the first has expired, or when asked for.
final class ExpiryWatch: Sendable {
    /// In seconds since 1970, as bits, which are in the same order.
    private let earliest = Atomic<UInt64>(TimeInterval.infinity.bitPattern)
    private let cleaners = Observers<@Sendable () -> Void>()
    private let onChange: @Sendable (TimeInterval) -> Void

    init(onChange: @escaping @Sendable (TimeInterval) -> Void) {
        self.onChange = onChange
    }

    func note(_ expires: TimeInterval) {
        let new = max(0, expires).bitPattern
        guard new < earliest.load(ordering: .relaxed) else { return }
        if new < earliest.min(new, ordering: .acquiringAndReleasing).oldValue { onChange(expires) }
    }

    func tell() {
        let expires = TimeInterval(bitPattern: earliest.load(ordering: .acquiring))
        if expires < .infinity { onChange(expires) }
    }

    /// - Parameter cleaner: removes what has expired from a tier, then notes its next expiration.
    func add(_ cleaner: @escaping @Sendable () -> Void) { cleaners.add(cleaner) }

    func clean() {
        earliest.store(TimeInterval.infinity.bitPattern, ordering: .releasing)
        for clean in cleaners.all { clean() }
    }
}
