/// The times and sizes of one transfer. Each time counts from the start of the transfer, and includes the times before
/// it.
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
