import Foundation

/// A complete answer, whatever its status.
public struct TransferResponse: Sendable {
    /// The status of the answer. Informational answers are skipped.
    public var status: Int
    public var headers: HTTPHeaders
    /// The body, without content codings.
    public var body: Data
    /// The measurements of the transfer.
    public var metrics: TransferMetrics

    /// Creates an answer, for a transport of the caller's own.
    ///
    /// ```swift
    /// let response = TransferResponse(status: 200, headers: ["ETag": "\"1\""], body: Data("here".utf8))
    /// ```
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
