import DipperData
import Foundation

/// Answers requests: from the cache, or from the server.
final class Gateway: Sendable {
    struct Request: Sendable {
        var method: String
        var target: String
        var fields: Fields
        var body: Data?
    }

    private let cache: DataCache
    /// For what does not go through the cache.
    private let transport: CurlTransport
    private let origin: URL?

    /// - Parameter origin: the only server that is asked; `nil` if each target names one.
    init(_ configuration: DataCache.Configuration, origin: URL?) {
        cache = DataCache(configuration)
        transport = CurlTransport(configuration.network, name: configuration.name)
        self.origin = origin
    }

    func shutdown() async {
        await cache.shutdown()
        await transport.shutdown()
    }

    /// Never fails: what goes wrong is an answer too.
    func answer(to request: Request) async -> Answer {
        var answer: Answer
        do throws(Refusal) {
            guard !["CONNECT", "TRACE"].contains(request.method) else {
                throw Refusal(status: 501, text: "\(request.method) is not done here")
            }
            // Without end, say if the environment names this proxy as the one to use.
            guard !ForwardedFields.haveComeFromHere(request.fields) else {
                throw Refusal(status: 508, text: "the request has been here before")
            }
            let url = try Target.url(of: request.target, origin: origin)
            let isRead = request.method == "GET" || request.method == "HEAD"
            answer = try await isRead ? read(url, request) : pass(on: request, to: url)
        } catch {
            answer = Answer(error)
        }
        answer.isHeadOnly = request.method == "HEAD"
        // What follows is not HTTP.
        answer.closes = request.method == "CONNECT"
        return answer
    }

    // MARK: GET and HEAD

    private func read(_ url: URL, _ request: Request) async throws(Refusal) -> Answer {
        var answer = try await isForOnePerson(request) ? fetch(url, request) : cached(url, request)
        if Conditions(request.fields).areMet(byStatus: answer.status, answer.fields) {
            answer.status = 304
            // What describes a body that is not sent (RFC 9110, section 15.4.5).
            answer.fields = answer.fields.without { $0.hasPrefix("content-") && $0 != "content-location" }
            answer.body = Data()
        }
        return answer
    }

    private func cached(_ url: URL, _ request: Request) async throws(Refusal) -> Answer {
        let wanted = DataRequest(url)
            // One entry for all clients: which of them may share it is for `Vary` to say.
            .with(\.key, CacheKey(url))
            .with(\.headers, ForwardedFields.ofCachedRequest(request.fields))
            .with(\.validation, .anyStatus)
            .with(\.followsRedirects, false)
        let response: DataResponse
        do {
            response = try await cache.getData(wanted).response
        } catch {
            throw Refusal(error)
        }
        var fields = ForwardedFields.ofAnswer(response.headers)
        if response.source != .network {
            fields["Age"] = String(Int(max(0, Date().timeIntervalSince(response.generated))))
        }
        fields.append("Cache-Status", CacheStatus.text(response.source))
        return Answer(status: response.status, fields: fields, body: response.data)
    }

    /// What someone gets who proves to be allowed to is not for the next one (RFC 9111, section 3.5).
    private func isForOnePerson(_ request: Request) -> Bool { request.fields["Authorization"] != nil }

    private func fetch(_ url: URL, _ request: Request) async throws(Refusal) -> Answer {
        guard !request.asksTheCacheAlone else { throw Refusal(.notCached) }
        let response = try await send("GET", url, ForwardedFields.ofCachedRequest(request.fields), body: nil)
        return Self.answer(response, passedOn: "bypass")
    }

    // MARK: Other methods

    private func pass(on request: Request, to url: URL) async throws(Refusal) -> Answer {
        let response = try await send(
            request.method, url, ForwardedFields.ofRequest(request.fields), body: request.body)
        // A method that may have changed something makes what is stored doubtful (RFC 9111, section 4.4).
        if request.method != "OPTIONS", (200...399).contains(response.status) {
            cache.invalidate(url, after: response.headers)
        }
        return Self.answer(response, passedOn: "method")
    }

    private func send(
        _ method: String, _ url: URL, _ fields: Fields, body: Data?
    ) async throws(Refusal) -> TransferResponse {
        var transfer = TransferRequest(url: url, headers: fields)
        transfer.method = method
        transfer.body = body
        transfer.keepsErrorBody = true
        let result = await withCheckedContinuation { continuation in
            _ = transport.start(transfer) { event in
                if case .finished(let result) = event { continuation.resume(returning: result) }
            }
        }
        do {
            return try result.get()
        } catch {
            throw Refusal(error)
        }
    }

    private static func answer(_ response: TransferResponse, passedOn reason: String) -> Answer {
        var fields = ForwardedFields.ofAnswer(response.headers)
        fields.append("Cache-Status", CacheStatus.text(passedOn: reason, status: response.status))
        return Answer(status: response.status, fields: fields, body: response.body)
    }
}

extension Gateway.Request {
    /// RFC 9111, section 5.2.1.7.
    fileprivate var asksTheCacheAlone: Bool {
        fields.values("Cache-Control").flatMap { $0.split(separator: ",") }
            .contains { $0.trimmingCharacters(in: .whitespaces).lowercased() == "only-if-cached" }
    }
}
