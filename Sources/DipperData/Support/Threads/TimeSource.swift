import Dispatch
import Foundation

/// A clock reduced to the cache's needs: the time since some fixed moment, sleeping, and waking.
package struct TimeSource: Sendable {
    package let now: @Sendable () -> Duration
    /// Sleeps until a time. A length of time would be too long if the clock were moved on before the sleep begins.
    package let sleep: @Sendable (_ due: Duration) async throws -> Void
    /// Whether this is a clock of the system, not one that a test moves on.
    private let isReal: Bool

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

    /// The longest wait of a timer of Dispatch. These timers stand still while the computer sleeps, but
    /// `ContinuousClock` goes on.
    private static let longestWait: Duration = .seconds(60)

    /// Calls a closure once, at a time or earlier: a long wait is given up after a minute, and the caller waits again.
    /// - Parameter thread: calls the closure, if this is a clock of the system. Code of the program's own that follows
    ///   from the closure runs elsewhere, so that it does not hold up other timers.
    /// - Returns: a closure that keeps it from being called.
    func wake(
        at due: Duration, on thread: SeparateThread, _ body: @escaping @Sendable () -> Void
    ) -> @Sendable () -> Void {
        guard isReal else {
            let task = Task.detached { [sleep] in
                try? await sleep(due)
                if !Task.isCancelled { thread.carryOut(body) }
            }
            return { task.cancel() }
        }
        let wait = min(max(due - now(), .zero), Self.longestWait)
        // Any thread may cancel a timer of Dispatch; only its Swift type does not say so.
        nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: thread.queue)
        timer.setEventHandler {
            timer.cancel()
            thread.carryOut(body)
        }
        timer.schedule(deadline: .now() + wait / .seconds(1))
        timer.activate()
        return { timer.cancel() }
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
