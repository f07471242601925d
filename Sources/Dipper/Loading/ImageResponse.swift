import Foundation

/// A picture and where it came from.
///
/// ```swift
/// let response = try await cache.getImage(url).response
/// print(response.source, response.attempts, response.headers["Last-Modified"] ?? "")
/// view.show(response.image)
/// ```
public struct ImageResponse: FetchResponse, RedactedStringConvertible {
    /// The task of the call.
    public typealias Handle = ImageTask
    /// The type of the picture.
    public typealias Value = Image

    /// The picture, ready to draw.
    public let image: Image
    /// The picture, by the name that code for bytes and pictures uses.
    public var value: Image { image }
    /// The tier that answered: `ResponseSource.memory` for pictures that were decoded before.
    public let source: ResponseSource
    /// The source that was asked, before redirects; see `FetchResponse.askedSource`.
    public var askedSource: DataRequest.Source? { extras.asked }
    /// The http or https URL that the bytes came from, after redirects; `nil` for bytes of a provider, of a `file:` or
    /// `data:` URL, and for bytes that the program added under a key alone.
    public var url: URL? { info.source }
    /// The status the server answered with when the bytes were fetched.
    public var status: Int { info.status }
    /// The header fields of the server's answer.
    public var headers: HTTPHeaders { info.serverHeaders }
    private let info: EntryInfo
    private let extras: ResponseExtras<ImageTask>
    /// The number of network attempts made for this result; 0 if the cache answered.
    public var attempts: Int { extras.attempts }
    /// The times and sizes of the last attempt; `nil` if the cache answered.
    public var metrics: TransferMetrics? { extras.metrics }
    /// The prefetch of a newer picture, if this one is out of date but may be shown meanwhile
    /// (`stale-while-revalidate`, RFC 5861).
    public var revalidation: ImageTask? { extras.revalidation }

    init(
        _ image: Image, source: ResponseSource, info: EntryInfo, attempts: Int = 0,
        metrics: TransferMetrics? = nil, revalidation: ImageTask? = nil, asked: DataRequest.Source? = nil
    ) {
        self.image = image
        self.source = source
        self.info = info
        extras = ResponseExtras(attempts, metrics, revalidation, asked)
    }

    /// The status, the size of the picture, and the tier that answered.
    public var description: String { "\(status) \(image.size) pixels from \(source.rawValue)" }
}
