/// A failed attempt and the facts on which its consequences are decided. A value that asks nobody but the retry policy
/// of a call.
struct FailedAttempt: Sendable {
    let error: DipperError
    /// Whether there is no way to the host.
    let isOffline: Bool
    /// Whether calls may wait for the network to return: not if another source can be reached.
    var mayWait = true
    /// The time that the job has spent on its attempts.
    var spent = Duration.zero

    /// Returns the verdict for a call that the cache does not answer.
    /// - Parameters:
    ///   - timeout: the time limit of the call.
    ///   - failures: the failures that the call has counted, and the time since the first one.
    ///   - unit: a random number in 0..<1 for the jitter.
    func verdict(
        by policy: RetryPolicy, timeout: Duration?, after failures: (count: Int, elapsed: Duration),
        unit: @autoclosure () -> Double
    ) -> FailureVerdict {
        guard error.mayPass else { return .end }
        if isOffline {
            guard mayWait, policy.waitsForNetwork else { return .end }
            guard let deadline = policy.deadline else { return .waitForNetwork(nil) }
            // mutant Offline|Retry: `eadline - failures.elapsed) : .en` => `eadline) : .en`
            return failures.elapsed < deadline ? .waitForNetwork(deadline - failures.elapsed) : .end
        }
        let context = RetryPolicy.Context(failures: failures.count, error: error, elapsed: failures.elapsed)
        guard let delay = policy.delay(after: context, unit: unit()) else { return .end }
        if let timeout, spent + delay >= timeout { return .end }
        return .retry(after: delay)
    }

    /// Returns the reason for parking the job; `nil` if the failure is final.
    /// - Parameters:
    ///   - delay: the shortest wait that a call asks for before the next attempt.
    ///   - goesOn: whether the job turns to its next source.
    func parking(after delay: Duration?, goesOn: Bool) -> FetchEngine.Scheduler.Parking? {
        if goesOn { return .backOff(.zero) }
        guard error.mayPass else { return nil }
        return isOffline ? .untilNetworkReturns : .backOff(delay ?? .zero)
    }

    /// Whether another source may do better.
    var mayHaveAlternative: Bool { error != .shutDown && !error.isCancelled }
}

extension DipperError {
    /// Whether the failure may have broken off an answer that had begun.
    var isBrokenOff: Bool { self == .connectionLost || self == .truncated || self == .timedOut }
}
