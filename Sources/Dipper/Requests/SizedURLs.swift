import Foundation

/// The URLs of one picture in several sizes, of which the number of pixels that are needed chooses one.
final class SizedURLs: Sendable {
    /// By the widths of their pictures; empty if a closure makes the URLs.
    private let widths: [Int: URL]
    private let make: (@Sendable (PixelSize?) -> URL)?
    /// The pixels that are needed, if they do not follow from the processors.
    let pixels: PixelSize?

    init(_ widths: [Int: URL] = [:], make: (@Sendable (PixelSize?) -> URL)? = nil, pixels: PixelSize? = nil) {
        (self.widths, self.make, self.pixels) = (widths, make, pixels)
    }

    func with(pixels: PixelSize) -> SizedURLs { SizedURLs(widths, make: make, pixels: pixels) }

    /// Returns the URLs for a target of the processing, the best first: then the larger ones and the smaller ones, the
    /// nearest first. Of a closure, they are the one for the target and the one for the whole picture.
    func urls(for target: TargetSize?) -> [URL] {
        let needed = needed(for: target)
        if let make { return [make(needed)] + (needed == nil ? [] : [make(nil)]) }
        let sorted = widths.keys.sorted()
        let larger = needed.map { size in sorted.filter { $0 >= size.width } } ?? []
        return (larger + sorted.dropLast(larger.count).reversed()).compactMap { widths[$0] }
    }

    /// The pixels that a picture of the usual proportions, 3 : 2, must have for a target.
    private func needed(for target: TargetSize?) -> PixelSize? {
        if let pixels { return pixels }
        guard let target else { return nil }
        // A width or height that does not matter is as large as can be.
        let most = 1 << 24
        var (width, height) = (min(max(0, target.size.width), most), min(max(0, target.size.height), most))
        if width == most { width = height * 3 / 2 }
        if height == most { height = width * 2 / 3 }
        if target.mode == .fill { (width, height) = (max(width, height * 3 / 2), max(height, width * 2 / 3)) }
        return PixelSize(width: width, height: height)
    }

    static func areEqual(_ a: SizedURLs?, _ b: SizedURLs?) -> Bool {
        guard let a, let b, a !== b else { return a === b }
        return a.make == nil && b.make == nil && a.widths == b.widths && a.pixels == b.pixels
    }
}

extension ImageRequest {
    /// Creates a request for a picture that a server has in several sizes: URLs by the widths of their pictures, in pixels,
    /// as in `srcset` of HTML.
    ///
    /// ```swift
    /// let request = ImageRequest(widths: [320: smallURL, 640: url, 1280: largeURL])
    /// binding.setImage(request, options: DisplayOptions().with(\.downsampling, .fill))
    /// let cell = request.processed(by: .downsample(width: 300, height: 200))            // of `smallURL`
    /// ```
    ///
    /// The URL is the one of the smallest picture that is at least as wide as needed, or else of the widest. The width
    /// that is needed is that of the request's first processor, if it changes the size, in pixels; or that of the display,
    /// or of ``sized(for:)``; without any of these the URL of the widest picture is taken. For a target to be filled, the
    /// picture is taken to have the proportions 3 : 2.
    ///
    /// The URL of the request is the one that is chosen, and each URL has a key of its own; do not set `key`. Header fields
    /// and credentials are sent to whichever URL is chosen. While one size is loaded, another one stands in for it
    /// (``ImageOptions/showsOtherSizes``). Without URLs the call ends with `DipperError.invalidURL`.
    public init(widths urls: [Int: URL]) { self.init(SizedURLs(urls)) }

    /// Creates a request for a picture whose URL names its size: the closure returns the URL for the number of pixels that
    /// are needed, or for the whole picture if that is `nil`. See ``init(widths:)`` for what decides how many that are.
    ///
    /// ```swift
    /// let request = ImageRequest(sized: { size in
    ///     let width = [160, 320, 640].first { $0 >= size?.width ?? .max } ?? 1280         // few sizes are cached well
    ///     return url.appending(queryItems: [URLQueryItem(name: "width", value: "\(width)")])
    /// })
    /// ```
    ///
    /// The closure is called each time that the request gets another processor or option, and must give equal URLs for
    /// equal sizes.
    public init(sized url: @escaping @Sendable (_ pixels: PixelSize?) -> URL) { self.init(SizedURLs(make: url)) }

    private init(_ sizes: SizedURLs) {
        self.init(sizes.urls(for: nil).first.map { DataRequest($0) } ?? DataRequest(string: ""))
        setSizes(sizes)
    }

    /// Returns a copy of the request whose URL is the one for a number of pixels, whatever its processors are; the picture
    /// keeps the size that it has there. Only for a request with several URLs, such as that of ``init(widths:)``.
    public func sized(for pixels: PixelSize) -> ImageRequest {
        var copy = self
        if let sizes = givenOptions?.sizes { copy.setSizes(sizes.with(pixels: pixels)) }
        copy.chooseURL(for: nil)
        return copy
    }

    /// Takes the URL for a target, if there are several URLs.
    mutating func chooseURL(for target: TargetSize?) {
        guard let url = givenOptions?.sizes?.urls(for: target).first, url != data.url else { return }
        data = data.at(url)
    }

    /// The requests for the same picture from the URLs of its other sizes, the best first.
    func inOtherSizes(for target: TargetSize?) -> [ImageRequest] {
        let urls = givenOptions?.sizes?.urls(for: target).filter { $0 != data.url } ?? []
        return urls.map { url in
            var copy = with(\.data, data.at(url))
            copy.setSizes(nil)
            return copy
        }
    }
}
