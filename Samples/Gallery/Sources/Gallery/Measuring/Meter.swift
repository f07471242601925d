import Foundation
import Synchronization

/// How long the program's own code holds up GTK's loop: the time in functions that GTK calls.
final class Meter: Sendable {
    /// What was measured since it was last asked.
    struct Reading: Sendable {
        /// All calls together.
        var total = Duration.zero
        /// What the thread really ran of that: the rest it waited, be it for other programs.
        var running = Duration.zero
        /// The longest of them.
        var longest = Duration.zero
    }

    private struct State {
        var depth = 0
        var reading = Reading()
    }

    static let shared = Meter()
    private let state = Mutex(State())

    /// Runs a closure and counts its time; a call inside another counts as part of it.
    func measure<Result>(_ body: () -> Result) -> Result {
        let start = ContinuousClock.now
        let runningStart = Self.running
        state.withLock { $0.depth += 1 }
        defer {
            let time = start.duration(to: .now)
            let running = Self.running - runningStart
            state.withLock { state in
                state.depth -= 1
                if state.depth == 0 {
                    state.reading.total += time
                    state.reading.running += running
                    state.reading.longest = max(state.reading.longest, time)
                }
            }
        }
        return body()
    }

    /// Of this thread, since it began.
    private static var running: Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// What was measured, and begins anew.
    func take() -> Reading {
        state.withLock { exchange(&$0.reading, with: Reading()) }
    }
}
