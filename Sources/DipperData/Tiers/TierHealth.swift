/// The rule that lets a failing tier rest. A value; times are those of the cache's clock.
struct TierHealth: Sendable {
    /// The number of failures in a row after which the tier rests.
    static let tolerance = 3
    static let shortestRest = Duration.seconds(1)
    static let longestRest = Duration.seconds(60)

    private var failures = 0
    private var rest = Duration.zero
    /// The end of the rest; `nil` while the tier works.
    private(set) var restsUntil: Duration?
    /// Whether the one operation is under way that finds out whether the tier works again.
    private var isTrying = false

    /// Returns whether an operation may begin. After a rest one operation tries the tier, and the others wait for its
    /// outcome.
    mutating func admits(at now: Duration) -> Bool {
        guard let restsUntil else { return true }
        guard now >= restsUntil, !isTrying else { return false }
        isTrying = true
        return true
    }

    mutating func succeeded() { self = TierHealth() }

    /// - Returns: whether the tier begins to rest with this failure.
    mutating func failed(at now: Duration) -> Bool {
        if restsUntil != nil {
            // Operations that began before the rest say nothing new.
            guard isTrying else { return false }
            isTrying = false
            rest = min(rest * 2, Self.longestRest)
            restsUntil = now + rest
            return false
        }
        failures += 1
        // mutant Tier: `res >= Self.tolerance else {` => `res >= 1_000 else {`
        guard failures >= Self.tolerance else { return false }
        rest = Self.shortestRest
        restsUntil = now + rest
        return true
    }
}
