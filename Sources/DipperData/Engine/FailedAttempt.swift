/// A failed attempt, and the facts that decide what follows from it. A value.
struct FailedAttempt: Sendable {
    /// The failures that a call has counted, and the answer of its own rule to the last one.
    struct Count: Sendable {
        let context: RetryPolicy.Context
        var answer: Duration?
    }

    let error: DipperError
    let isOffline: Bool
    /// Whether the server could not be reached, or not be reached behind a gateway, and has sent nothing.
    let isUnreached: Bool
    let time: Duration
    let spent: Duration
    var verdicts = Verdicts()
    var counts: [Waiter: Count] = [:]
    var mayWait = true

    func verdict(
        by policy: RetryPolicy, timeout: Duration?, after count: Count, unit: @autoclosure () -> Double
    ) -> FailureVerdict {
        guard !error.isRemembered, error.mayPass || count.answer != nil else { return .end }
        if isOffline {
            guard mayWait, policy.waitsForNetwork else { return .end }
            guard let deadline = policy.deadline else { return .waitForNetwork(nil) }
            let elapsed = count.context.elapsed
            // mutant Retry: `eadline - elapsed) : .en` => `eadline) : .en`
            return elapsed < deadline ? .waitForNetwork(deadline - elapsed) : .end
        }
        guard let delay = policy.delay(after: count.context, answer: count.answer, unit: unit()) else { return .end }
        if let timeout, spent + delay >= timeout { return .end }
        return .retry(after: delay)
    }
}

extension DipperError {
    var isOfRequest: Bool {
        isCancelled || [.shutDown, .invalidURL, .unsupportedScheme, .emptyKey, .invalidHeader].contains(self)
    }

    /// Whether the connection was used, and what came on it was no answer.
    var isOfAnswer: Bool { self == .connectionLost || self == .truncated || self == .malformedResponse }

    var isUnreached: Bool {
        [.unreachable, .hostNotFound, .connectionFailed, .connectionLost, .timedOut].contains(self)
            || status.map { (502...504).contains($0) } ?? false
    }

    /// Whether bytes are to blame, of which an object could not be made.
    var isOfBytes: Bool { [.undecodable, .unsupportedFormat, .decoderFailed].contains(self) }

    var isBrokenOff: Bool { self == .connectionLost || self == .truncated || self == .timedOut }
}

enum FailureVerdict {
    case end
    /// The call ends with the stored answer, although it is out of date.
    case takeKept(StoredData)
    case retry(after: Duration)
    case waitForNetwork(Duration?)
}

struct FailureCount {
    private var count = 0
    private var first: Duration?

    mutating func add(_ attempt: FailedAttempt) -> RetryPolicy.Context {
        // mutant Retry: `if !attempt.isOffline { count += 1 }` => `count += 1`
        if !attempt.isOffline { count += 1 }
        let first = first ?? attempt.time
        self.first = first
        return RetryPolicy.Context(failures: count, error: attempt.error, elapsed: attempt.time - first)
    }
}
