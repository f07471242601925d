import DipperData
import Foundation
import Synchronization

final class Gateway: Sendable {
    struct Request: Sendable {
        var method: String
        var target: String
        var fields: Fields
        var body: Data?
        /// Takes the answers that come before the final one, such as 103 Early Hints.
        var passesOn: @Sendable (InterimResponse) -> Void = { _ in }
    }

    let cache: DataCache
    /// The transport of requests that bypass the cache.
    private let transport: CurlTransport
    private let origin: URL?
    private let isShared: Bool
    private let forwarded: ForwardedFields
    private let personal = PersonalAnswers()
    private let servesRemote: Bool

    /// - Parameters:
    ///   - origin: The only server that the gateway asks; `nil` if each target names one.
    ///   - isShared: Whether the cache has the policy for shared caches.
    ///   - passesCookies: Whether cookies pass in both directions, past the cache.
    ///   - servesRemote: Whether clients may call the proxy by any name.
    init(
        _ configuration: DataCache.Configuration, origin: URL?, isShared: Bool, passesCookies: Bool, servesRemote: Bool
    ) {
        forwarded = ForwardedFields(passesCookies: passesCookies)
        self.servesRemote = servesRemote
        cache = DataCache(configuration)
        transport = CurlTransport(configuration.network)
        self.origin = origin
        self.isShared = isShared
    }

    func shutdown() async {
        await cache.shutdown()
        await transport.shutdown()
    }

    /// The fields of an answer before the final one, for the client.
    func fields(of interim: InterimResponse) -> Fields { forwarded.ofAnswer(interim.headers) }

    /// Answers a request. A failure becomes an answer too.
    func answer(to request: Request) async -> Answer {
        var answer: Answer
        do throws(Refusal) {
            guard !["CONNECT", "TRACE"].contains(request.method) else {
                throw Refusal(status: 501, text: "\(request.method) is not done here")
            }
            // Requests would loop, for example if the environment names this proxy as the one to use.
            guard !ForwardedFields.haveComeFromHere(request.fields) else {
                throw Refusal(status: 508, text: "the request has been here before")
            }
            // DNS rebinding: a page whose host name resolves to this machine must not read from the proxy.
            guard
                servesRemote || !request.target.hasPrefix("/")
                    || request.fields.values("Host").allSatisfy(LoopbackName.matches)
            else { throw Refusal(status: 421, text: "the proxy has another name") }
            let url = try Target.url(of: request.target, origin: origin)
            let isRead = request.method == "GET" || request.method == "HEAD"
            answer = try await isRead ? read(url, request) : pass(on: request, to: url)
        } catch {
            answer = Answer(error)
        }
        answer.isHeadOnly = request.method == "HEAD"
        // The bytes that follow CONNECT are not HTTP.
        answer.closes = request.method == "CONNECT"
        return answer
    }

    // MARK: GET and HEAD

    private func read(_ url: URL, _ request: Request) async throws(Refusal) -> Answer {
        let fields = forwarded.ofCachedRequest(request.fields)
        let isPersonal = PersonalAnswers.concern(request: fields, except: isShared ? "authorization" : nil)
        var answer =
            try await isPersonal || personal.isKnown(url)
            ? fetch(url, request, fields) : cached(url, request, fields)
        if Conditions(request.fields).areMet(byStatus: answer.status, answer.fields) {
            answer.status = 304
            // A 304 has no fields that describe a body (RFC 9110, section 15.4.5).
            answer.fields = answer.fields.without { $0.hasPrefix("content-") && $0 != "content-location" }
            answer.body = Data()
        }
        return answer
    }

