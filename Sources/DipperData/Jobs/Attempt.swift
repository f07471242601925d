import Foundation

/// One attempt at a source: the requests it takes, from the first to the answer that counts. A value; sends nothing.
struct Attempt: Sendable {
    /// What follows an answer.
    enum Step: Sendable {
        /// This one counts.
        case answer(TransferResponse)
        /// What is stored is still right.
        case notModified(TransferResponse)
        /// ``request`` is to be sent again: it has changed.
        case again
        /// Go on there, if nobody objects.
        case redirect(to: URL, TransferResponse)
        /// The server wants other credentials.
        case challenge(String, TransferResponse)
        case failed(DipperError)
    }

    /// The source.
    let origin: URL
    /// The present URL before the modifier changes it: the one that validators and partial bodies belong to.
    private(set) var url: URL
    /// Where the request that is under way, or the last one, went: the modifier may have changed it.
    private(set) var sentURL: URL
    private var headers: HTTPHeaders
    private let hooks: RequestHooks
    private let maximumRedirects: Int
    private(set) var chain = RedirectChain()
    var redirects: Int { chain.hops.count }
    /// Asked about by its validators.
    private(set) var stored: StoredData?
    /// Continued.
    private(set) var partial: PartialBody?
    private var continuations = 0
    /// The server has refused the credentials once.
    private var hasAnsweredChallenge = false
    private var isAnonymous = false
    var authorization: String?
    /// A part is what was asked for, by us, by the caller or by the modifier.
    var asksForRange = false

    /// - Parameters:
    ///   - origin: the source.
    ///   - asked: what the caller asked for. A source elsewhere gets none of the credentials meant for it.
    init(
        _ origin: URL, insteadOf asked: URL? = nil, headers: HTTPHeaders, hooks: RequestHooks, maximumRedirects: Int,
        stored: StoredData?,
        partial: PartialBody?
    ) {
        self.origin = origin
        url = origin
        sentURL = origin
        let asked = asked ?? origin
        self.headers = Redirect.headers(
            headers, from: asked, to: origin, sensitive: Set(hooks.sensitiveHeaders.map { $0.lowercased() }))
        isAnonymous = !Redirect.isSameOrigin(asked, origin)
        self.hooks = hooks
        self.maximumRedirects = maximumRedirects
        // A range of what is asked for, or a condition of the caller's, leaves no room for ours.
        let isPlain = !["Range", "If-None-Match", "If-Modified-Since", "If-Range", "If-Match", "If-Unmodified-Since"]
            .contains { headers[$0] != nil }
        self.stored = isPlain && stored.map { !Validators($0.info.headers).isEmpty } ?? false ? stored : nil
        self.partial = isPlain && self.stored == nil ? partial : nil
    }

    /// The request to send now.
    var request: TransferRequest {
        var request = TransferRequest(url: url, headers: headers)
        if let stored = asked {
            for field in Validators(stored.info.headers).conditionalFields {
                request.headers.append(field.name, field.value)
            }
        }
        if let partial = continued {
            for field in partial.fields { request.headers[field.name] = field.value }
            request.offset = partial.bytes.count
        }
        if wantsCredentials, let authorization { request.headers["Authorization"] = authorization }
        request.keepsErrorBody = hooks.wantsErrorBody
        request.isForOwnOrigin = !isAnonymous
        return request
    }

    /// The stored answer turned out to be for another request than the hooks have made of this one.
    mutating func forgetStored() {
        stored = nil
    }

    /// The modifier has had the last word on where the request goes. The next request begins from ``url`` again.
    mutating func sent(to url: URL) {
        sentURL = url
    }

    /// What is asked about here. Both: after a redirect elsewhere the same validator means nothing (RFC 9110, section 8.8.1).
    private var asked: StoredData? { stored?.info.url == url.withoutFragment ? stored : nil }

    /// What is continued here.
    private var continued: PartialBody? { partial?.url == url.withoutFragment ? partial : nil }

