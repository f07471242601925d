import Foundation

/// When to try again after a failure that may pass.
///
/// Failures that cannot pass (a 404, a bad certificate) are never retried. While the network is down no attempt
/// is made and none is counted: the job waits for it to come back, until ``deadline``.
public struct RetryPolicy: Sendable {
    /// What is known when a retry is to be decided.
    public struct Context: Sendable {
        /// Failed attempts this call has seen, the present one included; at least 1.
        public let failures: Int
        /// The failure of the present attempt.
        public let error: DipperError
        /// Time since the call's first failure.
        public let elapsed: Duration
    }

    private enum Delay: Sendable {
        case never
        case fixed(Duration)
        case accumulated(Duration)
        case exponential(base: Duration, cap: Duration)
        case custom(@Sendable (Context) -> Duration?)
    }

    private let delay: Delay
    /// Attempts after the first one; `nil` for no limit but the deadline.
    public var maxRetries: Int?
    /// The longest time from the first failure to the last attempt, waiting for the network included.
    /// `nil` waits for ever.
    public var deadline: Duration? = .seconds(3_600)
    /// The longest `Retry-After` that is waited for; a server that asks for more has failed for good.
    public var maxRetryAfter: Duration = .seconds(120)

    private init(_ delay: Delay, maxRetries: Int?) {
        self.delay = delay
        self.maxRetries = maxRetries
    }

    /// Exponential back-off from half a second to 30 seconds with full jitter, three retries.
    public static let `default` = exponential()

    /// Every failure ends the call, also one for want of a network.
    public static let never = RetryPolicy(.never, maxRetries: 0)

    /// The same wait each time.
    public static func fixed(_ delay: Duration, retries: Int? = 3) -> RetryPolicy {
        RetryPolicy(.fixed(delay), maxRetries: retries)
    }

    /// One step longer each time: step, 2 × step, 3 × step.
    public static func accumulated(_ step: Duration, retries: Int? = 3) -> RetryPolicy {
        RetryPolicy(.accumulated(step), maxRetries: retries)
    }

    /// A random wait between nothing and a bound that doubles each time: base, 2 × base, 4 × base, up to `cap`.
    public static func exponential(
        base: Duration = .milliseconds(500), cap: Duration = .seconds(30), retries: Int? = 3
    ) -> RetryPolicy {
        RetryPolicy(.exponential(base: base, cap: cap), maxRetries: retries)
    }

    /// The caller's own rule: the wait before the next attempt, or `nil` to give up.
    public static func custom(_ delay: @escaping @Sendable (Context) -> Duration?) -> RetryPolicy {
        RetryPolicy(.custom(delay), maxRetries: nil)
    }

    /// Whether a job may wait for the network to return.
    var waitsForNetwork: Bool {
        if case .never = delay { false } else { true }
    }

    /// The wait before the next attempt, `Retry-After` honoured; `nil` ends the call.
    /// - Parameter unit: a random number in 0..<1 for the jitter.
    func delay(after context: Context, unit: Double) -> Duration? {
        if let maxRetries, context.failures > maxRetries { return nil }
        let own: Duration
        switch delay {
        case .never: return nil
        case .fixed(let delay): own = delay
        case .accumulated(let step): own = step * context.failures
        case .exponential(let base, let cap):
            own = min(cap, base * Double(sign: .plus, exponent: min(context.failures - 1, 40), significand: 1)) * unit
        case .custom(let rule):
            guard let delay = rule(context) else { return nil }
            own = delay
        }
        var wait = max(.zero, own)
        if let retryAfter = context.error.retryAfter {
            guard retryAfter <= maxRetryAfter else { return nil }
            wait = max(wait, retryAfter)
        }
        if let deadline, context.elapsed + wait > deadline { return nil }
        return wait
    }
}
