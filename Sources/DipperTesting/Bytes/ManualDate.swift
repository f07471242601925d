import Foundation
import Synchronization

/// A wall clock that stands still until a test moves it on. Freshness and expirations follow it.
///
/// ```swift
/// let date = ManualDate()
/// configuration.now = { date.now }
/// date.advance(by: 3_600)
/// ```
public final class ManualDate: Sendable {
    private let state: Mutex<Date>

    /// Creates a wall clock that shows a date, by default one in January 2027.
    public init(_ date: Date = Date(timeIntervalSince1970: 1_800_000_000)) {
        state = Mutex(date)
    }

    /// The date that the clock shows.
    public var now: Date { state.withLock { $0 } }

    /// Moves the clock on by a number of seconds.
    public func advance(by seconds: TimeInterval) { state.withLock { $0 += seconds } }
}
