import NIOCore
import NIOHTTP1

/// The response to one request with its faults and delays: a value that ``Exchange`` carries out.
struct Plan {
    enum Ending { case keepAlive, close, reset, silence }

    var path: String
    var delay: TimeAmount
    var bodyDelay: TimeAmount
    var head: HTTPResponseHead
    /// The bytes to send, already shortened by `cut`, `reset` or `stall`.
    var body: ByteBuffer
    var pieceSize: Int
    var interval: TimeAmount
    /// Whether the final chunk, of length zero, follows the body.
    var endsChunks: Bool
    var ending: Ending

    /// Creates the plan for a request; `nil` if the server must not answer it (`noanswer`).
    init?(for request: HTTPRequestHead, ordinal: Int, log: RequestLog) {
        let target = Target(request.uri)
        do {
            let faults = try Faults(target).applying(toRequest: ordinal)
            if faults.isSilent { return nil }
            let responder = Responder(request: request, target: target, faults: faults, log: log)
            self.init(responder.answer(), to: request, faults: faults)
        } catch {
            let text = "\(error.name)=\(error.value) makes no sense"
            self.init(Answer(status: 400, saying: text), to: request, faults: Faults())
        }
    }

    private init(_ answer: Answer, to request: HTTPRequestHead, faults: Faults) {
        let status = HTTPResponseStatus(statusCode: answer.status)
        let mayHaveBody = status.mayHaveResponseBody
        let isHead = request.method == .HEAD
        // HTTP/1.0 has no chunks.
        let isOld = request.version == .http1_0
        let endsByClose = mayHaveBody && (faults.closes || (faults.isChunked && isOld))
        let isChunked = mayHaveBody && faults.isChunked && !endsByClose && faults.length == nil
        let closesPolitely = endsByClose || faults.closes || isOld || !request.isKeepAlive

        var headers = HTTPHeaders()
        for (name, value) in answer.headers { headers.add(name: name, value: value) }
        if mayHaveBody { headers.add(name: "Content-Type", value: faults.type ?? answer.type) }
        if let value = faults.cacheControl { headers.add(name: "Cache-Control", value: value) }
        if let value = faults.retryAfter { headers.add(name: "Retry-After", value: value) }
        if closesPolitely { headers.add(name: "Connection", value: "close") }
        if isChunked {
            headers.add(name: "Transfer-Encoding", value: "chunked")
        } else if mayHaveBody && !endsByClose {
            let length = faults.length ?? answer.body.readableBytes
            headers.add(name: "Content-Length", value: String(length))
        }
        for (name, value) in faults.headers { headers.add(name: name, value: value) }
        if !headers.contains(name: "Date") { headers.add(name: "Date", value: HTTPDate.now()) }

        var body = mayHaveBody && !isHead ? answer.body : ByteBuffer()
        let limit = faults.stall ?? faults.reset ?? faults.cut
        if let limit { body = body.readSlice(length: min(limit, body.readableBytes)) ?? body }

        self.path = Target(request.uri).path
        self.delay = faults.delay
        self.bodyDelay = isHead ? .zero : faults.bodyDelay
        self.head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        self.body = body
        self.pieceSize = faults.drip?.bytes ?? 64 << 10
        self.interval = faults.drip?.interval ?? .zero
        self.endsChunks = isChunked && !isHead && limit == nil
        if faults.stall != nil {
            ending = .silence
        } else if faults.reset != nil {
            ending = .reset
        } else {
            ending = limit != nil || faults.length != nil || closesPolitely ? .close : .keepAlive
        }
    }
}
