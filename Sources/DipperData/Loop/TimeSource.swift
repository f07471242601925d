import Foundation

/// A clock reduced to the cache's needs: the time since some fixed moment, sleeping, and waking.
package struct TimeSource: Sendable {
    package let now: @Sendable () -> Duration
    /// Sleeps until a time: a length of time would be too long if the clock were moved on before the sleep begins.
    package let sleep: @Sendable (_ due: Duration) async throws -> Void
    /// Whether this is a clock of the system, not one that a test moves on.
    package let isReal: Bool

    package init(_ clock: any Clock<Duration>) {
        self = Self.make(clock)
    }

    private init(
        isReal: Bool, now: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.isReal = isReal
        self.now = now
        self.sleep = sleep
    }

    private static func make<C: Clock<Duration>>(_ clock: C) -> TimeSource {
        let origin = clock.now
        return TimeSource(
            isReal: clock is ContinuousClock || clock is SuspendingClock, now: { origin.duration(to: clock.now) },
            sleep: { try await clock.sleep(until: origin.advanced(by: $0), tolerance: nil) })
    }
}

enum WallClock {
    /// The system's time, as exact as the kernel's tick (a few milliseconds): cheap enough to read at every hit.
    static let coarse: @Sendable () -> Date = {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &time)
        return Date(timeIntervalSince1970: Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9)
    }
}
