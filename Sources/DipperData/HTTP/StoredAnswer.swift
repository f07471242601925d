import Foundation

/// What the rules see of a stored answer (RFC 9111, section 4).
struct StoredAnswer: Sendable, Hashable {
    let status: Int
    let headers: HTTPHeaders
    let freshness: Freshness
    let control: CacheControl

    init(status: Int, headers: HTTPHeaders, freshness: Freshness) {
        self.status = status
        self.headers = headers
        self.freshness = freshness
        control = CacheControl(response: headers)
    }

    /// - Parameter request: The request's own fields.
    func use(for request: HTTPHeaders, at now: TimeInterval) -> StoredUse {
        let wish = CacheControl(request: request)
        if wish.noCache || control.noCache { return .revalidate }
        let isFresh = freshness.isFresh(at: now)

        // By how much it is older than the request asks for. Zero asks for nothing short of the server's word.
        let age = freshness.age(at: now)
        let excess = wish.maxAge.map { $0 > 0 ? age - $0 : max(age, .leastNonzeroMagnitude) } ?? 0
        let remainsFresh = now + (wish.minFresh ?? 0) <= freshness.until
        if isFresh, remainsFresh {
            if excess <= 0 { return .fresh }
            // `max-age=0` is how a reload is spelled, and this answer does not change (RFC 8246, section 2).
            if wish.maxAge == 0, control.immutable { return .fresh }
        }
        if !isFresh, control.mustRevalidate { return .revalidate }

        // The limits of a request are not for the response to exceed.
        if wish.maxAge == nil, wish.minFresh == nil,
            wish.maxStale == nil || isStale(at: now, within: wish.maxStale),
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

    /// Whether it may stand in for a failed attempt, a status of 500 and above or no answer at all: if the response or
    /// the request has `stale-if-error` (RFC 5861, section 4).
    func mayServeOnError(for request: HTTPHeaders, at now: TimeInterval) -> Bool {
        let wish = CacheControl(request: request)
        guard mayBeStale(for: wish) else { return false }
        return isStale(at: now, within: control.staleIfError) || isStale(at: now, within: wish.staleIfError)
    }

    /// Whether it may be used, however old, while there is no way to the server (RFC 9111, section 4.2.4).
    func mayServeDisconnected(for request: HTTPHeaders) -> Bool {
        mayBeStale(for: CacheControl(request: request))
    }

    private func mayBeStale(for wish: CacheControl) -> Bool {
        !control.mustRevalidate && !control.noCache && !wish.noCache
    }

    /// True if it is fresh, or has been stale for no longer than the limit.
    private func isStale(at now: TimeInterval, within limit: TimeInterval?) -> Bool {
        limit.map { now - freshness.until <= $0 } ?? false
    }
}
