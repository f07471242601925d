import Foundation

/// When an answer was made and how long it is fresh (RFC 9111, section 4.2). Times are seconds since 1970.
struct Freshness: Sendable, Hashable {
    /// When the answer's age was zero: the response's time less its corrected initial age (section 4.2.3).
    var generated: TimeInterval
    /// From this moment on it is stale; infinite for never.
    var until: TimeInterval

    init(generated: TimeInterval, until: TimeInterval) {
        self.generated = generated
        self.until = until
    }

    /// - Parameters:
    ///   - requested: When the request was sent.
    ///   - received: When the answer's header came.
    ///   - defaultLifetime: Seconds from now on for a success that does not say how long it is fresh. `nil` for the
    ///     heuristic of section 4.2.2: a tenth of the time since its last modification, at most a day.
    init(
        status: Int, headers: HTTPHeaders, requested: TimeInterval, received: TimeInterval,
        defaultLifetime: TimeInterval?
    ) {
        // A date that cannot be read is none, and an answer without one is of the moment (RFC 9110, section 6.6.1).
        let date = headers["Date"].flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let delay = max(0, received - requested)
        let age = max(0, received - date, Self.ageField(of: headers) + delay)
        generated = received - age

        let control = CacheControl(response: headers)
        if let lifetime = control.maxAge {
            until = generated + lifetime
        } else if let expires = Self.expires(of: headers, now: received) {
            until = generated + max(0, expires - date)
        } else if let defaultLifetime {
            // The user's word and not the server's: it counts from here, however old the answer was on arrival.
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
    }

    func age(at now: TimeInterval) -> TimeInterval { max(0, now - generated) }

    /// An answer from the future, made before the clock was set back, is of unknown age: it is stale, so that it is not
    /// fresh until the clock has come to that future.
    @inline(__always)
    func isFresh(at now: TimeInterval) -> Bool { now < until && (now >= generated || until == .infinity) }

    /// True if the answer itself says how long it is fresh.
    static func isExplicit(in headers: HTTPHeaders, _ control: CacheControl) -> Bool {
        control.maxAge != nil || headers["Expires"] != nil
    }

    /// Success without a body of its own rules, to which the default lifetime applies.
    static let successes: Set = [200, 203, 204]

    /// What may be kept though it says nothing (RFC 9110, section 15.1; 451 by RFC 7725), partial answers aside.
    static let heuristicStatuses: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 451, 501]

    /// Of several the first counts, and one that is not a number counts for nothing (RFC 9111, section 5.1).
    private static func ageField(of headers: HTTPHeaders) -> TimeInterval {
        headers.list("Age").first.flatMap(DeltaSeconds.parse) ?? 0
    }

    /// `nil` without the field. The earliest of several; what is no date is in the past (section 5.3).
    private static func expires(of headers: HTTPHeaders, now: TimeInterval) -> TimeInterval? {
        headers.values("Expires").map { HTTPDate.seconds($0, now: now) ?? -.infinity }.min()
    }
}

extension Freshness {
    /// Of bytes that no server has anything to say about.
    static func always(from moment: TimeInterval) -> Freshness {
        Freshness(generated: moment, until: .infinity)
    }
}
