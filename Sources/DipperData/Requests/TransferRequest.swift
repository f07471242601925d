import Foundation

/// A request to a transport: what to transfer, and how.
public struct TransferRequest: Sendable, RedactedStringConvertible {
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
    /// The bytes of the body that the cache has already, and does not ask for. They count towards the limit for bodies.
    public var offset = 0
    /// Whether the transfer must not use a kept connection.
    public var needsNewConnection = false
    /// Whether the body of an answer other than a success is wanted too.
    public var keepsErrorBody = false

    /// Whether a redirect is followed whatever its body says.
    var ignoresRedirectBody = false

    /// Whether the request goes to the origin that the caller named, so that the client may identify itself there.
    public var isForOwnOrigin = true
    /// The certificates and keys for the origin of ``url``; `nil` for those of the transport. The cache sets them if it
    /// has a ``DataCache/Configuration/answerTLSChallenge``.
    public var tls: TLSAnswer?
    /// The value of the `Proxy-Authorization` field; `nil` for none. A transport sends it to a proxy only, never to the
    /// server. The cache sets it if it has ``DataCache/Configuration/proxyCredentials``.
    public var proxyAuthorization: String?

    /// Creates a GET request, by default in `fastQueue` and not throttled.
    public init(url: URL, headers: HTTPHeaders = [:], queue: FetchQueue = .fast, isThrottled: Bool = false) {
        self.url = url
        self.headers = headers
        self.queue = queue
        self.isThrottled = isThrottled
    }

    /// The method, the URL without secrets, and the names of the fields.
    public var description: String { "\(method) \(Redaction.standard.text(url)) \(headers)" }
}

/// An answer that comes before the final one (RFC 9110, section 15.2), such as 103 with the links of a page.
public struct InterimResponse: Sendable, Hashable, RedactedStringConvertible {
    /// A status from 102 to 199.
    public var status: Int
    public var headers: HTTPHeaders

    /// Creates an interim answer, for a transport of the caller's own.
    public init(status: Int, headers: HTTPHeaders = [:]) {
        self.status = status
        self.headers = headers
    }

    /// The status, and the names of the fields.
    public var description: String { "\(status) \(headers)" }
}

/// A complete answer, whatever its status.
public struct TransferResponse: Sendable, RedactedStringConvertible {
    /// The final status.
    public var status: Int
    public var headers: HTTPHeaders
    /// The body, without content codings.
    public var body: Data
    /// The measurements of the transfer.
    public var metrics: TransferMetrics

    /// Creates an answer, for a transport of the caller's own.
    public init(status: Int = 200, headers: HTTPHeaders = [:], body: Data, metrics: TransferMetrics = .init()) {
        self.status = status
        self.headers = headers
        self.body = body
        self.metrics = metrics
    }

    /// The answer as a 200 if it is a part that is the whole (RFC 9110, section 14.4); `nil` otherwise.
    var whole: TransferResponse? {
        let ranges = headers.values("Content-Range")
        guard status == 206, ranges.count == 1, let range = ContentRange(ranges[0]), range.first == 0,
            range.total == range.last + 1, body.count == range.total || ContentCoding.isCoded(headers)
        else { return nil }
        var whole = self
        whole.status = 200
        whole.headers = headers.removing { $0.isSameHeaderName(as: "Content-Range") }
        return whole
    }

    /// The status, the number of bytes, and the names of the fields.
    public var description: String { "\(status) \(body.count) bytes \(headers)" }
}

/// The times and the sizes of one transfer. Each time counts from the start of the transfer.
///
/// ```swift
/// if let metrics = try await cache.getRemoteData(url).response.metrics {
///     print("name \(metrics.nameLookup), first byte \(metrics.firstByte), total \(metrics.total)")
/// }
/// ```
public struct TransferMetrics: Sendable, Hashable {
    /// The time until the host's address was known.
    public var nameLookup: Duration = .zero
    /// The time until the connection was made; zero if an existing connection was used.
    public var connect: Duration = .zero
    /// The time until TLS was set up; zero without TLS or if an existing connection was used.
    public var tls: Duration = .zero
    /// The time until the first byte of the answer.
    public var firstByte: Duration = .zero
    /// The time until the last byte.
    public var total: Duration = .zero
    /// The number of bytes of the body that came over the network, before content decoding.
    public var bytesReceived = 0
    /// The HTTP version, such as `HTTP/1.1` or `HTTP/2`; empty if it is not known.
    public var httpVersion = ""
    /// Whether an existing connection was used.
    public var reusedConnection = false
    /// The number of redirects followed.
    public var redirects = 0

    /// Creates metrics without any measurement.
    public init() {}
}
