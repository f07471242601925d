import Foundation

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

extension ImageRequest: ImageRequestConvertible {
    /// The request itself.
    public var imageRequest: ImageRequest { self }
}

extension URL: ImageRequestConvertible {
    /// The request for the picture of the URL, with the cache's default options.
    public var imageRequest: ImageRequest { ImageRequest(self) }
}

extension String: ImageRequestConvertible {
    /// The request for the picture of the URL that the text is. Text that is not a URL is no error here: the call that
    /// uses the request ends with `DipperError.invalidURL`.
    public var imageRequest: ImageRequest { ImageRequest(string: self) }
}
