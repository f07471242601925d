import Foundation
import Synchronization

/// The earliest time at which something in the tiers expires, and what then cleans them.
final class ExpiryWatch: Sendable {
    /// In seconds since 1970, as bits: those of a later time are a larger number.
    private let earliest = Atomic<UInt64>(TimeInterval.infinity.bitPattern)
    private let cleaners = Mutex<[@Sendable () -> Void]>([])
    private let onChange: @Sendable (TimeInterval) -> Void

    /// - Parameter onChange: called when something expires before all else, with the time, on any thread.
    init(onChange: @escaping @Sendable (TimeInterval) -> Void) {
        self.onChange = onChange
    }

    /// Takes note that something expires at a time, in seconds since 1970.
    func note(_ expires: TimeInterval) {
        let new = max(0, expires).bitPattern
        var old = earliest.load(ordering: .relaxed)
        while new < old {
            let (isDone, present) = earliest.weakCompareExchange(
                expected: old, desired: new, ordering: .acquiringAndReleasing)
            if isDone { return onChange(expires) }
            old = present
        }
    }

    /// Tells the listener again, which may not have been there.
    func tell() {
        let expires = TimeInterval(bitPattern: earliest.load(ordering: .acquiring))
        if expires < .infinity { onChange(expires) }
    }

    /// Adds a closure that removes what has expired from a tier, and then notes when the rest of it expires.
    func add(_ cleaner: @escaping @Sendable () -> Void) { cleaners.withLock { $0.append(cleaner) } }

    /// Removes what has expired.
    func clean() {
        earliest.store(TimeInterval.infinity.bitPattern, ordering: .releasing)
        for clean in cleaners.withLock({ $0 }) { clean() }
    }
}
