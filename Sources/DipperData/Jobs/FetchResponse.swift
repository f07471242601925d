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
