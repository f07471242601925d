import Foundation
import NIOCore
import NIOHTTP1

/// What is answered, before it is framed and spoilt.
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

    /// An answer with one line of text: the status and its reason, or what there is to say.
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
