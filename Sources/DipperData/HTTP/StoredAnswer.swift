import Foundation

/// The properties of a stored answer that decide whether it may be used (RFC 9111, section 4).
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

    /// Returns how the stored answer may be used for a request.
    /// - Parameter request: the request's own fields.
    func use(for request: HTTPHeaders, at now: TimeInterval) -> StoredUse {
        let wish = CacheControl(request: request)
        if wish.noCache || control.noCache { return .revalidate }
        let isFresh = freshness.isFresh(at: now)

        // The age beyond the request's `max-age`, in seconds. With `max-age=0` there is always an excess, so that the
        // server is asked even at age zero.
        let age = freshness.age(at: now)
        let excess = wish.maxAge.map { $0 > 0 ? age - $0 : max(age, .leastNonzeroMagnitude) } ?? 0
        let remainsFresh = now + (wish.minFresh ?? 0) <= freshness.until
        if isFresh, remainsFresh {
            if excess <= 0 { return .fresh }
            // A reload sends `max-age=0`, and an immutable answer does not change (RFC 8246, section 2).
            if wish.maxAge == 0, control.immutable { return .fresh }
        }
        // mutant HTTPCaching|Revalidation|StoredAnswer: `if !isFresh` => `if isFresh`
        if !isFresh, control.mustRevalidate { return .revalidate }

        // The response's `stale-while-revalidate` does not override the limits that the request sets.
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

    /// Returns whether the stored answer may replace a failed attempt: a status of 500 or above, or no answer at all.
    /// The response or the request must have `stale-if-error` (RFC 5861, section 4).
    func mayServeOnError(for request: HTTPHeaders, at now: TimeInterval) -> Bool {
        let wish = CacheControl(request: request)
        guard mayBeStale(for: wish) else { return false }
        return isStale(at: now, within: control.staleIfError) || isStale(at: now, within: wish.staleIfError)
    }

    /// Returns whether the stored answer may be used at any age while the server cannot be reached (RFC 9111, section
    /// 4.2.4).
    func mayServeDisconnected(for request: HTTPHeaders) -> Bool {
        mayBeStale(for: CacheControl(request: request))
    }

    private func mayBeStale(for wish: CacheControl) -> Bool {
        !control.mustRevalidate && !control.noCache && !wish.noCache
    }

    /// Returns whether the answer is fresh or has been stale for no longer than the limit; `false` without a limit.
    private func isStale(at now: TimeInterval, within limit: TimeInterval?) -> Bool {
        limit.map { now - freshness.until <= $0 } ?? false
    }
}
