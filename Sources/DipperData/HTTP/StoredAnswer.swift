import Foundation

/// The properties of a stored answer that decide whether it may be used (RFC 9111, section 4).
struct StoredAnswer: Sendable, Hashable {
    let freshness: Freshness
    let control: CacheControl
    /// Whether a private cache has kept an answer that a shared one would not have.
    let isOfAnother: Bool

    /// - Parameter isForClient: whether it was kept for one client.
    init(freshness: Freshness, control: CacheControl, isForClient: Bool = false) {
        (self.freshness, self.control) = (freshness, control)
        isOfAnother = control.isShared && (isForClient || control.isWhollyPrivate)
    }

    func use(for request: HTTPHeaders, at now: TimeInterval) -> StoredUse {
        let wish = CacheControl(request: request)
        if wish.noCache || control.noCache || isOfAnother { return .revalidate }
        let isFresh = freshness.isFresh(at: now)

        // In seconds. With `max-age=0` there is always an excess, so that the server is asked even at age zero.
        let age = freshness.age(at: now)
        let excess = wish.maxAge.map { $0 > 0 ? age - $0 : max(age, .leastNonzeroMagnitude) } ?? 0
        let remainsFresh = now + (wish.minFresh ?? 0) <= freshness.until
        if isFresh, remainsFresh {
            if excess <= 0 { return .fresh }
            // A reload sends `max-age=0`, and an immutable answer does not change (RFC 8246, section 2).
            if wish.maxAge == 0, control.immutable { return .fresh }
        }
        // mutant HTTPCaching|Revalidation|StoredAnswer: `if !isFresh` => `if isFresh`
        if !isFresh, control.forbidsStale { return .revalidate }

        // The limits of the request count before `stale-while-revalidate`.
        if wish.maxAge == nil, wish.minFresh == nil,
            wish.maxStale == nil || isStale(at: now, within: wish.maxStale),
            // mutant Revalidation|StoredAnswer: `+ window` => `+ window + 10`
            let window = control.staleWhileRevalidate, now < freshness.until + window
        {
            return .staleWhileRevalidating
        }
        if let maxStale = wish.maxStale, wish.minFresh == nil || remainsFresh,
            max(now - freshness.until, excess) <= maxStale
        {
            return .stale
        }
        return .revalidate
    }

    /// Whether the answer may replace a failed attempt: while it is stale for no longer than the response, the request
    /// (`stale-if-error`, RFC 5861, section 4) or the program allows, and at any age without a network (RFC 9111, section
    /// 4.2.4), or if the server could not be reached and has set no limit.
    /// - Parameter limit: the program's own limit in seconds, which decides alone if there is one.
    func mayServeOnError(
        for request: HTTPHeaders, at now: TimeInterval, isOffline: Bool = false, isUnreached: Bool = false,
        limit: TimeInterval? = nil
    ) -> Bool {
        guard mayServeDisconnected(for: request) else { return false }
        if let limit { return mayReplaceFailure(at: now, within: limit) }
        return isOffline || isUnreached && control.staleIfError == nil
            || mayReplaceFailure(at: now, within: control.staleIfError)
            || mayReplaceFailure(at: now, within: CacheControl(request: request).staleIfError)
    }

    /// Whether the answer may be used at any age while the server cannot be reached.
    func mayServeDisconnected(for request: HTTPHeaders) -> Bool {
        !control.forbidsStale && !control.noCache && !isOfAnother && !CacheControl(request: request).noCache
    }

    /// A limit of zero means never, also in the moment in which the answer becomes stale.
    private func mayReplaceFailure(at now: TimeInterval, within limit: TimeInterval?) -> Bool {
        limit != 0 && isStale(at: now, within: limit)
    }

    private func isStale(at now: TimeInterval, within limit: TimeInterval?) -> Bool {
        limit.map { now - freshness.until <= $0 } ?? false
    }
}

/// The calls that an answer may serve.
package enum Audience: Sendable, Comparable {
    /// The call that has asked for it.
    case asker
    /// The calls that wait for it.
    case waiting
    /// The calls of this cache, which may keep it, but not those that follow the rules of a shared cache.
    case client
    /// All calls of this cache.
    case cache
    /// Also those of other caches: it may be kept in tiers that others read.
    case everybody
}

package enum StoredUse: Sendable, Equatable {
    case fresh
    /// The answer is used, and refreshed in the background.
    case staleWhileRevalidating
    /// The answer is used, because the request accepts its age.
    case stale
    /// The server is asked, with the stored validators if there are any.
    case revalidate
}

/// The rules for what a private cache, or a shared one, may keep of the answer to a GET (RFC 9111, section 3). For a
/// shared cache, the fields of the request are those that were sent. Each rule reads the directives of the response if
/// they are not at hand.
enum Storing {
    static func mayStore(
        status: Int, request: HTTPHeaders, response: HTTPHeaders, isShared: Bool = false, _ control: CacheControl? = nil
    ) -> Bool {
        let control = control ?? CacheControl(response: response, isShared: isShared)
        guard allows(status: status, request: request, response: response, isShared: isShared, control) else {
            return false
        }
        let isPrivate = control.isPrivate && !isShared
        if control.isPublic || isPrivate || Freshness.isExplicit(in: response, control) { return true }
        guard Freshness.heuristicStatuses.contains(status) else { return false }
        return Freshness.successes.contains(status) || !Validators(response).isEmpty
    }

