import Foundation

/// Which picture, from where, and what becomes of it: a value.
///
/// Has all options of a `DataRequest` and of ``ImageOptions`` as its own; they are set as properties, or chained:
///
/// ```swift
/// let request = ImageRequest(url)
///     .with(\.headers, ["Accept": "image/webp"])
///     .with(\.priority, .high)
///     .processed(by: Downsample(to: .fit(400, 300)))
/// ```
@dynamicMemberLookup
public struct ImageRequest: Sendable {
    /// Where the bytes come from.
    public var data: DataRequest
    private var box: ImageOptions.Box?

    /// What becomes of them.
    public var options: ImageOptions {
        get { box?.options ?? ImageOptions() }
        set { box = ImageOptions.Box(newValue) }
    }

    /// The options, if any were set.
    var givenOptions: ImageOptions? { box?.options }

    /// A picture at a URL, with the cache's defaults.
    public init(_ url: URL) {
        data = DataRequest(url)
    }

    /// A picture that a provider brings, such as a `FileProvider`.
    public init(_ provider: any DataProvider) {
        data = DataRequest(provider)
    }

    /// A picture whose bytes a request brings.
    public init(_ data: DataRequest) {
        self.data = data
    }

    /// A picture at a URL that is given as text. Text that is not a URL is no error here: the call that uses it ends as
    /// `DipperError.invalidURL`.
    public init(string: String) {
        data = DataRequest(string: string)
    }

    /// An option of the bytes, such as `headers` and `priority`.
    public subscript<Value>(dynamicMember option: WritableKeyPath<DataRequest, Value>) -> Value {
        get { data[keyPath: option] }
        set { data[keyPath: option] = newValue }
    }

    /// What the request for the bytes tells, such as `url` and `cacheKey`.
    public subscript<Value>(dynamicMember option: KeyPath<DataRequest, Value>) -> Value { data[keyPath: option] }

    /// An option of the picture, such as `processors` and `scale`.
    public subscript<Value>(dynamicMember option: WritableKeyPath<ImageOptions, Value>) -> Value {
        get { options[keyPath: option] }
        set { options[keyPath: option] = newValue }
    }

    /// A copy with one option changed.
    public func with<Value>(_ option: WritableKeyPath<ImageRequest, Value>, _ value: Value) -> ImageRequest {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }

    /// A copy with URLs to turn to.
    public func with(_ option: WritableKeyPath<ImageRequest, [DataRequest.Source]>, _ urls: [URL]) -> ImageRequest {
        with(option, urls.map { .url($0) })
    }

    /// A copy with one more processor behind those it has.
    public func processed(by processor: any ImageProcessor) -> ImageRequest {
        with(\.processors, (options.processors ?? []) + [processor])
    }

    /// A copy whose answers are changed by a closure before they are handed out; what is kept is not.
    public func modified(_ body: @escaping @Sendable (Image) -> Image) -> ImageRequest {
        with(\.imageModifier, body)
    }
}

extension ImageRequest: RedactedStringConvertible {
    /// The URL or key without secrets, the names of the fields, and the processors.
    public var description: String {
        let processors = (options.processors ?? []).map(\.identifier).joined(separator: " |> ")
        return processors.isEmpty ? "\(data)" : "\(data) |> \(processors)"
    }
}
