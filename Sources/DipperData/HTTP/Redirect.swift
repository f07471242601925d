import Foundation

/// The rules for redirects of a GET (RFC 9110, section 15.4).
package enum Redirect {
    static let statuses: Set = [301, 302, 303, 307, 308]

    /// Returns the URL of a redirect; an error if it cannot be followed; `nil` for no redirect, or without `Location`.
    static func target(of status: Int, headers: HTTPHeaders, from url: URL) -> Result<URL, DipperError>? {
        guard statuses.contains(status) else { return nil }
        let locations = Set(headers.values("Location"))
        guard let location = locations.first else { return nil }
        guard locations.count == 1, !location.isEmpty,
            var target = URL(text: location, relativeTo: url)
        else { return .failure(.malformedResponse.with(detail: "Location")) }

        let scheme = target.scheme?.asciiLowercased ?? ""
        guard scheme == "http" || scheme == "https" else {
            return .failure(.unsupportedScheme.with(detail: scheme))
        }
        guard let host = target.host, !host.isEmpty, (0...65_535).contains(target.port ?? 0) else {
            return .failure(.malformedResponse.with(detail: "Location"))
        }
        if target.fragment == nil, let mark = url.absoluteString.utf8.firstIndex(of: UInt8(ascii: "#")) {
            target = URL(string: target.absoluteString + url.absoluteString[mark...]) ?? target
        }
        return .success(withAccount(of: url, target))
    }

    /// A user name and a password hold for their origin, so a redirect within it keeps them.
    private static func withAccount(of url: URL, _ target: URL) -> URL {
        guard target.user == nil, isSameOrigin(url, target),
            let account = URLComponents(url: url, resolvingAgainstBaseURL: true), account.user != nil,
            var parts = URLComponents(url: target, resolvingAgainstBaseURL: true)
        else { return target }
        parts.percentEncodedUser = account.percentEncodedUser
        parts.percentEncodedPassword = account.percentEncodedPassword
        return parts.url ?? target
    }

    /// The fields for the target: to another origin only fields that describe the wanted answer, because others may be
    /// secret.
    /// - Parameter sensitive: the names of further fields that are not sent to another origin.
    static func headers(_ headers: HTTPHeaders, from: URL, to: URL, sensitive: FieldNames) -> HTTPHeaders {
        if headers.isEmpty || isSameOrigin(from, to) { return headers }
        // mutant Credential|Redirect: `ving { !harmless.contains($0) || sensiti` => `ving { sensiti`
        return headers.removing { !harmless.contains($0) || sensitive.contains($0) }
    }

    /// Whether a redirect leads from https to http, where anybody can read and change the answer.
    static func isDowngrade(from: URL, to: URL) -> Bool {
        from.scheme?.asciiLowercased == "https" && to.scheme?.asciiLowercased == "http"
    }

    /// Returns the URLs whose answers a request that changes a resource makes out of date (RFC 9111, section 4.4).
    package static func changed(by url: URL, _ headers: HTTPHeaders) -> [URL] {
        let others = ["Location", "Content-Location"].compactMap {
            headers[$0].flatMap { URL(text: $0, relativeTo: url) }
        }
        return [url] + others.filter { isSameOrigin(url, $0) }
    }

    /// Same scheme, host and port (RFC 6454, section 5).
    static func isSameOrigin(_ a: URL, _ b: URL) -> Bool {
        if a == b { return a.host != nil }
        guard let one = ServerOrigin(a), let other = ServerOrigin(b) else { return false }
        // mutant Credential|Redirect: `return one == other` => `return one.host == other.host`
        return one == other
    }

    private static let harmless: FieldNames = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "pragma", "priority", "range",
        "save-data", "user-agent",
    ]
}

struct ServerOrigin: Hashable {
    let scheme, host: String
    let port: Int?

    init?(_ url: URL) {
        guard let scheme = url.scheme?.asciiLowercased, let host = url.host, !host.isEmpty else { return nil }
        self.scheme = scheme
        self.host = host.asciiLowercased
        port = url.port ?? (scheme == "https" ? 443 : scheme == "http" ? 80 : nil)
    }
}

extension URL {
    var ofOrigin: URL? {
        guard var parts = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return nil }
        (parts.user, parts.password, parts.query, parts.fragment) = (nil, nil, nil, nil)
        parts.path = ""
        return parts.url
    }
}

/// The redirects that led to an answer. The cache keeps it under the first URL, so each redirect limits how long.
struct RedirectChain: Sendable {
    struct Hop: Sendable {
        let status: Int
        let headers: HTTPHeaders
        /// In seconds since 1970.
        let requested: TimeInterval
        let received: TimeInterval
    }

    private(set) var hops: [Hop] = []
    private(set) var isDowngraded = false

    mutating func append(_ hop: Hop, from: URL, to: URL) {
        hops.append(hop)
        if Redirect.isDowngrade(from: from, to: to) { isDowngraded = true }
    }

    /// Whether a private cache, or a shared one, may keep the answer: never after a redirect from https to http.
    /// - Parameter request: the fields of the request, with the credentials that were sent.
    func mayStore(ignoresServer: Bool, request: HTTPHeaders = [:], isShared: Bool = false) -> Bool {
        if isDowngraded { return false }
        if ignoresServer { return true }
        return hops.allSatisfy { hop in
            let control = CacheControl(response: hop.headers, isShared: isShared)
            if control.noStore || hop.headers.varying.contains("*") { return false }
            return !isShared || Storing.isForAll(control, request, hop.headers)
        }
    }

    /// Whether a redirect says how long it is fresh in shared caches alone.
    var limitsShared: Bool {
        hops.contains { hop in
            let control = CacheControl(response: hop.headers, isShared: true)
            return control.sharedMaxAge != nil || control.proxyRevalidate || control.isTargeted
        }
    }

    /// A `Vary` field with the request fields that chose the redirects and the answer.
    func vary(with response: HTTPHeaders) -> HTTPHeaders {
        if hops.isEmpty { return HTTPHeaders(response.fields.filter { $0.name.isSameHeaderName(as: "Vary") }) }
        let lists = (hops.map(\.headers) + [response]).map { $0.fieldList("Vary") }
        if lists.contains(where: \.isCut) { return ["Vary": "*"] }
        let members = lists.flatMap(\.members)
        return members.isEmpty ? [:] : ["Vary": members.joined(separator: ", ")]
    }

    /// Returns the freshness of the least fresh of the answer and its redirects.
    /// - Parameter defaultLifetime: the seconds that a redirect holds if it does not say so. `nil` for the rules of RFC
    ///   9111: a permanent redirect holds as long as its answer, and another is stale at once unless the heuristic of
    ///   section 4.2.2 applies.
    func freshness(_ own: Freshness, defaultLifetime: TimeInterval?, isShared: Bool = false) -> Freshness {
        hops.reduce(own) { least, hop in
            let control = CacheControl(response: hop.headers, isShared: isShared)
            let isExplicit = Freshness.isExplicit(in: hop.headers, control)
            if !isExplicit, !control.noCache, defaultLifetime == nil, hop.status == 301 || hop.status == 308 {
                return least
            }
            // Only successes get the default lifetime.
            let freshness = Freshness(
                status: isExplicit || defaultLifetime == nil ? hop.status : 200, headers: hop.headers,
                requested: hop.requested, received: hop.received, defaultLifetime: defaultLifetime, isShared: isShared,
                control)
            return Freshness(
                generated: min(least.generated, freshness.generated), until: min(least.until, freshness.until))
        }
    }
}
