/// The rule for when to try again after a failure that may pass.
///
/// Failures that cannot pass (a 404, a bad certificate) are never retried, unless a ``custom(_:)`` policy says so.
/// While the network is down, the cache makes and counts no attempt: the fetch waits for the network to return, until
/// ``deadline``.
///
/// ```swift
/// var policy = RetryPolicy.exponential(base: .seconds(1), cap: .seconds(60), retries: 5)
/// policy.deadline = .seconds(600)
/// let request = DataRequest(url).with(\.retryPolicy, policy)
/// ```
public struct RetryPolicy: Sendable {
    /// The facts on which a retry is decided.
    public struct Context: Sendable {
        /// The number of this call's failed attempts at the present source, including the present attempt.
        public let failures: Int
        /// The failure of the present attempt.
        public let error: DipperError
        /// The time since the call's first failure at the present source.
        public let elapsed: Duration
    }

    /// Returns the wait after a failure; `nil` ends the call. The number, in 0..<1, is random.
    private let ownDelay: @Sendable (Context, _ unit: Double) -> Duration?
    /// The caller's own rule, whose answer takes the place of ``ownDelay``.
    let rule: (@Sendable (Context) async -> Duration?)?
    let waitsForNetwork: Bool
    /// The most attempts after the first one; `nil` for no limit but the deadline.
    public var maxRetries: Int?
    /// The longest time from the first failure to the last attempt, waits for the network included; `nil` for no limit.
    public var deadline: Duration? = .seconds(3_600)
    /// The longest `Retry-After` that the cache waits for. If the server asks for more, the call ends.
    public var maxRetryAfter: Duration = .seconds(120)

    private init(
        maxRetries: Int?, waitsForNetwork: Bool = true,
        _ ownDelay: @escaping @Sendable (Context, _ unit: Double) -> Duration?,
        rule: (@Sendable (Context) async -> Duration?)? = nil
    ) {
        self.maxRetries = maxRetries
        self.waitsForNetwork = waitsForNetwork
        self.rule = rule
        self.ownDelay = ownDelay
    }

    /// The default policy: exponential back-off from half a second to 30 seconds with full jitter, and three retries.
    public static let `default` = exponential()

    /// The policy that never retries: every failure ends the call, including the lack of a network.
    public static let never = RetryPolicy(maxRetries: 0, waitsForNetwork: false) { _, _ in nil }

    /// Four years: 2⁴⁰ times it fits a duration.
    private static let longest = Duration.seconds(1 << 27)

    /// Returns a policy with the same wait before each retry.
    public static func fixed(_ delay: Duration, retries: Int? = 3) -> RetryPolicy {
        RetryPolicy(maxRetries: retries) { _, _ in delay }
    }

    /// Returns a policy whose wait grows by one step each time: step, 2 × step, 3 × step.
    public static func accumulated(_ step: Duration, retries: Int? = 3) -> RetryPolicy {
        // mutant Retry: ` * min(context.failures, 1 << 20) }` => ` }`
        RetryPolicy(maxRetries: retries) { context, _ in min(step, longest) * min(context.failures, 1 << 20) }
    }

    /// Returns a policy with a random wait below a bound that doubles each time: base, 2 × base, …, at most `cap`.
    public static func exponential(
        base: Duration = .milliseconds(500), cap: Duration = .seconds(30), retries: Int? = 3
    ) -> RetryPolicy {
        RetryPolicy(maxRetries: retries) { context, unit in
            min(cap, min(base, longest) * Double(sign: .plus, exponent: min(context.failures - 1, 40), significand: 1))
                * unit
        }
    }

    /// Returns a policy with a rule of the caller's own: the closure returns the wait before the next attempt, or `nil`
    /// to give up. It is asked about every failure of an attempt but the lack of a network, also about a 404, or about
    /// an answer that cannot be decoded. It may itself wait, for example for a new token; meanwhile the fetch takes no
    /// place in its queue, and the call's ``DataRequest/timeout`` stands still.
    ///
    /// ```swift
    /// let policy = RetryPolicy.custom { context in
    ///     if context.error == .status(401), context.failures == 1, await session.renew() { return .zero }
    ///     return context.error.mayPass && context.failures <= 10 ? .seconds(5) : nil
    /// }
    /// ```
    public static func custom(_ delay: @escaping @Sendable (Context) async -> Duration?) -> RetryPolicy {
        RetryPolicy(maxRetries: nil, { _, _ in nil }, rule: delay)
    }

    /// `nil` ends the call. The `answer` is that of the caller's own rule; the `unit` is a random number in 0..<1.
    func delay(after context: Context, answer: Duration?, unit: Double) -> Duration? {
        // mutant Retry: `etries { retur` => `etries + 1 { retur`
        if let maxRetries, context.failures > maxRetries { return nil }
        guard let own = rule == nil ? ownDelay(context, unit) : answer else { return nil }
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
