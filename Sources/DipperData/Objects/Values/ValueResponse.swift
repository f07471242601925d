import Foundation

/// The answer to a call for a typed value: the value, and where its bytes came from.
public struct ValueResponse<Value: Sendable>: FetchResponse {
    /// The task of a call for a value.
    public typealias Handle = ValueTask<Value>

    /// The value.
    public let value: Value
    /// The tier that answered: `memory` if the value, or its bytes, were in memory.
    public let source: ResponseSource
    /// The URL that the bytes came from, after redirects; `nil` if they came from a provider.
    public var url: URL? { info.source }
    /// The status that the server answered with when the bytes were fetched.
    public var status: Int { info.status }
    /// The header fields of the answer that the bytes came with.
    public var headers: HTTPHeaders { info.headers }
    private let info: EntryInfo
    /// The number of network attempts made for the bytes; 0 if the cache answered.
    public let attempts: Int
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    public let metrics: TransferMetrics?
    /// The prefetch of a newer value, if this one is out of date but may be used meanwhile; otherwise `nil`.
    public let revalidation: ValueTask<Value>?

    init(_ value: Value, _ basis: Basis, revalidation: ValueTask<Value>?) {
        self.value = value
        source = basis.source
        info = basis.info
        attempts = basis.attempts
        metrics = basis.metrics
        self.revalidation = revalidation
    }
}

extension ValueResponse: RedactedStringConvertible {
    /// The status, and the tier that answered.
    public var description: String { "\(status) from \(source.rawValue)" }
}
