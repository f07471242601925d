import Foundation

extension DataRequest {
    /// Where bytes come from.
    public enum Source: Sendable {
        /// A server.
        case url(URL)
        /// A file, text, memory, or code of the caller's.
        case provider(any DataProvider)

        /// The URL, if it is one.
        public var url: URL? { if case .url(let url) = self { url } else { nil } }
        /// The provider, if it is one.
        public var provider: (any DataProvider)? { if case .provider(let provider) = self { provider } else { nil } }

        /// As an alternative it stands in for one call.
        var isStandIn: Bool { provider?.isLocal == true }
    }

    /// A copy with URLs to turn to.
    public func with(_ option: WritableKeyPath<DataRequest, [Source]>, _ urls: [URL]) -> DataRequest {
        with(option, urls.map { .url($0) })
    }

    /// For who has no use for what stands in for a call alone: it would not be kept.
    package var withoutStandIns: DataRequest {
        hasStandIns ? with(\.alternatives, alternatives.filter { !$0.isStandIn }) : self
    }

    var hasStandIns: Bool { hasHooks && alternatives.contains(where: \.isStandIn) }

    /// The source that is asked first.
    var source: Source? { provider.map { .provider($0) } ?? url.map { .url($0) } }
}

extension DataRequest.Source: RedactedStringConvertible {
    /// The URL, or the provider's key, without secrets.
    public var description: String {
        switch self {
        case .url(let url): Redaction.standard.text(url)
        case .provider(let provider): provider.cacheKey.description
        }
    }
}
