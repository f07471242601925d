/// The time spent on a fetch since its first attempt, without the time in which it was held back or had no network.
struct TimeBudget: Sendable {
    private var counted = Duration.zero
    private var runningSince: Duration?

    private(set) var hasStarted = false

    mutating func run(at now: Duration) {
        hasStarted = true
        if runningSince == nil { runningSince = now }
    }

    mutating func hold(at now: Duration) {
        if let runningSince { counted += now - runningSince }
        runningSince = nil
    }

    /// Returns the time spent; `nil` before the first attempt.
    func sinceStart(at now: Duration) -> Duration? { hasStarted ? spent(at: now) : nil }

    func spent(at now: Duration) -> Duration {
        counted + (runningSince.map { now - $0 } ?? .zero)
    }
}
