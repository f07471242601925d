import Foundation

/// The redirects that led to an answer. The cache keeps the answer under the first URL, so each redirect limits how
/// long the answer may be kept.
struct RedirectChain: Sendable {
    /// One redirecting answer.
    struct Hop: Sendable {
        let status: Int
        let headers: HTTPHeaders
        /// The times at which the request was sent and its answer received, in seconds since 1970.
        let requested: TimeInterval
        let received: TimeInterval
    }

    private(set) var hops: [Hop] = []
    /// Whether a redirect led from https to http.
    private(set) var isDowngraded = false

    mutating func append(_ hop: Hop, from: URL, to: URL) {
        hops.append(hop)
        if Redirect.isDowngrade(from: from, to: to) { isDowngraded = true }
    }

    /// Returns whether the redirects let a private cache keep the answer. After a redirect from https to http the
    /// answer is never kept.
    /// - Parameter ignoresServer: whether directives of the redirects are ignored.
    func mayStore(ignoresServer: Bool) -> Bool {
        if isDowngraded { return false }
        if ignoresServer { return true }
        return hops.allSatisfy { hop in
            !CacheControl(response: hop.headers).noStore && !hop.headers.varying.contains("*")
        }
    }

    /// Returns a `Vary` field with the request fields that chose the redirects and the answer; no field if there are
    /// none.
    func vary(with response: HTTPHeaders) -> HTTPHeaders {
        if hops.isEmpty { return HTTPHeaders(response.fields.filter { $0.name.isSameHeaderName(as: "Vary") }) }
        let lists = (hops.map(\.headers) + [response]).map { $0.fieldList("Vary") }
        if lists.contains(where: \.isCut) { return ["Vary": "*"] }
        let members = lists.flatMap(\.members)
        return members.isEmpty ? [:] : ["Vary": members.joined(separator: ", ")]
    }

    /// Returns the freshness of the answer and its redirects together: that of the least fresh.
    /// - Parameter defaultLifetime: the seconds that a redirect holds if it does not say so. `nil` for the rules of RFC
    ///   9111: a permanent redirect holds as long as its answer, and another one is stale at once unless the heuristic
    ///   of section 4.2.2 applies.
    func freshness(_ own: Freshness, defaultLifetime: TimeInterval?) -> Freshness {
        hops.reduce(own) { least, hop in
            let control = CacheControl(response: hop.headers)
            let isExplicit = Freshness.isExplicit(in: hop.headers, control)
            if !isExplicit, !control.noCache, defaultLifetime == nil, hop.status == 301 || hop.status == 308 {
                return least
            }
            // A silent redirect gets the default lifetime, which only successes get.
            var freshness = Freshness(
                status: isExplicit || defaultLifetime == nil ? hop.status : 200, headers: hop.headers,
                requested: hop.requested, received: hop.received, defaultLifetime: defaultLifetime)
            if control.noCache { freshness.until = -.infinity }
            return Freshness(
                generated: min(least.generated, freshness.generated), until: min(least.until, freshness.until))
        }
    }
}
