import Foundation

/// The rule for when to try again after a failure that may pass.
///
/// Failures that cannot pass (a 404, a bad certificate) are never retried, unless a policy of the caller's own says so
/// (``custom(_:)``). While the network is down, the cache makes and counts no attempt: the job waits for the network to
/// return, until ``deadline``.
///
/// ```swift
/// var policy = RetryPolicy.exponential(base: .seconds(1), cap: .seconds(60), retries: 5)
/// policy.deadline = .seconds(600)
/// let request = DataRequest(url).with(\.retryPolicy, policy)
/// ```
public struct RetryPolicy: Sendable {
    /// The facts on which a retry is decided.
    public struct Context: Sendable {
        /// The number of failed attempts that this call has seen at the present source, including the present attempt;
        /// at least 1.
        public let failures: Int
        /// The failure of the present attempt.
        public let error: DipperError
        /// The time since the call's first failure at the present source.
        public let elapsed: Duration
    }

    private enum Delay: Sendable {
        case never
        case fixed(Duration)
        case accumulated(Duration)
        case exponential(base: Duration, cap: Duration)
        case custom(@Sendable (Context) async -> Duration?)
    }

    private let delay: Delay
    /// The most attempts after the first one; `nil` for no limit but the deadline.
    public var maxRetries: Int?
    /// The longest time from the first failure to the last attempt, including the wait for the network. `nil` for no
    /// limit.
    public var deadline: Duration? = .seconds(3_600)
    /// The longest `Retry-After` that the cache waits for. If the server asks for more, the call ends.
    public var maxRetryAfter: Duration = .seconds(120)

    private init(_ delay: Delay, maxRetries: Int?) {
        self.delay = delay
        self.maxRetries = maxRetries
    }

    /// The default policy: exponential back-off from half a second to 30 seconds with full jitter, and three retries.
    public static let `default` = exponential()

    /// The policy that never retries: every failure ends the call, including the lack of a network.
    public static let never = RetryPolicy(.never, maxRetries: 0)

    /// Returns a policy with the same wait before each retry.
    public static func fixed(_ delay: Duration, retries: Int? = 3) -> RetryPolicy {
        RetryPolicy(.fixed(delay), maxRetries: retries)
    }

    /// Returns a policy whose wait grows by one step each time: step, 2 × step, 3 × step.
    public static func accumulated(_ step: Duration, retries: Int? = 3) -> RetryPolicy {
        RetryPolicy(.accumulated(step), maxRetries: retries)
    }

    /// Returns a policy with a random wait between nothing and a bound that doubles each time: base, 2 × base, 4 ×
    /// base, up to `cap`.
    public static func exponential(
        base: Duration = .milliseconds(500), cap: Duration = .seconds(30), retries: Int? = 3
    ) -> RetryPolicy {
        RetryPolicy(.exponential(base: base, cap: cap), maxRetries: retries)
    }

    /// Returns a policy with the caller's own rule: the closure returns the wait before the next attempt, or `nil` to
    /// give up. It is asked about every failure of an attempt but the lack of a network, also about those that do not
    /// pass by themselves, such as a 404. It may wait for something, such as the user or a new token; meanwhile the fetch
    /// takes no place in its queue, and the call's ``DataRequest/timeout`` stands still.
    ///
    /// ```swift
    /// let policy = RetryPolicy.custom { context in
    ///     if context.error == .status(401), context.failures == 1, await session.renew() { return .zero }
    ///     return context.error.mayPass && context.failures <= 10 ? .seconds(5) : nil
    /// }
    /// ```
    public static func custom(_ delay: @escaping @Sendable (Context) async -> Duration?) -> RetryPolicy {
        RetryPolicy(.custom(delay), maxRetries: nil)
    }

    var waitsForNetwork: Bool {
        if case .never = delay { false } else { true }
    }

    var rule: (@Sendable (Context) async -> Duration?)? {
        if case .custom(let rule) = delay { rule } else { nil }
    }

    /// Returns the wait before the next attempt, which is at least `Retry-After`; `nil` ends the call.
    /// - Parameters:
    ///   - answer: the answer of the caller's own rule.
    ///   - unit: a random number in 0..<1 for the jitter.
    func delay(after context: Context, answer: Duration?, unit: Double) -> Duration? {
        // mutant Retry: `etries { retur` => `etries + 1 { retur`
        if let maxRetries, context.failures > maxRetries { return nil }
        let own: Duration
        switch delay {
        case .never: return nil
        case .fixed(let delay): own = delay
        // mutant Retry: `own = step * context.failures` => `own = step`
        case .accumulated(let step): own = step * context.failures
        case .exponential(let base, let cap):
            own = min(cap, base * Double(sign: .plus, exponent: min(context.failures - 1, 40), significand: 1)) * unit
        case .custom:
            guard let answer else { return nil }
            own = answer
        }
        var wait = max(.zero, own)
        if let retryAfter = context.error.retryAfter {
            guard retryAfter <= maxRetryAfter else { return nil }
            // mutant Retry: `wait = max(wait, retryAfter)` => `wait = max(wait, .zero)`
            wait = max(wait, retryAfter)
        }
        // mutant Retry: `lapsed + wait > deadline { retu` => `lapsed > deadline + wait { retu`
        if let deadline, context.elapsed + wait > deadline { return nil }
        return wait
    }
}
