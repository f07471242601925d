import Foundation
import Synchronization

/// A meter of how long the program's own code holds up GTK's loop: the time in functions that GTK calls.
final class Meter: Sendable {
    struct Reading: Sendable {
        var total = Duration.zero
        /// The part of ``total`` in which the thread ran; in the rest it waited, for example for other programs.
        var running = Duration.zero
        var longest = Duration.zero
    }

    private struct State {
        var depth = 0
        var reading = Reading()
    }

    static let shared = Meter()
    private let state = Mutex(State())

    /// Runs a closure and counts its time; a nested call counts as part of the outer one.
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

    /// The processor time of the calling thread since it started.
    private static var running: Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    func take() -> Reading {
        state.withLock { exchange(&$0.reading, with: Reading()) }
    }
}
