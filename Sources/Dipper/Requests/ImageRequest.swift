import Foundation

/// A request for a picture: the source of its bytes, and the options for fetching, decoding and processing.
///
/// A request has all options of a `DataRequest` and of ``ImageOptions``. Set them as properties, or chain them:
///
/// ```swift
/// let request = ImageRequest(url)
///     .with(\.headers, ["Accept": "image/webp"])
///     .with(\.priority, .high)
///     .processed(by: .downsample(width: 400, height: 300))
/// ```
@dynamicMemberLookup
public struct ImageRequest: Sendable, Hashable, RedactedStringConvertible, ImageRequestConvertible {
    /// The request for the bytes.
    public var data: DataRequest
    private var box: Reference<ImageOptions>?

    /// The options for decoding, processing and keeping the picture.
    public var options: ImageOptions {
        get { box?.value ?? ImageOptions() }
        set {
            var options = newValue
            // These belong to the source of the bytes.
            (options.extractor, options.sizes) = (box?.value.extractor, box?.value.sizes)
            box = Reference(options)
            if options.sizes != nil { chooseURL(for: options.decodeTarget) }
        }
    }

    mutating func setSizes(_ sizes: SizedURLs?) {
        var options = options
        options.sizes = sizes
        box = Reference(options)
    }

    var givenOptions: ImageOptions? { box?.value }

    /// Creates a request for the picture of a URL, with the cache's default options.
    public init(_ url: URL) {
        data = DataRequest(url)
    }

    /// Creates a request for a picture whose bytes a provider delivers, such as a `FileProvider`. For a
    /// ``VideoFrameProvider`` whose video is on a server, it is a request for the URL of the video.
    public init(_ provider: any DataProvider) {
        guard let extractor = provider as? VideoFrameProvider, let remote = extractor.remote else {
            data = DataRequest(provider)
            return
        }
        data = remote
        var options = ImageOptions()
        options.extractor = extractor
        box = Reference(options)
    }

    /// Creates a request for a picture whose bytes another request describes.
    ///
    /// ```swift
    /// let data = DataRequest(url).with(\.timeout, .seconds(10))
    /// let bytes = try await cache.data.getData(data).value
    /// let image = try await cache.getImage(ImageRequest(data)).value          // without a second fetch
    /// ```
    public init(_ data: DataRequest) {
        self.data = data
    }

    /// Creates a request for the picture of a URL given as text. Text that is not a URL is no error here: the call that
    /// uses the request ends with `DipperError.invalidURL`.
    public init(string: String) {
        data = DataRequest(string: string)
    }

    /// The header fields to send; see `DataRequest.headers`.
    public var headers: HTTPHeaders {
        get { data.headers }
        set { data.headers = newValue }
    }

    /// The sources to try, in order, after the request's own; see `DataRequest.alternatives`.
    public var alternatives: [DataRequest.Source] {
        get { data.alternatives }
        set { data.alternatives = newValue }
    }

    /// Accesses an option of the bytes, such as `timeout` or `priority`.
    public subscript<Value>(dynamicMember option: WritableKeyPath<DataRequest, Value>) -> Value {
        get { data[keyPath: option] }
        set { data[keyPath: option] = newValue }
    }

    /// Accesses a property of the request for the bytes, such as `url` or `cacheKey`.
    public subscript<Value>(dynamicMember option: KeyPath<DataRequest, Value>) -> Value { data[keyPath: option] }

    /// Accesses an option of the picture, such as `processors` or `scale`.
    public subscript<Value>(dynamicMember option: WritableKeyPath<ImageOptions, Value>) -> Value {
        get { options[keyPath: option] }
        set { options[keyPath: option] = newValue }
    }

    /// Returns a copy of the request with one option changed.
    public func with<Value>(_ option: WritableKeyPath<ImageRequest, Value>, _ value: Value) -> ImageRequest {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }

    /// Returns a copy of the request with URLs as its sources of one kind, such as its `alternatives`.
    public func with(_ option: WritableKeyPath<ImageRequest, [DataRequest.Source]>, _ urls: [URL]) -> ImageRequest {
        with(option, urls.map { .url($0) })
    }

    /// Returns a copy of the request with header fields from a dictionary.
    @_disfavoredOverload
    public func with(_ option: WritableKeyPath<ImageRequest, HTTPHeaders>, _ fields: [String: String]) -> ImageRequest {
        with(option, HTTPHeaders(fields))
    }

    /// Returns a copy of the request with more processors, which are applied last, in order.
    ///
    /// ```swift
    /// let request = ImageRequest(url)
    ///     .processed(by: .fitting(width: 200, height: 200, .aspectFill), .roundedCorners(radius: 12))
    /// ```
    public func processed(by processors: any ImageProcessor...) -> ImageRequest {
        with(\.processors, (options.processors ?? []) + processors)
    }

    /// Returns a copy of the request with an ``ImageOptions/imageModifier``.
    ///
    /// ```swift
    /// let still = ImageRequest(url).modified { image in
    ///     var image = image
    ///     image.animation = nil           // the cache keeps the animation for other requests
    ///     return image
    /// }
    /// ```
    public func modified(_ body: @escaping @Sendable (Image) -> Image) -> ImageRequest {
        with(\.imageModifier, body)
    }

    /// Returns whether two requests ask for the same picture in the same way. Processors are compared by their
    /// identifiers. Closures, queues and caches cannot be compared: requests that have any are equal only if one is a
    /// copy of the other in that respect.
    public static func == (a: Self, b: Self) -> Bool {
        a.data == b.data && (a.box === b.box || a.options.isEqual(to: b.options))
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(data) }

    /// The URL or key without secrets, the names of the header fields, and the processors.
    public var description: String {
        let processors = (options.processors ?? []).map(\.identifier).joined(separator: " |> ")
        return processors.isEmpty ? "\(data)" : "\(data) |> \(processors)"
    }

    /// The request itself.
    public var imageRequest: ImageRequest { self }
}

/// A value that a cache of pictures can load: a URL, as a value or as text, or an ``ImageRequest``.
///
/// A type of the program's own conforms by building its request:
///
/// ```swift
/// struct Avatar: ImageRequestConvertible {
///     let url: URL
///     var imageRequest: ImageRequest { ImageRequest(url).processed(by: .circle) }
/// }
/// let image = try await cache.getImage(Avatar(url: url)).value
/// ```
public protocol ImageRequestConvertible {
    /// The request for the picture.
    var imageRequest: ImageRequest { get }
}

extension ImageRequestConvertible {
    /// Whether this names a URL and no request: then all entries or calls of the URL are meant.
    var isURL: Bool { self is URL || self is String }
}

// As for a request for bytes.
extension ImageRequestConvertible where Self == ImageRequest {
    /// Sets the header fields to send to those of a dictionary.
    @_disfavoredOverload
    public var headers: [String: String] {
        @available(*, unavailable, message: "Use the methods of `HTTPHeaders`.") get { [:] }
        set { self.data.headers = newValue }
    }

    /// Sets the sources to try after the request's own to URLs.
    @_disfavoredOverload
    public var alternatives: [URL] {
        @available(*, unavailable, message: "Use `DataRequest.Source.url(url)` in place of a URL.") get { [] }
        set { self.data.alternatives = newValue }
    }
}

extension URL: ImageRequestConvertible {
    /// The request for the picture of the URL, with the cache's default options.
    public var imageRequest: ImageRequest { ImageRequest(self) }
}

extension String: ImageRequestConvertible {
    /// The request for the picture of the URL that the text is; see ``ImageRequest/init(string:)``.
    public var imageRequest: ImageRequest { ImageRequest(string: self) }
}
