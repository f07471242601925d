import DipperData
import Foundation

/// What is sent to the client.
struct Answer: Sendable {
    var status: Int
    /// Without those that frame the message.
    var fields: Fields
    var body: Data
    /// The answer to HEAD: its length is told, its body is not sent.
    var isHeadOnly = false
    /// Nothing more is read from the connection.
    var closes = false
}

extension Answer {
    /// An answer of the proxy's own: a line of text.
    init(_ refusal: Refusal, closes: Bool = false) {
        let line = String(refusal.text.map { $0.isNewline ? " " : $0 })
        self.init(
            status: refusal.status, fields: ["Content-Type": "text/plain; charset=utf-8"],
            body: Data("\(line)\n".utf8), closes: closes)
    }

    /// Statuses whose answers have no body (RFC 9110, section 6.4.1).
    var mayHaveBody: Bool { status >= 200 && status != 204 && status != 304 }
}
