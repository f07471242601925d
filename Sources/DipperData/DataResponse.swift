import Foundation

/// A result and where it came from.
public struct DataResponse: Sendable {
    /// The tier that answered.
    public enum Source: String, Sendable, Hashable, CaseIterable {
        case memory, disk, revalidated, stale, network
    }

    /// The body, byte for byte.
    public let data: Data
    /// The tier that answered.
    public let source: Source
    /// The status the server answered with when the bytes were fetched; 200 for entries added by hand.
    public let status: Int
    /// The fields of the answer the bytes came with.
    public let headers: HTTPHeaders
    /// Network attempts made for this result; 0 if the cache answered.
    public let attempts: Int
    /// Times and sizes of the last attempt; `nil` if the cache answered.
    public var metrics: TransferMetrics? { transfer?.metrics }
    private let transfer: Transfer?

    /// Keeps a response small.
    private final class Transfer: Sendable {
        let metrics: TransferMetrics

        init(_ metrics: TransferMetrics) {
            self.metrics = metrics
        }
    }

    /// A response of one's own, for tests.
    public init(
        data: Data, source: Source, status: Int = 200, headers: HTTPHeaders = [:], attempts: Int = 0,
        metrics: TransferMetrics? = nil
    ) {
        self.data = data
        self.source = source
        self.status = status
        self.headers = headers
        self.attempts = attempts
        transfer = metrics.map(Transfer.init)
    }
}
