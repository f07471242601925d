import Foundation

extension DipperError {
    /// The source that failed, as it was asked: the request's own or an alternative, such as a provider; `nil` if none
    /// was asked.
    public internal(set) var askedSource: DataRequest.Source? {
        get { asked as? DataRequest.Source }
        set { asked = newValue }
    }
}

extension DataRequest {
    /// A source of bytes.
    public enum Source: Sendable, RedactedStringConvertible {
        /// The server of a URL.
        case url(URL)
        /// A file, text, memory, or code of the caller.
        case provider(any DataProvider)

        /// The URL; `nil` for a provider.
        public var url: URL? { if case .url(let url) = self { url } else { nil } }
        /// The provider; `nil` for a URL.
        public var provider: (any DataProvider)? { if case .provider(let provider) = self { provider } else { nil } }

        /// The source, with the provider of a file or of the content in place of its URL.
        var resolved: Source { url?.localProvider.map { .provider($0) } ?? self }

        /// Whether the source, as an alternative, stands in for one call only.
        var isStandIn: Bool { provider?.isLocal == true }

        /// The URL, or the provider's key, without secrets.
        public var description: String {
            switch self {
            case .url(let url): Redaction.standard.text(url)
            case .provider(let provider): provider.cacheKey.description
            }
        }
    }

    /// Returns a copy of the request with one option, such as ``alternatives``, set to URLs.
    public func with(_ option: WritableKeyPath<DataRequest, [Source]>, _ urls: [URL]) -> DataRequest {
        with(option, urls.map { .url($0) })
    }

    /// Returns a copy of the request with header fields from a dictionary.
    @_disfavoredOverload
    public func with(_ option: WritableKeyPath<DataRequest, HTTPHeaders>, _ fields: [String: String]) -> DataRequest {
        with(option, HTTPHeaders(fields))
    }

    /// The request without the alternatives that stand in for one call, for a call that only fills the cache.
    package var withoutStandIns: DataRequest {
        hasStandIns ? with(\.alternatives, alternatives.filter { !$0.isStandIn }) : self
    }

    var hasStandIns: Bool { hasHooks && alternatives.contains(where: \.isStandIn) }

    var source: Source? { provider.map { .provider($0) } ?? url.map { .url($0) } }
}

/// A value that a cache of bytes can fetch by its request: a URL, as a value or as text, or a ``DataRequest``.
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

extension DataRequestConvertible {
    /// Whether this names a URL and no request: then all entries or calls of the URL are meant.
    var isURL: Bool { self is URL || self is String }
}

extension DataRequest: DataRequestConvertible {
    /// The request itself.
    public var dataRequest: DataRequest { self }
}

// In an extension of a protocol, where a second property of one name is no redeclaration: `headers = dictionary` and
// `alternatives = [url]` compile, and everything else takes the property of the request itself. Without getters, because
// a change in place, such as `alternatives.append(url)`, would drop the providers, and fields of one name.
extension DataRequestConvertible where Self == DataRequest {
    /// Sets the header fields to send to those of a dictionary.
    @_disfavoredOverload
    public var headers: [String: String] {
        @available(*, unavailable, message: "Use the methods of `HTTPHeaders`.") get { [:] }
        set { self.headers = HTTPHeaders(newValue) }
    }

    /// Sets the sources to try after the request's own to URLs.
    @_disfavoredOverload
    public var alternatives: [URL] {
        @available(*, unavailable, message: "Use `DataRequest.Source.url(url)` in place of a URL.") get { [] }
        set { self.alternatives = newValue.map { .url($0) } }
    }
}

extension URL: DataRequestConvertible {
    /// The request for the URL, with the cache's defaults.
    public var dataRequest: DataRequest { DataRequest(self) }
}

extension String: DataRequestConvertible {
    /// The request for a URL as text. If it is not a URL, the call ends with ``DipperError/invalidURL``.
    public var dataRequest: DataRequest { DataRequest(string: self) }
}
