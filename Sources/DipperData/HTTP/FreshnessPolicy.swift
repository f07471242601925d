/// What decides whether a stored answer may be used without asking the server.
public struct FreshnessPolicy: Sendable, Hashable {
    enum Rule: Hashable {
        case http(defaultFreshness: Expiration?)
        case immutable(Expiration)
    }

    let rule: Rule

    /// The server decides, by the rules of RFC 9111 for a private cache: what it says of freshness, validators,
    /// variants and storing is obeyed.
    /// - Parameter defaultFreshness: how long a success that says nothing of its freshness is fresh. `nil` for a tenth
    ///   of the time since it was last modified, at most a day (RFC 9111, section 4.2.2).
    public static func http(defaultFreshness: Expiration? = .days(7)) -> FreshnessPolicy {
        FreshnessPolicy(rule: .http(defaultFreshness: defaultFreshness))
    }

    /// What the server says is ignored: every success is kept and used as long as this, unless the request or the cache
    /// has an expiration of its own.
    public static func immutable(for expiration: Expiration = .never) -> FreshnessPolicy {
        FreshnessPolicy(rule: .immutable(expiration))
    }

    /// Whether what is stored is used whatever the server says.
    var ignoresServer: Bool {
        if case .immutable = rule { true } else { false }
    }

    /// How long entries whose request says nothing are kept.
    var expiration: Expiration {
        if case .immutable(let expiration) = rule { expiration } else { .never }
    }
}
