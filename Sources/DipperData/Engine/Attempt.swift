import Foundation
import Synchronization

/// The requests that one source takes, from the first one to the answer that counts. A value that sends nothing.
struct Attempt: Sendable {
    enum Step: Sendable {
        case notModified
        case again
        case redirect(to: URL)
        case challenge(String)
        case failed(DipperError)
    }

    struct ProxyLogin: Sendable {
        let url: URL
        let credentials: Credentials
        var authorization: String?
        var hasAnswered = false

        var canAnswer: Bool { credentials.canAnswer && !hasAnswered }
    }

    let origin: URL
    /// The present URL before the modifier changes it. Validators and partial bodies belong to it.
    private(set) var url: URL
    /// The URL that the last request was sent to; the modifier may have changed it.
    private(set) var sentURL: URL
    private var headers: HTTPHeaders
    private let hooks: RequestHooks
    private let keyRule: KeyRule?
    private let maximumRedirects: Int
    private(set) var chain = RedirectChain()
    var redirects: Int { chain.hops.count }
    private(set) var stored: StoredData?
    private(set) var partial: PartialBody?
    /// Whether the range or the condition that the cache had added is taken back, because the server refused it.
    private var isTakenBack = false
    private var hasAnsweredChallenge = false
    private var isAnonymous = false
    var authorization: String?
    var proxy: ProxyLogin?
    var asksForRange = false
    /// Whether the request may be repeated without harm.
    var isRepeatable = true

    /// - Parameter asked: the URL that the caller asked for, to whose origin alone the credentials belong.
    init(
        _ origin: URL, insteadOf asked: URL, headers: HTTPHeaders, hooks: RequestHooks, keyRule: KeyRule? = nil,
        maximumRedirects: Int, stored: StoredData?, partial: PartialBody?
    ) {
        self.origin = origin
        url = origin
        sentURL = origin
        self.headers = Redirect.headers(headers, from: asked, to: origin, sensitive: hooks.sensitiveNames)
        isAnonymous = !Redirect.isSameOrigin(asked, origin)
        self.hooks = hooks
        self.keyRule = keyRule
        self.maximumRedirects = maximumRedirects
        // A caller that asks for a range or sets a condition gets the server's answer to exactly that.
        let isPlain = headers.isEmpty || !Self.ranges.contains { headers[$0] != nil }
        self.stored = isPlain && stored.map { !Validators($0.info.headers).isEmpty } ?? false ? stored : nil
        self.partial = isPlain && self.stored == nil ? partial : nil
    }

    private static let ranges = [
        "Range", "If-None-Match", "If-Modified-Since", "If-Range", "If-Match", "If-Unmodified-Since",
    ]

    var request: TransferRequest {
        var request = TransferRequest(url: url, headers: headers)
        if let stored = asked {
            for field in Validators(stored.info.headers).conditionalFields {
                request.headers.append(field.name, field.value)
            }
        }
        if let partial = continued {
            for field in partial.fields { request.headers[field.name] = field.value }
            request.offset = partial.count
        }
        if wantsCredentials, let authorization { request.headers["Authorization"] = authorization }
        request.keepsErrorBody = hooks.wantsErrorBody
        request.ignoresRedirectBody = hooks.followsRedirects && hooks.redirectHandler == nil
        request.isForOwnOrigin = !isAnonymous
        return request
    }

    /// The text of the present URL, as it is kept with an entry. Rules for keys are for the URL that the caller named.
    var address: String {
        (redirects == 0 ? keyRule.map { $0.applied(to: url) } ?? url : url).withoutFragment
    }

    mutating func forgetStored() { stored = nil }

    mutating func sent(to url: URL) {
        // mutant RequestHook|Redirect: `sentURL = url` => `(self.url, sentURL) = (url, url)`
        sentURL = url
    }

    /// `nil` after a redirect to another URL, where a validator means nothing (RFC 9110, section 8.8.1).
    private var asked: StoredData? {
        isTakenBack ? nil : stored.flatMap { $0.info.url == address ? $0 : nil }
    }

    private var continued: PartialBody? {
        isTakenBack ? nil : partial.flatMap { $0.url == address ? $0 : nil }
    }

    /// Takes back the range or the condition that the cache has added to the last request. Both are optimisations
    /// (RFC 9110, sections 13.1 and 14.2): a server that cannot cope with one is asked once without it. What is kept
    /// stays, because the server may refuse the plain request as well.
    mutating func takesBack() -> Bool {
        guard isRepeatable, asked != nil || continued != nil else { return false }
        isTakenBack = true
        return true
    }

    var wantsCredentials: Bool { hooks.credentials != nil && !isAnonymous }

