import Foundation
import NIOCore
import NIOHTTP1

/// The answer to a request, before ``Plan`` adds the framing and the faults.
struct Answer {
    var status: Int
    var type: String
    var headers: [(name: String, value: String)] = []
    var body: ByteBuffer

    init(
        status: Int, type: String, headers: [(name: String, value: String)] = [], body: ByteBuffer
    ) {
        self.status = status
        self.type = type
        self.headers = headers
        self.body = body
    }

    /// Creates an answer whose body is one line: the status and the given text, by default the reason phrase.
    init(
        status: Int, headers: [(name: String, value: String)] = [], saying text: String? = nil,
        gzipped: Bool = false
    ) {
        let reason = HTTPResponseStatus(statusCode: status).reasonPhrase
        let line = Data("\(status) \(text ?? reason)\n".utf8)
        self.init(
            status: status, type: "text/plain; charset=utf-8",
            headers: headers + (gzipped ? [("Content-Encoding", "gzip")] : []),
            body: ByteBuffer(bytes: gzipped ? Gzip.stored(line) : line))
    }
}
