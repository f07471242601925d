/// Times and sizes of one transfer. Times count from its start, and include those before them.
public struct TransferMetrics: Sendable, Hashable {
    /// Until the host's address was known.
    public var nameLookup: Duration = .zero
    /// Until the connection was made; zero on a connection that was there.
    public var connect: Duration = .zero
    /// Until TLS was set up; zero without TLS or on a connection that was there.
    public var tls: Duration = .zero
    /// Until the first byte of the answer.
    public var firstByte: Duration = .zero
    /// Until the last byte.
    public var total: Duration = .zero
    /// Bytes of the body as they came over the network, before content decoding.
    public var bytesReceived = 0
    /// Such as `HTTP/1.1` or `HTTP/2`.
    public var httpVersion = ""
    /// The connection was there before.
    public var reusedConnection = false
    /// Redirects followed.
    public var redirects = 0

    /// Nothing measured.
    public init() {}
}