    /// Whether credentials may be sent where the request goes.
    var wantsCredentials: Bool { hooks.credentials != nil && !isAnonymous }

    mutating func received(_ response: TransferResponse) -> Step {
        if hooks.followsRedirects,
            let target = Redirect.target(of: response.status, headers: response.headers, from: sentURL)
        {
            switch target {
            case .failure(let error): return .failed(error)
            case .success(let url):
                if redirects >= maximumRedirects { return .failed(.tooManyRedirects) }
                // Only the caller can know that this is all right.
                if hooks.redirectHandler == nil, Redirect.isDowngrade(from: sentURL, to: url) {
                    return .failed(.insecureRedirect)
                }
                return .redirect(to: url, response)
            }
        }
        switch response.status {
        case 304:
            guard let stored = asked else { break }
            if Refreshing.concerns(stored.info.headers, response.headers) { return .notModified(response) }
            self.stored = nil
            return .again
        case 206:
            if continued != nil { return continuation(response) }
            guard asksForRange else { return .failed(.malformedResponse.with(detail: "a part that was not asked for")) }
        case 416 where continued != nil:
            self.partial = nil
            return .again
        case 401:
            if wantsCredentials, hooks.credentials?.canAnswer == true, !hasAnsweredChallenge {
                return .challenge(response.headers["WWW-Authenticate"] ?? "", response)
            }
        default:
            break
        }
        return .answer(response)
    }

    private mutating func continuation(_ response: TransferResponse) -> Step {
        guard let partial = continued, partial.isContinued(by: response) else {
            self.partial = nil
            return .again
        }
        let longer = partial.continued(by: response)
        guard let total = longer.total, longer.bytes.count < total else {
            guard longer.total == longer.bytes.count else {
                // Nobody has said where the body ends, or it ends elsewhere.
                self.partial = nil
                return .again
            }
            return .answer(
                TransferResponse(status: 200, headers: longer.headers, body: longer.bytes, metrics: response.metrics))
        }
        self.partial = longer
        continuations += 1
        return continuations <= Self.mostContinuations ? .again : .failed(.truncated)
    }

    /// A server that hands out a body in pieces of its own size is not followed for ever.
    private static let mostContinuations = 100

    /// What an answer that was broken off leaves for the next attempt.
    func left(by response: TransferResponse) -> PartialBody? {
        if response.status == 206 {
            guard let here = continued, here.isContinued(by: response) else { return partial }
            return here.continued(by: response)
        }
        return PartialBody(response, of: url.withoutFragment) ?? partial
    }

    /// The request that follows a redirect.
    func redirected(to target: URL) -> TransferRequest {
        var next = request
        next.headers = Redirect.headers(
            next.headers, from: sentURL, to: target, sensitive: Set(hooks.sensitiveHeaders.map { $0.lowercased() }))
        next.url = target
        next.isForOwnOrigin = !isAnonymous && Redirect.isSameOrigin(origin, target)
        return next
    }

    /// Goes on with another request.
    /// - Parameter proposed: what ``redirected(to:)`` gave. Fields that differ from it are the handler's own; all others
    ///   stay behind if the way leads to another origin, also where the handler alone has led there.
    ///   - hop: the answer that redirects.
    mutating func follow(_ next: TransferRequest, proposed: TransferRequest, after hop: RedirectChain.Hop) {
        chain.append(hop, from: sentURL, to: next.url)
        let sensitive = Set(hooks.sensitiveHeaders.map { $0.lowercased() })
        headers = Redirect.headers(headers, from: sentURL, to: next.url, sensitive: sensitive)
        // Once elsewhere, the credentials do not come back either.
        if !Redirect.isSameOrigin(origin, next.url) { isAnonymous = true }
        headers = headers.changed(from: proposed.headers, to: next.headers)
        url = next.url
        sentURL = next.url
    }

    mutating func answerChallenge(_ authorization: String?) {
        hasAnsweredChallenge = true
        self.authorization = authorization
    }
}
