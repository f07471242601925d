import Foundation

/// A result and where it came from.
public struct DataResponse: Sendable {
    /// The body, byte for byte.
    public let data: Data
    /// The tier that answered.
    public let source: ResponseSource
    /// What the tiers keep of it.
    package let info: EntryInfo
    private let extras: Extras?

    /// Keeps a response small.
    private final class Extras: Sendable {
        let attempts: Int
        let metrics: TransferMetrics?
        let revalidation: DataTask?

        init(attempts: Int, metrics: TransferMetrics?, revalidation: DataTask?) {
            self.attempts = attempts
            self.metrics = metrics
            self.revalidation = revalidation
        }
    }

    /// The status the server answered with when the bytes were fetched; 200 for entries added by hand.
    public var status: Int { info.status }
    /// The fields of the answer the bytes came with, as far as it has not been refreshed since.
    public var headers: HTTPHeaders { info.headers }
    /// Network attempts made for this result; 0 if the cache answered.
    public var attempts: Int { extras?.attempts ?? 0 }
    /// Times and sizes of the last attempt; `nil` if the cache answered.
    public var metrics: TransferMetrics? { extras?.metrics }
    /// For bytes that are out of date but may be used meanwhile (`stale-while-revalidate`, RFC 5861): the prefetch that
    /// brings newer ones. Else `nil`.
    public var revalidation: DataTask? { extras?.revalidation }

    /// When the server made the answer, or last confirmed it, as far as that is known.
    public var generated: Date { Date(timeIntervalSince1970: info.freshness.generated) }
    /// How old the answer is now (RFC 9111, section 4.2.3).
    public var age: Duration { .seconds(max(0, Date().timeIntervalSince1970 - info.freshness.generated)) }
    /// Up to when the answer is fresh; `nil` for ever.
    public var freshUntil: Date? {
        info.freshness.until.isFinite ? Date(timeIntervalSince1970: info.freshness.until) : nil
    }

    /// A response of one's own, for tests.
    public init(
        data: Data, source: ResponseSource, status: Int = 200, headers: HTTPHeaders = [:], attempts: Int = 0,
        metrics: TransferMetrics? = nil
    ) {
        self.init(
            data: data, info: EntryInfo(url: "", status: status, headers: headers, stored: 0), source: source,
            attempts: attempts, metrics: metrics)
    }

    init(
        data: Data, info: EntryInfo, source: ResponseSource, attempts: Int = 0, metrics: TransferMetrics? = nil,
        revalidation: DataTask? = nil
    ) {
        self.data = data
        self.source = source
        self.info = info
        extras =
            attempts == 0 && metrics == nil && revalidation == nil
            ? nil : Extras(attempts: attempts, metrics: metrics, revalidation: revalidation)
    }

    init(_ value: StoredData, source: ResponseSource, revalidation: DataTask? = nil) {
        self.init(data: value.data, info: value.info, source: source, revalidation: revalidation)
    }
}

extension DataResponse: RedactedStringConvertible {
    /// The status, the number of bytes, and the tier that answered.
    public var description: String { "\(status) \(data.count) bytes from \(source.rawValue)" }
}
