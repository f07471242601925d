import Foundation

/// The redirects that led to an answer, as far as they bear on keeping it under the URL that was asked for: that URL will
/// lead to the answer only for as long as each redirect holds.
struct RedirectChain: Sendable {
    /// One redirecting answer.
    struct Hop: Sendable {
        let status: Int
        let headers: HTTPHeaders
        /// When its request was sent, and when it came; seconds since 1970.
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

    /// Whether the redirects let a private cache keep what they led to. What came over http in answer to https is not kept
    /// whatever they say.
    func mayStore(ignoresServer: Bool) -> Bool {
        if isDowngraded { return false }
        if ignoresServer { return true }
        return hops.allSatisfy { hop in
            !CacheControl(response: hop.headers).noStore && !hop.headers.varying.contains("*")
        }
    }

    /// The fields of requests that chose the redirects and the answer.
    func vary(with response: HTTPHeaders) -> HTTPHeaders {
        let lists = (hops.map(\.headers) + [response]).map { $0.fieldList("Vary") }
        if lists.contains(where: \.isCut) { return ["Vary": "*"] }
        let members = lists.flatMap(\.members)
        return members.isEmpty ? [:] : ["Vary": members.joined(separator: ", ")]
    }

    /// The freshness of the least fresh, the answer's own among them.
    /// - Parameter defaultLifetime: how long a redirect that does not say so holds, in seconds; `nil` for the rules of
    ///   RFC 9111: a permanent one for as long as its answer, another for no time.
    func freshness(_ own: Freshness, defaultLifetime: TimeInterval?) -> Freshness {
        hops.reduce(own) { least, hop in
            let control = CacheControl(response: hop.headers)
            let isExplicit = Freshness.isExplicit(in: hop.headers, control)
            if !isExplicit, !control.noCache, defaultLifetime == nil, hop.status == 301 || hop.status == 308 {
                return least
            }
            // A redirect that is silent counts as a success that is.
            var freshness = Freshness(
                status: isExplicit || defaultLifetime == nil ? hop.status : 200, headers: hop.headers,
                requested: hop.requested, received: hop.received, defaultLifetime: defaultLifetime)
            if control.noCache { freshness.until = -.infinity }
            return Freshness(
                generated: min(least.generated, freshness.generated), until: min(least.until, freshness.until))
        }
    }
}
