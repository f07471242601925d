/// The rule that decides whether a stored answer may be used without asking the server.
///
/// ```swift
/// let icon = DataRequest(url).with(\.freshness, .immutable())
/// let news = DataRequest(feedURL).with(\.freshness, .http(defaultFreshness: .seconds(60)))
/// ```
public struct FreshnessPolicy: Sendable, Hashable {
    enum Rule: Hashable {
        case http(defaultFreshness: Expiration?)
        case immutable(Expiration)
    }

    let rule: Rule

    /// Returns a policy by which the server decides, by the rules of RFC 9111 for a private cache. The cache follows
    /// the server's freshness, validators, variants and rules for storing.
    /// - Parameter defaultFreshness: how long a success is fresh if the server does not say so. `nil` for a tenth of
    ///   the time since its last modification, at most a day (RFC 9111, section 4.2.2).
    public static func http(defaultFreshness: Expiration? = .days(7)) -> FreshnessPolicy {
        FreshnessPolicy(rule: .http(defaultFreshness: defaultFreshness))
    }

    /// Returns a policy that ignores the server's rules: the cache keeps every success and uses it without asking the
    /// server.
    /// - Parameter expiration: how long entries are kept, unless the request or the cache has an expiration of its own.
    public static func immutable(for expiration: Expiration = .never) -> FreshnessPolicy {
        FreshnessPolicy(rule: .immutable(expiration))
    }

    /// Whether stored answers are used regardless of the server's rules.
    var ignoresServer: Bool {
        if case .immutable = rule { true } else { false }
    }

    /// The expiration of entries if neither the request nor the cache has one.
    var expiration: Expiration {
        if case .immutable(let expiration) = rule { expiration } else { .never }
    }
}
