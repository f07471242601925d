import DipperData
import Foundation

struct Answer: Sendable {
    var status: Int
    /// The header fields, without those that frame the message.
    var fields: Fields
    var body: Data
    /// Whether this answers HEAD: the length is sent, the body is not.
    var isHeadOnly = false
    var closes = false
}

extension Answer {
    init(_ refusal: Refusal, closes: Bool = false) {
        let line = String(refusal.text.map { $0.isNewline ? " " : $0 })
        self.init(
            status: refusal.status, fields: ["Content-Type": "text/plain; charset=utf-8"],
            body: Data("\(line)\n".utf8), closes: closes)
    }

    /// Whether answers with this status have a body (RFC 9110, section 6.4.1).
    var mayHaveBody: Bool { status >= 200 && status != 204 && status != 304 }
}

/// A reason why the proxy itself answers a request.
struct Refusal: Error {
    let status: Int
    let text: String
}

extension Refusal {
    init(_ error: DipperError) {
        let status =
            switch error {
            case .notCached, .timedOut: 504
            case .addressRefused: 403
            case .invalidURL, .unsupportedScheme, .invalidHeader: 400
            case .shutDown, .cancelled: 503
            default: 502
            }
        self.init(status: status, text: error.description)
    }
}

/// The values of the `Cache-Status` field (RFC 9211).
enum CacheStatus {
    static func text(_ source: ResponseSource) -> String {
        switch source {
        case .memory, .disk, .shared: "dipper; hit; detail=\(source.rawValue)"
        case .stale: "dipper; hit; detail=stale"
        case .revalidated: "dipper; fwd=stale; fwd-status=304"
        case .network, .provider: "dipper; fwd=miss"
        }
    }

    static func text(passedOn reason: String, status: Int) -> String {
        "dipper; fwd=\(reason); fwd-status=\(status)"
    }
}
