import Foundation

/// What to move.
public struct TransferRequest: Sendable {
    /// Where from.
    public var url: URL
    /// Such as `GET`.
    public var method = "GET"
    /// Fields to send.
    public var headers: HTTPHeaders
    /// Bytes to send, if any.
    public var body: Data?
    /// The pool of connections to use.
    public var queue: FetchQueue
    /// The transfer starts throttled.
    public var isThrottled: Bool
    /// Bytes of the body that are here already; the fields ask for those that follow. They count towards the largest
    /// body.
    public var offset = 0
    /// Connections that were kept are not to be used.
    public var needsNewConnection = false
    /// The body of an answer other than a success is wanted too. Else it is left out.
    public var keepsErrorBody = false

    /// Whether the request goes to the origin that the caller named, so that the client may identify itself there.
    public var isForOwnOrigin = true

    /// A transfer in `fastQueue`, unless said otherwise.
    public init(url: URL, headers: HTTPHeaders = [:], queue: FetchQueue = .fast, isThrottled: Bool = false) {
        self.url = url
        self.headers = headers
        self.queue = queue
        self.isThrottled = isThrottled
    }
}

extension TransferRequest: RedactedStringConvertible {
    /// The method, the URL without secrets, and the names of the fields.
    public var description: String { "\(method) \(Redaction.standard.text(url)) \(headers)" }
}