    private func cached(_ url: URL, _ request: Request, _ fields: Fields) async throws(Refusal) -> Answer {
        let ownAnswer = OwnAnswer()
        // A shared cache gives an answer for one client to the call that has asked for it, and to no other.
        let validation =
            isShared
            ? .anyStatus
            : ResponseValidation { [personal] response in
                guard PersonalAnswers.concern(answer: response.headers) else { return nil }
                // The call that has asked the server is asked first; others must not see its answer.
                if personal.note(url, isPersonal: true) { ownAnswer.take(response) }
                return .rejected
            }
        let wanted = DataRequest(url)
            // All clients share one entry per URL; `Vary` decides which clients may get it.
            .with(\.key, CacheKey(url))
            .with(\.headers, fields)
            .with(\.validation, validation)
            .with(\.followsRedirects, false)
        let response: DataResponse
        do throws(DipperError) {
            response = try await self.response(to: wanted, request)
        } catch {
            guard error == .rejected else { throw Refusal(error) }
            if let response = ownAnswer.response { return answer(response, passedOn: "bypass") }
            return try await fetch(url, request, fields)
        }
        var fields = forwarded.ofAnswer(response.headers)
        // For the caches that many share, the server has forbidden it (RFC 9111, sections 5.2.2.8 and 5.2.2.10).
        if !isShared, response.source == .stale, response.revalidation == nil,
            fields.directives.contains(where: { $0 == "proxy-revalidate" || $0.hasPrefix("s-maxage") })
        {
            throw Refusal(status: 504, text: "the stored answer is stale, and the server cannot be asked")
        }
        if response.source != .network {
            fields["Age"] = String(response.age(at: Date()).components.seconds)
        }
        fields.append("Cache-Status", CacheStatus.text(response.source))
        return Answer(status: response.status, fields: fields, body: response.data)
    }

    /// Returns after all that comes before the answer has been passed on.
    private func response(to wanted: DataRequest, _ request: Request) async throws(DipperError) -> DataResponse {
        let task = cache.getData(wanted)
        // Only the rules of a shared cache tell for whom an answer is before it has come.
        if isShared { task.onInterim { [passesOn = request.passesOn] in passesOn($0) } }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in task.onEnd { continuation.resume(returning: $0) } }
        } onCancel: {
            task.cancel()
        }
        return try result.get()
    }

    private func fetch(_ url: URL, _ request: Request, _ fields: Fields) async throws(Refusal) -> Answer {
        guard !request.fields.directives.contains("only-if-cached") else { throw Refusal(.notCached) }
        let response = try await send("GET", url, fields, body: nil, request)
        if !isShared { personal.note(url, isPersonal: PersonalAnswers.concern(answer: response.headers)) }
        return answer(response, passedOn: "bypass")
    }

    // MARK: Other methods

    private func pass(on request: Request, to url: URL) async throws(Refusal) -> Answer {
        let response = try await send(
            request.method, url, forwarded.ofRequest(request.fields), body: request.body, request)
        // A method that may change something invalidates stored answers (RFC 9111, section 4.4).
        if request.method != "OPTIONS", (200...399).contains(response.status) {
            cache.invalidate(url, after: response.headers)
        }
        return answer(response, passedOn: "method")
    }

    private func send(
        _ method: String, _ url: URL, _ fields: Fields, body: Data?, _ request: Request
    ) async throws(Refusal) -> TransferResponse {
        var transfer = TransferRequest(url: url, headers: fields)
        transfer.method = method
        transfer.body = body
        transfer.keepsErrorBody = true
        let result = await withCheckedContinuation { continuation in
            _ = transport.start(transfer) { event in
                switch event {
                case .finished(let result): continuation.resume(returning: result)
                case .interim(let response): request.passesOn(response)
                case .progress, .partial, .interrupted: break
                }
            }
        }
        do {
            return try result.get()
        } catch {
            throw Refusal(error)
        }
    }

    private func answer(_ response: TransferResponse, passedOn reason: String) -> Answer {
        var fields = forwarded.ofAnswer(response.headers)
        fields.append("Cache-Status", CacheStatus.text(passedOn: reason, status: response.status))
        return Answer(status: response.status, fields: fields, body: response.body)
    }
}

/// The answer that a call has brought for its own client alone.
private final class OwnAnswer: Sendable {
    private let state = Mutex<TransferResponse?>(nil)

    var response: TransferResponse? { state.withLock { $0 } }
    func take(_ response: TransferResponse) { state.withLock { $0 = response } }
}
