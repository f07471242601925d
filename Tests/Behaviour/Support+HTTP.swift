import TestSupport
import Testing

extension ScriptedTransport.Step {
    static func text(_ text: String, _ headers: HTTPHeaders = [:], status: Int = 200) -> Self {
        .response(TransferResponse(status: status, headers: headers, body: Data(text.utf8)))
    }

    /// An answer with the status of the error, or the error itself.
    static func failing(_ error: DipperError) -> Self { error.status.map { .status($0) } ?? .failure(error) }

    static func redirect(_ location: String, _ headers: HTTPHeaders = [:], status: Int = 302) -> Self {
        .status(status, headers.adding("Location", location))
    }
}

extension HTTPHeaders {
    func adding(_ name: String, _ value: String) -> HTTPHeaders {
        HTTPHeaders(fields + [.init(name, value)])
    }
}

extension DataResponse {
    /// The text of the answer and its source, such as "hello from memory".
    var told: String { "\(String(decoding: data, as: UTF8.self)) from \(source)" }
}

extension TestCache {
    /// Fetches a text, which the cache has then, and lets it grow old. Later requests for it wait for the test.
    func keep(_ text: String, _ headers: HTTPHeaders = [:], for target: URL, age: TimeInterval = 0) async throws {
        transport.script(target, [.text(text, headers)])
        #expect(try await ask(target) == "\(text) from network")
        transport.script(target, [])
        date.advance(by: age)
    }

    func requests(_ target: URL) -> [HTTPHeaders] { transport.transfers(of: target).map(\.request.headers) }

    func ask(_ source: some DataRequestConvertible, _ headers: HTTPHeaders? = nil) async throws -> String {
        var request = source.dataRequest
        if let headers { request.headers = headers }
        return try await cache.getData(request).response.told
    }
}

/// A body of 100 bytes, and what a server sends of it.
enum Parts {
    static let whole = Data((0..<100).map { UInt8($0) })
    static let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100"]

    static func beginning(_ count: Int, _ headers: HTTPHeaders = fields) -> TransferResponse {
        TransferResponse(headers: headers, body: whole.prefix(count))
    }

    static func part(
        _ range: Range<Int>, _ contentRange: String? = nil, tag: String? = "\"v\"", more: HTTPHeaders = [:]
    ) -> TransferResponse {
        var headers = more
        headers.append("Content-Range", contentRange ?? "bytes \(range.lowerBound)-\(range.upperBound - 1)/100")
        if let tag { headers.append("ETag", tag) }
        return TransferResponse(status: 206, headers: headers, body: whole[range])
    }
}

extension TestCache {
    /// Cancels a call when a part of its answer has come.
    func leave(_ part: TransferResponse, of target: URL) async throws {
        let (task, transfer) = try await begin(target)
        transfer.hold(part)
        task.cancel()
        #expect(await task.error == .cancelled)
        await cache.idle()
        // The cache has heard of the end of the transfer.
        _ = cache.queueCounts
    }

    /// Returns the header fields of the next request for a URL, whose call is cancelled then.
    func nextFields(of target: URL) async throws -> HTTPHeaders {
        let (task, transfer) = try await begin(DataRequest(target).with(\.cachePolicy, .useCache))
        task.cancel()
        await cache.idle()
        return transfer.request.headers
    }
}

extension RequestModifier {
    static func changing(
        identity: String? = nil, _ change: @escaping @Sendable (inout TransferRequest) async throws -> Void
    ) -> RequestModifier {
        RequestModifier(identity: identity) { request in
            var request = request
            try await change(&request)
            return request
        }
    }
}

extension RedirectHandler {
    static func changing(_ change: @escaping @Sendable (inout TransferRequest) async -> Void) -> RedirectHandler {
        RedirectHandler { _, request in
            var request = request
            await change(&request)
            return request
        }
    }
}
