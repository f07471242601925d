import Foundation

/// A value that a cache of bytes can fetch: a URL, as a value or as text, or a ``DataRequest``.
///
/// A type of the program's own conforms by building its request:
///
/// ```swift
/// struct Feed: DataRequestConvertible {
///     let url: URL
///     var dataRequest: DataRequest { DataRequest(url).with(\.headers, ["Accept": "application/json"]) }
/// }
/// let data = try await cache.getData(Feed(url: url)).value
/// ```
public protocol DataRequestConvertible {
    /// The request for the value.
    var dataRequest: DataRequest { get }
}

extension DataRequest: DataRequestConvertible {
    /// The request itself.
    public var dataRequest: DataRequest { self }
}

extension URL: DataRequestConvertible {
    /// The request for the URL, with the cache's defaults.
    public var dataRequest: DataRequest { DataRequest(self) }
}

extension String: DataRequestConvertible {
    /// The request for the URL that the text is. Text that is not a URL is no error here: the call that uses the request
    /// ends with ``DipperError/invalidURL``.
    public var dataRequest: DataRequest { DataRequest(string: self) }
}
