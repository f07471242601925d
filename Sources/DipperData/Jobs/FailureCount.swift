/// The failures that a call has seen at the present source of its job.
struct FailureCount: Sendable {
    private var count = 0
    private var first: Duration?

    /// Notes a failure.
    /// - Parameter isOffline: whether there was no way to the host. Such a failure does not count as an attempt.
    /// - Returns: the number of failures that count, and the time since the first failure of either kind.
    mutating func add(isOffline: Bool, at now: Duration) -> (count: Int, elapsed: Duration) {
        // mutant Offline|Retry: `if !isOffline { count += 1 }` => `count += 1`
        if !isOffline { count += 1 }
        let first = first ?? now
        self.first = first
        return (count, now - first)
    }
}
