import Foundation

/// The answer to a call: the bytes, and where they came from.
///
/// ```swift
/// let response = try await cache.getData(url).response
/// print(response.status, response.source, response.headers["Content-Type"] ?? "no type")
/// ```
public struct DataResponse: FetchResponse {
    /// The task of the call.
    public typealias Handle = DataTask
    /// The type of the body.
    public typealias Value = Data

    /// The body, byte for byte.
    public let data: Data
    /// The body, byte for byte, by the name that code for bytes and pictures uses.
    public var value: Data { data }
    /// The tier that answered.
    public let source: ResponseSource
    /// The metadata of the answer, as the tiers keep it.
    package let info: EntryInfo
    private let extras: Extras?

    /// The properties that few responses have, in an object of their own so that a response is small.
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

    /// The URL that the bytes came from, after redirects; `nil` if they came from a provider.
    public var url: URL? { info.source }
    /// The status that the server answered with when the bytes were fetched; 200 for entries that the caller added.
    public var status: Int { info.status }
    /// The header fields of the answer that the bytes came with, updated when the server confirmed the answer.
    public var headers: HTTPHeaders { info.headers }
    /// The number of network attempts made for this result; 0 if the cache answered.
    public var attempts: Int { extras?.attempts ?? 0 }
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    ///
    /// ```swift
    /// if let metrics = try await task.response.metrics {
    ///     print(metrics.httpVersion, metrics.firstByte, metrics.total)
    /// }
    /// ```
    public var metrics: TransferMetrics? { extras?.metrics }
    /// The prefetch that brings newer bytes, if these are out of date but may be used meanwhile
    /// (`stale-while-revalidate`, RFC 5861); otherwise `nil`.
    ///
    /// ```swift
    /// let response = try await cache.getData(url).response
    /// if let newer = try await response.revalidation?.value { print(newer.count) }
    /// ```
    public var revalidation: DataTask? { extras?.revalidation }

    /// The time at which the server made the answer or last confirmed it, as far as that is known.
    public var generated: Date { Date(timeIntervalSince1970: info.freshness.generated) }
    /// Returns the age of the answer at a date (RFC 9111, section 4.2.3); zero for dates before ``generated``.
    public func age(at date: Date) -> Duration { .seconds(info.freshness.age(at: date.timeIntervalSince1970)) }
    /// The time at which the answer stops being fresh: `nil` if it is fresh for ever, `Date.distantPast` if the server
    /// must confirm each use (`no-cache`).
    public var freshUntil: Date? {
        let until = info.freshness.until
        return until == .infinity ? nil : max(.distantPast, Date(timeIntervalSince1970: until))
    }

    /// Creates a response, for tests.
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

/// The answer to a call: bytes in a ``DataResponse``, a typed value in a ``ValueResponse``, a picture in an
/// `ImageResponse`.
///
/// ```swift
/// func log(_ response: some FetchResponse) {
///     print(response.status, response.source, response.headers["Content-Type"] ?? "no type")
/// }
/// ```
public protocol FetchResponse: Sendable {
    /// The type of the result: `Data`, `Image`, or the type of a typed value.
    associatedtype Value: Sendable
    /// The type of the task of the call, such as ``DataTask`` or `ImageTask`.
    associatedtype Handle: FetchTask

    /// The bytes or the picture.
    var value: Value { get }
    /// The tier that answered.
    var source: ResponseSource { get }
    /// The URL that the bytes came from, after redirects; `nil` if they came from a provider.
    var url: URL? { get }
    /// The status that the server answered with when the bytes were fetched; 200 for entries that the caller added.
    var status: Int { get }
    /// The header fields of the server's answer.
    var headers: HTTPHeaders { get }
    /// The number of network attempts made for this result; 0 if the cache answered.
    var attempts: Int { get }
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    var metrics: TransferMetrics? { get }
    /// The prefetch of a newer result, if this one is out of date but may be used meanwhile
    /// (`stale-while-revalidate`, RFC 5861); otherwise `nil`.
    var revalidation: Handle? { get }
}
