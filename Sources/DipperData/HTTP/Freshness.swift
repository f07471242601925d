import Foundation

/// The rule that decides whether a stored answer may be used without asking the server.
///
/// ```swift
/// let icon = DataRequest(url).with(\.freshness, .immutable())
/// let news = DataRequest(feedURL).with(\.freshness, .http(defaultFreshness: .after(.seconds(60))))
/// let menu = DataRequest(feedURL).with(\.freshness, .http(defaultFreshness: .expired))   // each call asks the server
/// ```
public struct FreshnessPolicy: Sendable, Hashable {
    enum Rule: Hashable {
        case http(defaultFreshness: Expiration?, isShared: Bool)
        case immutable(Expiration)
    }

    let rule: Rule

    /// Returns a policy by which the server decides, by the rules of RFC 9111 for a private cache.
    /// - Parameter defaultFreshness: how long a success is fresh if the server does not say so; `.expired` to ask the
    ///   server at each call. `nil` for a tenth of the time since its last modification, at most a day (section 4.2.2).
    public static func http(defaultFreshness: Expiration? = .days(7)) -> FreshnessPolicy {
        FreshnessPolicy(rule: .http(defaultFreshness: defaultFreshness, isShared: false))
    }

    /// Returns a policy by which the server decides, by the rules of RFC 9111 for a shared cache, whose answers go to
    /// several people: that of a proxy, or of a server that fetches for its clients.
    ///
    /// ```swift
    /// configuration.freshness = .shared()
    /// ```
    ///
    /// The cache keeps no answer that is meant for one client, and gives it only to the call that has asked for it. It
    /// also obeys `s-maxage`, `proxy-revalidate` and `CDN-Cache-Control`; see <doc:HTTPRules#Shared-caches>.
    /// - Parameter defaultFreshness: how long a success is fresh if the server does not say so; see
    ///   ``http(defaultFreshness:)``.
    public static func shared(defaultFreshness: Expiration? = .days(7)) -> FreshnessPolicy {
        FreshnessPolicy(rule: .http(defaultFreshness: defaultFreshness, isShared: true))
    }

    /// Returns a policy that ignores the server's rules: the cache keeps every success and uses it without asking.
    /// - Parameter expiration: how long entries are kept, unless the request or the cache has another expiration.
    public static func immutable(for expiration: Expiration = .never) -> FreshnessPolicy {
        FreshnessPolicy(rule: .immutable(expiration))
    }

    var ignoresServer: Bool {
        if case .immutable = rule { true } else { false }
    }

    var isShared: Bool {
        if case .http(_, isShared: true) = rule { true } else { false }
    }

    var expiration: Expiration {
        if case .immutable(let expiration) = rule { expiration } else { .never }
    }
}

/// When an answer was made and how long it stays fresh (RFC 9111, section 4.2), in seconds since 1970.
struct Freshness: Sendable, Hashable {
    /// When the answer's age was zero: its arrival less the corrected initial age (section 4.2.3).
    var generated: TimeInterval
    /// When the answer becomes stale; infinite for never.
    var until: TimeInterval
}

extension Freshness {
    /// - Parameter defaultLifetime: the seconds from `received` for a success that does not say how long it is fresh;
    ///   `nil` for the heuristic of section 4.2.2.
    init(
        status: Int, headers: HTTPHeaders, requested: TimeInterval, received: TimeInterval,
        defaultLifetime: TimeInterval?, isShared: Bool = false, _ control: CacheControl? = nil
    ) {
        // An answer without a readable date counts as made on arrival (RFC 9110, section 6.6.1).
        let date = headers["Date"].flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let delay = max(0, received - requested)
        // mutant HTTPCaching|Freshness: ` date, Self.ageField(of: headers) + delay)` => ` date, delay)`
        let age = max(0, received - date, Self.ageField(of: headers) + delay)
        generated = received - age

        let control = control ?? CacheControl(response: headers, isShared: isShared)
        // mutant HTTPCaching|Freshness: `if let lif` => `if headers["Expires"] == nil, let lif`
        if let lifetime = control.lifetime {
            until = generated + lifetime
        } else if !control.isTargeted, let expires = Self.expires(of: headers, now: received) {
            until = generated + max(0, expires - date)
        } else if let defaultLifetime {
            // However old the answer is on arrival.
            let isSilent = Self.successes.contains(status) && !headers.pragmaSaysNoCache
            until = isSilent ? received + max(0, defaultLifetime) : generated
        } else {
            until = generated
            if control.isPublic || Self.heuristicStatuses.contains(status),
                let modified = headers["Last-Modified"].flatMap({ HTTPDate.seconds($0, now: received) })
            {
                until += min(max(0, date - modified) / 10, 86_400)
            }
        }
        if control.noCache { until = -.infinity }
    }

    func age(at now: TimeInterval) -> TimeInterval { max(0, now - generated) }

    /// An answer from the future, made before the clock was set back, counts as stale until the clock has caught up,
    /// unless it never becomes stale.
    @inline(__always)
    // mutant HTTPCaching|Freshness: `{ now < until` => `{ now <= until`
    func isFresh(at now: TimeInterval) -> Bool { now < until && (now >= generated || until == .infinity) }

    static func isExplicit(in headers: HTTPHeaders, _ control: CacheControl) -> Bool {
        control.lifetime != nil || !control.isTargeted && headers["Expires"] != nil
    }

    static let successes: Set = [200, 203, 204]

    /// The statuses that need no explicit freshness (RFC 9110, section 15.1; 451 by RFC 7725), except 206.
    static let heuristicStatuses: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501]

    /// In seconds. The first value counts; one that is not a number counts as zero (RFC 9111, section 5.1).
    private static func ageField(of headers: HTTPHeaders) -> TimeInterval {
        headers.list("Age").first.flatMap(DeltaSeconds.parse) ?? 0
    }

    /// The earliest date. A value that is not a date lies in the past (section 5.3).
    private static func expires(of headers: HTTPHeaders, now: TimeInterval) -> TimeInterval? {
        headers.values("Expires").map { HTTPDate.seconds($0, now: now) ?? -.infinity }.min()
    }

    static func always(from moment: TimeInterval) -> Freshness {
        Freshness(generated: moment, until: .infinity)
    }
}
