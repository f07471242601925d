import Foundation

/// A clock that stands still until a test moves it on. Sleepers wake in the order of their times.
///
/// ```swift
/// let clock = ManualClock()
/// var configuration = DataCache.Configuration()
/// configuration.clock = clock
/// let cache = DataCache(configuration)
/// let task = cache.getData(url)           // its first attempt fails
/// try await clock.waitForSleepers(1)      // it waits for its back-off
/// clock.advance(by: .seconds(30))         // it tries again
/// ```
public final class ManualClock: Clock, Sendable {
    public struct Instant: InstantProtocol {
        public var offset: Duration

        public init(offset: Duration) {
            self.offset = offset
        }

        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        public static func < (a: Self, b: Self) -> Bool { a.offset < b.offset }
    }

    private struct Sleeper {
        let due: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Int: Sleeper] = [:]
        var next = 0
    }

    private let state = WatchedState(State())

    /// Creates a clock that stands at its beginning.
    public init() {}

    public var now: Instant { state.value.now }
    public var minimumResolution: Duration { .nanoseconds(1) }

    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let number = state.update { state in
            state.next += 1
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = state.update { state in
                    if deadline <= state.now || Task.isCancelled { return true }
                    state.sleepers[number] = Sleeper(due: deadline, continuation: continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.update { $0.sleepers.removeValue(forKey: number) }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
        try Task.checkCancellation()
    }

    /// Moves the clock on, and wakes the sleepers whose time has come.
    public func advance(by duration: Duration) {
        let due = state.update { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            let due = state.sleepers.filter { $0.value.due <= now }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.sorted { $0.due < $1.due }
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    /// Moves the clock on to the time when the next sleeper wakes. Returns `false` if nobody sleeps.
    @discardableResult
    public func advanceToNextSleeper() -> Bool {
        let state = state.value
        guard let due = state.sleepers.values.map(\.due).min() else { return false }
        advance(by: state.now.duration(to: due))
        return true
    }

    /// Returns as soon as there are at least `count` sleepers that are to wake up within `span`, or at any time.
    public func waitForSleepers(
        _ count: Int, dueWithin span: Duration? = nil, within limit: Duration = WaitTimeout.standard
    ) async throws {
        @Sendable func found(_ state: State) -> Int {
            guard let span else { return state.sleepers.count }
            return state.sleepers.values.count { state.now.duration(to: $0.due) <= span }
        }
        try await state.wait(within: limit, until: { found($0) >= count }) {
            "\(found($0)) of \(count) sleepers were there"
        }
    }
}

/// A wall clock that stands still until a test moves it on, for `now` of a configuration.
///
/// ```swift
/// let date = ManualDate()
/// configuration.now = { date.now }
/// date.advance(by: 3_600)
/// ```
public final class ManualDate: Sendable {
    private let state: WatchedState<Date>

    /// Creates a wall clock that shows a date, by default one in January 2027.
    public init(_ date: Date = Date(timeIntervalSince1970: 1_800_000_000)) {
        state = WatchedState(date)
    }

    /// The date that the clock shows.
    public var now: Date { state.value }

    /// Moves the clock on by a number of seconds.
    public func advance(by seconds: TimeInterval) { state.update { $0 += seconds } }
}
