import Foundation
import NIOCore
import NIOHTTP1

/// The response to one request with its faults and delays: a value that ``Exchange`` carries out.
struct Plan {
    enum Ending { case keepAlive, close, reset, silence }

    var delay = TimeAmount.zero
    var head: HTTPResponseHead
    /// The bytes to send, already shortened by `cut`, `reset` or `stall`.
    var body: ByteBuffer
    var pieceSize = 64 << 10
    var interval = TimeAmount.zero
    /// Whether the final chunk, of length zero, follows the body.
    var endsChunks: Bool
    var ending: Ending

    /// `nil` if the server must not answer the request (`noanswer`). `resource` returns the bytes at a path.
    init?(for request: HTTPRequestHead, ordinal: Int, resource: (_ path: String) -> Data?) {
        do {
            let faults = try Faults(request.uri, ordinal: ordinal)
            if faults.isSilent { return nil }
            self.init(Answer(to: request, faults, resource), to: request, faults)
        } catch {
            self.init(Answer(400, Faults(), saying: error.text), to: request, Faults())
        }
    }

    private init(_ answer: Answer, to request: HTTPRequestHead, _ faults: Faults) {
        let status = HTTPResponseStatus(statusCode: answer.status)
        let mayHaveBody = status.mayHaveResponseBody
        let isHead = request.method == .HEAD
        let isChunked = mayHaveBody && faults.isChunked && !faults.closes && faults.length == nil
        let closesPolitely = faults.closes || !request.isKeepAlive

        var headers = HTTPHeaders(answer.headers)
        if mayHaveBody { headers.add(name: "Content-Type", value: answer.type) }
        if let value = faults.cacheControl { headers.add(name: "Cache-Control", value: value) }
        if let value = faults.retryAfter { headers.add(name: "Retry-After", value: value) }
        if closesPolitely { headers.add(name: "Connection", value: "close") }
        if isChunked {
            headers.add(name: "Transfer-Encoding", value: "chunked")
        } else if mayHaveBody && !faults.closes {
            headers.add(name: "Content-Length", value: "\(faults.length ?? answer.body.count)")
        }
        headers.add(contentsOf: faults.headers)
        if !headers.contains(name: "Date") { headers.add(name: "Date", value: Self.date()) }
        head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)

        let limit = faults.stall ?? faults.reset ?? faults.cut
        body = ByteBuffer(bytes: mayHaveBody && !isHead ? answer.body.prefix(limit ?? .max) : Data())
        delay = .milliseconds(Int64(faults.delay))
        if let drip = faults.drip { (pieceSize, interval) = (drip.bytes, .milliseconds(Int64(drip.interval))) }
        endsChunks = isChunked && !isHead && limit == nil
        if faults.stall != nil {
            ending = .silence
        } else if faults.reset != nil {
            ending = .reset
        } else {
            ending = limit != nil || faults.length != nil || closesPolitely ? .close : .keepAlive
        }
    }

    /// Returns the current time in the format of HTTP (RFC 9110, section 5.6.7).
    private static func date() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 64)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(cString: text)
    }
}

/// The answer to a request, before ``Plan`` adds the framing and the faults.
private struct Answer {
    var status: Int
    var type = "application/octet-stream"
    var headers: [(String, String)] = []
    var body: Data
}

extension Answer {
    /// Creates an answer whose body is one line, or as long as `errorBody` says.
    init(_ status: Int, _ faults: Faults, headers: [(String, String)] = [], saying text: String? = nil) {
        let reason = text ?? HTTPResponseStatus(statusCode: status).reasonPhrase
        let (size, line) = (faults.errorBody, Data("\(status) \(reason)\n".utf8))
        self.init(
            status: status, type: "text/plain; charset=utf-8", headers: headers,
            body: size > 0 ? Data(repeating: 0x78, count: size) : line)
        if faults.isGzipped, faults.errorBody == 0 { encode() }
    }

    init(to request: HTTPRequestHead, _ faults: Faults, _ resource: (String) -> Data?) {
        let validators = faults.etag.map { [("ETag", $0)] } ?? []
        if let location = faults.location {
            self.init(302, faults, headers: [("Location", location)])
        } else if let status = faults.status {
            self.init(status, faults, headers: (200..<300).contains(status) || status == 304 ? validators : [])
        } else if let body = resource(String(request.uri.prefix { $0 != "?" })) {
            if let etag = faults.etag, request.headers.first(name: "If-None-Match") == etag {
                self.init(304, faults, headers: validators)
            } else {
                self.init(status: 200, headers: validators, body: body)
                if faults.isGzipped { encode() }
                if !faults.ignoresRange { select(request.headers, faults) }
            }
        } else {
            self.init(404, faults)
        }
    }

    private mutating func encode() {
        headers.append(("Content-Encoding", "gzip"))
        body = Data(gzip([UInt8](body)))
    }

    /// Answers with the part that `Range: bytes=FIRST-` selects, if `If-Range` is the strong validator or absent.
    private mutating func select(_ fields: HTTPHeaders, _ faults: Faults) {
        headers.append(("Accept-Ranges", "bytes"))
        let condition = fields.first(name: "If-Range")
        guard let range = fields.first(name: "Range"), range.hasPrefix("bytes="), range.hasSuffix("-"),
            let first = Int(range.dropFirst(6).dropLast()),
            condition == nil || condition == faults.etag && condition?.hasPrefix("W/") == false
        else { return }
        guard first < body.count else {
            self = Answer(416, faults, headers: [("Content-Range", "bytes */\(body.count)")])
            return
        }
        let count = min(body.count - first, faults.piece ?? .max)
        let (named, total) = (first + faults.rangeShift, faults.rangeTotal ?? body.count)
        headers.append(("Content-Range", "bytes \(named)-\(named + count - 1)/\(total)"))
        (status, body) = (206, Data(body.dropFirst(first).prefix(count)))
    }
}
