import DipperData
import Foundation

/// An answer to the client.
struct Answer: Sendable {
    var status: Int
    /// The header fields, without those that frame the message.
    var fields: Fields
    var body: Data
    /// Whether this answers HEAD: the length is sent, the body is not.
    var isHeadOnly = false
    /// Whether the proxy closes the connection after this answer.
    var closes = false
}

extension Answer {
    /// Creates an answer of the proxy itself, with one line of text.
    init(_ refusal: Refusal, closes: Bool = false) {
        let line = String(refusal.text.map { $0.isNewline ? " " : $0 })
        self.init(
            status: refusal.status, fields: ["Content-Type": "text/plain; charset=utf-8"],
            body: Data("\(line)\n".utf8), closes: closes)
    }

    /// Whether answers with this status have a body (RFC 9110, section 6.4.1).
    var mayHaveBody: Bool { status >= 200 && status != 204 && status != 304 }
}
