import Foundation

/// A request to a transport: what to transfer, and how.
public struct TransferRequest: Sendable {
    /// The URL that the request is sent to.
    public var url: URL
    /// The HTTP method, such as `GET`.
    public var method = "GET"
    /// The header fields to send.
    public var headers: HTTPHeaders
    /// The body to send, if any.
    public var body: Data?
    /// The queue in which the transfer counts. It selects the pool of connections.
    public var queue: FetchQueue
    /// Whether the transfer starts throttled.
    public var isThrottled: Bool
    /// The number of bytes of the body that the cache has already. The header fields ask for the bytes after them. They
    /// count towards the limit for bodies.
    public var offset = 0
    /// Whether the transfer must not use a kept connection.
    public var needsNewConnection = false
    /// Whether the body of an answer other than a success is wanted too. Otherwise it is left out.
    public var keepsErrorBody = false

    /// Whether the request goes to the origin that the caller named, so that the client may identify itself there.
    public var isForOwnOrigin = true
    /// The certificates and keys for the origin of ``url``; `nil` for those of the transport. The cache sets them if it
    /// has a ``DataCache/Configuration/answerTLSChallenge``.
    public var tls: TLSAnswer?
    /// The value of the `Proxy-Authorization` field; `nil` for none. A transport sends it to a proxy only, never to the
    /// server. The cache sets it if it has ``DataCache/Configuration/proxyCredentials``.
    public var proxyAuthorization: String?

    /// Creates a GET request, by default in `fastQueue` and not throttled.
    ///
    /// ```swift
    /// let request = TransferRequest(url: url, headers: ["Accept": "image/*"], queue: .slow)
    /// ```
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
