import Foundation

/// A clock reduced to the cache's needs: the time since some fixed moment, and sleeping.
package struct TimeSource: Sendable {
    package let now: @Sendable () -> Duration
    package let sleep: @Sendable (Duration) async throws -> Void

    package init(_ clock: any Clock<Duration>) {
        self = Self.make(clock)
    }

    private init(
        now: @escaping @Sendable () -> Duration, sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    private static func make<C: Clock<Duration>>(_ clock: C) -> TimeSource {
        let origin = clock.now
        return TimeSource(
            now: { origin.duration(to: clock.now) },
            sleep: { try await clock.sleep(until: clock.now.advanced(by: $0), tolerance: nil) })
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