    /// Returns the step that follows; `nil` if the answer counts.
    /// - Parameter response: becomes the whole answer if the server has sent the missing part.
    mutating func received(_ response: inout TransferResponse) -> Step? {
        if hooks.followsRedirects,
            let target = Redirect.target(of: response.status, headers: response.headers, from: sentURL)
        {
            switch target {
            case .failure(let error): return .failed(error)
            case .success(let url):
                let isCircle = url.withoutFragment == self.url.withoutFragment || redirects >= maximumRedirects
                if isCircle, takesBack() { return .again }
                if redirects >= maximumRedirects { return .failed(.tooManyRedirects) }
                // Only the caller can know that the downgrade is acceptable.
                // mutant Redirect: `L, to: url) {` => `L, to: sentURL) {`
                if hooks.redirectHandler == nil, Redirect.isDowngrade(from: sentURL, to: url) {
                    return .failed(.insecureRedirect)
                }
                return .redirect(to: url)
            }
        }
        switch response.status {
        case 200...205, 207...303, 305...399: return nil
        case 304:
            guard let stored = asked else { break }
            if Refreshing.concerns(stored.info.headers, response.headers) { return .notModified }
        case 206:
            if asksForRange, continued == nil { return nil }
            // A part that is the whole is the whole.
            if let whole = response.whole {
                response = whole
                return nil
            }
            guard continued != nil else {
                return takesBack()
                    ? .again : .failed(.malformedResponse.with(detail: "a part that was not asked for"))
            }
            return join(&response)
        case 416 where continued != nil:
            partial = nil
            return .again
        case 401:
            if wantsCredentials, hooks.credentials?.canAnswer == true, !hasAnsweredChallenge {
                return .challenge(response.headers.list("WWW-Authenticate").joined(separator: ", "))
            }
        // Through a tunnel, it would be the server that answers.
        case 407 where proxy?.canAnswer == true && sentURL.scheme?.asciiLowercased == "http":
            return .challenge(response.headers.list("Proxy-Authenticate").joined(separator: ", "))
        // The resource is gone, however it is asked for; a busy server is not asked again at once.
        case 404, 410, 429: return nil
        default:
            break
        }
        return takesBack() ? .again : nil
    }

    /// Joins the part to the partial body; one that does not continue it is the reason to ask for the whole.
    private mutating func join(_ response: inout TransferResponse) -> Step? {
        guard let continued, let longer = continued.continued(by: response), let total = longer.total,
            longer.count <= total
        else {
            partial = nil
            return .again
        }
        if longer.count == total {
            response = TransferResponse(
                status: 200, headers: longer.headers, body: longer.bytes, metrics: response.metrics)
            return nil
        }
        partial = longer
        // Otherwise a server could have the rest asked for byte by byte.
        let isProgress = (longer.count - continued.count) >= (total - continued.count) / Self.leastContinuations
        return isProgress ? .again : .failed(.truncated)
    }

    private static let leastContinuations = 64

    /// `nil` if the part of a body cannot be continued later, or is shorter than what is kept of that body.
    func arrived(_ response: TransferResponse, _ origin: BodyOrigin) -> PartialBody? {
        part(of: response, origin).flatMap { isLonger($0) ? $0 : nil }
    }

    private func isLonger(_ new: PartialBody) -> Bool {
        guard let partial, partial.url == new.url, partial.validator == new.validator else { return true }
        return new.count > partial.count
    }

    private func part(of response: TransferResponse, _ origin: BodyOrigin) -> PartialBody? {
        response.status == 206
            ? continued?.continued(by: response) : PartialBody(response, of: address, origin: origin)
    }

    func left(by response: TransferResponse, _ origin: BodyOrigin) -> PartialBody? {
        guard let new = part(of: response, origin) else { return partial }
        // The whole was asked for anew because the server refused the range; it may continue the longer part later.
        return isTakenBack && !isLonger(new) ? partial : new
    }

    func redirected(to target: URL) -> TransferRequest {
        var next = request
        next.headers = Redirect.headers(next.headers, from: sentURL, to: target, sensitive: hooks.sensitiveNames)
        next.url = target
        next.isForOwnOrigin = !isAnonymous && Redirect.isSameOrigin(origin, target)
        return next
    }

    /// - Parameter proposed: the result of ``redirected(to:)``. Fields in which `next` differs from it are the
    ///   handler's own; all others are dropped if the redirect leads to another origin.
    mutating func follow(_ next: TransferRequest, proposed: TransferRequest, after hop: RedirectChain.Hop) {
        chain.append(hop, from: sentURL, to: next.url)
        headers = Redirect.headers(headers, from: sentURL, to: next.url, sensitive: hooks.sensitiveNames)
        // Credentials are not sent again, even if a later redirect leads back to their origin.
        if !Redirect.isSameOrigin(origin, next.url) { isAnonymous = true }
        headers = headers.changed(from: proposed.headers, to: next.headers)
        url = next.url
        sentURL = next.url
    }

    mutating func answerChallenge(_ authorization: String?, isOfProxy: Bool) -> Bool {
        guard let authorization, authorization != (isOfProxy ? proxy?.authorization : self.authorization) else {
            return false
        }
        if isOfProxy {
            proxy?.authorization = authorization
            proxy?.hasAnswered = true
        } else {
            self.authorization = authorization
            hasAnsweredChallenge = true
        }
        return true
    }
}

final class ProviderTransfer: Transfer {
    private struct State {
        var task: Task<Void, Never>?
        var receive: (@Sendable (TransferEvent) -> Void)?
    }

    private let state: Mutex<State>

    init(_ provider: any DataProvider, receive: @escaping @Sendable (TransferEvent) -> Void) {
        state = Mutex(State(receive: receive))
        let task = Task { [weak self] in
            let result = await Result(ofHook: .unreadable) {
                if let answer = try await (provider as? DataURLProvider)?.response() { return answer }
                return TransferResponse(body: try await provider.data())
            }
            self?.end(result)
        }
        state.withLock { $0.task = task }
    }

    func cancel() {
        state.withLock { $0.task }?.cancel()
        end(.failure(.cancelled))
    }

    func setThrottled(_ isThrottled: Bool) {}
    func setQueue(_ queue: FetchQueue) {}

    private func end(_ result: Result<TransferResponse, DipperError>) {
        let receive = state.withLock { exchange(&$0.receive, with: nil) }
        receive?(.finished(result))
    }
}
