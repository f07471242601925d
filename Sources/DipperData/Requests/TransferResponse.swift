import Foundation

/// A complete answer, whatever its status.
public struct TransferResponse: Sendable {
    /// The status of the answer; informational ones are passed over.
    public var status: Int
    public var headers: HTTPHeaders
    /// The body, content codings undone.
    public var body: Data
    /// What was measured.
    public var metrics: TransferMetrics

    /// An answer, for transports of one's own.
    public init(status: Int = 200, headers: HTTPHeaders = [:], body: Data, metrics: TransferMetrics = .init()) {
        self.status = status
        self.headers = headers
        self.body = body
        self.metrics = metrics
    }
}

extension TransferResponse: RedactedStringConvertible {
    /// The status, the number of bytes, and the names of the fields.
    public var description: String { "\(status) \(body.count) bytes \(headers)" }
}
