import Foundation

/// A clock reduced to the time since some fixed moment and sleeping.
package struct TimeSource: Sendable {
    package let now: @Sendable () -> Duration
    /// Sleeps until a time: a duration would be too long if the clock were moved on before the sleep begins.
    package let sleep: @Sendable (_ due: Duration) async throws -> Void
    /// Whether this is a clock of the system, not of a test.
    package let isReal: Bool

    package init(_ clock: some Clock<Duration>) {
        let origin = clock.now
        isReal = clock is ContinuousClock || clock is SuspendingClock
        now = { origin.duration(to: clock.now) }
        sleep = { try await clock.sleep(until: origin.advanced(by: $0), tolerance: nil) }
    }
}

/// Counts the time in which it runs. Any clock tells the time.
struct Stopwatch: Sendable {
    // In nanoseconds, because a `Duration` takes twice the memory.
    private var counted: Int64 = 0
    private var since: Int64 = 0

    private(set) var hasStarted = false
    private(set) var isRunning = false

    mutating func run(at now: Duration) {
        if !isRunning { since = now.nanoseconds }
        (hasStarted, isRunning) = (true, true)
    }

    mutating func hold(at now: Duration) {
        if isRunning { counted += now.nanoseconds - since }
        isRunning = false
    }

    func sinceStart(at now: Duration) -> Duration? { hasStarted ? spent(at: now) : nil }

    func spent(at now: Duration) -> Duration {
        .nanoseconds(isRunning ? counted + (now.nanoseconds - since) : counted)
    }
}

enum WallClock {
    /// The system's time to the kernel's tick (a few milliseconds): cheap enough to read at every hit.
    static let coarse: @Sendable () -> Date = {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &time)
        return Date(timeIntervalSince1970: Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9)
    }
}

// A number from the network, the disk or another process passes one of these two before arithmetic.

extension TimeInterval {
    /// About three million years, in seconds. A time that is later or earlier counts as infinite.
    static let longest = 1e14

    /// Seconds from outside: infinite from ``longest`` on, to both sides; 0 for NaN.
    var bounded: TimeInterval { isNaN ? 0 : abs(self) < Self.longest ? self : self > 0 ? .infinity : -.infinity }
}

extension Duration {
    /// Returns a number of seconds as a duration of three million years at most, to both sides; zero for NaN. `seconds`
    /// alone traps for what is not finite or too large.
    package static func seconds(clamping seconds: Double) -> Duration {
        seconds.isNaN ? .zero : .seconds(min(max(seconds, -TimeInterval.longest), TimeInterval.longest))
    }

    /// Rounded up.
    var milliseconds: Int {
        let (seconds, attoseconds) = components
        let whole = seconds.multipliedReportingOverflow(by: 1_000)
        guard !whole.overflow else { return seconds > 0 ? Int.max / 2 : 0 }
        return Int(whole.partialValue) + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// Rounded towards zero; at most three hundred years.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return min(max(seconds, -9_000_000_000), 9_000_000_000) * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    /// In seconds.
    var timeInterval: Double { self / .seconds(1) }
}