    /// Whether a failure may be remembered: a cache may do without a validator where nothing but the status counts.
    static func mayRemember(
        status: Int, request: HTTPHeaders, response: HTTPHeaders, isShared: Bool = false, _ control: CacheControl? = nil
    ) -> Bool {
        let control = control ?? CacheControl(response: response, isShared: isShared)
        return status >= 400
            && allows(status: status, request: request, response: response, isShared: isShared, control)
            && (Freshness.heuristicStatuses.contains(status) || Freshness.isExplicit(in: response, control))
    }

    /// Whether nothing forbids storing the answer. What a shared cache must not store, only one client may have.
    static func allows(
        status: Int, request: HTTPHeaders, response: HTTPHeaders, isShared: Bool = false, _ control: CacheControl? = nil
    ) -> Bool {
        // mutant HTTPCaching|StoredAnswer: `status != 206, status != 304 else` => `status != 304 else`
        guard (200...599).contains(status), status != 206, status != 304 else { return false }
        guard !CacheControl(request: request).noStore else { return false }
        let control = control ?? CacheControl(response: response, isShared: isShared)
        if control.mustUnderstand {
            // A cache that knows the status may keep the answer (section 5.2.2.3).
            guard understood.contains(status) else { return false }
            // mutant HTTPCaching: `} else if control.noStore {` => `} else if control.noStore, status != 200 {`
        } else if control.noStore {
            return false
        }
        // mutant Variant: `ains("*") else` => `ains("**") else`
        guard !response.varying.contains("*") else { return false }
        // Otherwise unread fields of the connection would be kept.
        if response.fieldList("Connection").isCut { return false }
        return !isShared || isForAll(control, request, response)
    }

    /// Whether others than the client of the request may see the answer. Stricter than RFC 9111, which does not speak of
    /// cookies: a server that sets one, or is sent one, tells clients apart.
    static func isForAll(_ control: CacheControl, _ request: HTTPHeaders, _ response: HTTPHeaders) -> Bool {
        !control.isWhollyPrivate && !response.setsCookies && (control.allowsCredentials || !request.hasCredentials)
    }

    /// Without the fields of the connection, of a proxy and those that `no-cache` names (section 3.1), and without
    /// cookies, which other requests must not see; for a shared cache also without those that `private` names.
    static func fields(
        of response: HTTPHeaders, isShared: Bool = false, _ control: CacheControl? = nil
    ) -> HTTPHeaders {
        response.removing(unkept(in: response, isShared: isShared, control).contains)
    }

    /// The names of the fields of a response that are not kept.
    static func unkept(
        in response: HTTPHeaders, isShared: Bool = false, _ control: CacheControl? = nil
    ) -> FieldNames {
        let control = control ?? CacheControl(response: response, isShared: isShared)
        let names = response.list("Connection") + control.noCacheFields + (isShared ? control.privateFields : [])
        var unkept = unkeptFields
        for name in names { unkept.insert(name) }
        return unkept
    }

    private static let unkeptFields: FieldNames = [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        // mutant HTTPCaching|StoredAnswer: `"set-cookie", "set-cookie2",` => ``
        "set-cookie", "set-cookie2",
    ]

    /// The final statuses of RFC 9110 that are kept unchanged, and those of RFC 6585 and RFC 7725.
    private static let understood: Set = Set([200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 307, 308, 421, 422])
        .union(400...417).union([426, 428, 429, 431, 451]).union(500...505).union([511])
}

/// The request fields that choose a stored answer (RFC 9111, section 4.1).
struct Variant: Sendable, Hashable {
    /// The names in `Vary`, lower-cased and sorted.
    let names: [String]
    /// Digests of the request's values; `nil` for an absent field.
    let values: [String?]
    /// Because of `Vary: *`.
    let isUnmatchable: Bool

    init?(vary response: HTTPHeaders, request: HTTPHeaders) {
        let members = response.varying
        guard !members.isEmpty else { return nil }
        isUnmatchable = members.contains("*")
        names = members.sorted()
        values = names.map { Self.value($0, of: request) }
    }

    func matches(_ request: HTTPHeaders) -> Bool {
        !isUnmatchable && values == names.map { Self.value($0, of: request) }
    }

    /// Text for a cache key: the names, each after its length in bytes, with the digests.
    var selection: String { Self.selection(names, values) }

    func selection(for request: HTTPHeaders) -> String {
        Self.selection(names, names.map { Self.value($0, of: request) })
    }

    private static func selection(_ names: [String], _ values: [String?]) -> String {
        zip(names, values).map { "\($0.utf8.count):\($0)\($1 ?? "-")" }.joined()
    }

    /// A digest, because a value may be a secret.
    private static func value(_ name: String, of request: HTTPHeaders) -> String? {
        let lines = request.values(name)
        return lines.isEmpty ? nil : CacheKey.digest(FieldList(lines, most: .max).members.joined(separator: ", "))
    }

    init(names: [String], values: [String?]) {
        self.names = names
        self.values = values
        isUnmatchable = false
    }
}

extension HTTPHeaders {
    /// Whether a request with these fields is made for one client.
    var hasCredentials: Bool {
        has("Authorization") || has("Cookie") || has("Proxy-Authorization")
            || fields.contains { Redaction.standard.isSecret($0.name) }
    }
    var setsCookies: Bool { has("Set-Cookie") || has("Set-Cookie2") }
}
