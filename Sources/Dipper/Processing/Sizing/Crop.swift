extension ImageProcessors {
    /// A processor that cuts a part out of a picture.
    ///
    /// Use a resizing processor first to cover a size and cut off the rest:
    ///
    /// ```swift
    /// let square = ImageRequest(url)
    ///     .processed(by: .downsample(width: 200, height: 200, .fill))
    ///     .processed(by: .crop(width: 200, height: 200))
    /// ```
    public struct Crop: ImageProcessor, Hashable {
        private enum Area: Hashable {
            case size(PixelSize, Anchor)
            case ratio(Double, Anchor)
            case rectangle(PixelRect)
        }

        private let area: Area

        /// Creates a processor that crops pictures to a size in pixels. A side that is shorter already keeps its
        /// length.
        /// - Parameters:
        ///   - width: the width in pixels.
        ///   - height: the height in pixels.
        ///   - anchor: the point of the picture that stays in place. The cuts on opposite sides are in proportion to
        ///     it: `.center` cuts equally, `.top` only at the bottom.
        public init(width: Int, height: Int, anchor: Anchor = .center) {
            area = .size(PixelSize(width: width, height: height), anchor)
        }

        /// Creates a processor that crops pictures to proportions. The result is the largest part with these proportions,
        /// in the picture's own resolution.
        ///
        /// ```swift
        /// let wide = ImageRequest(url).processed(by: .crop(toRatio: 16 / 9))
        /// ```
        /// - Parameters:
        ///   - ratio: the width divided by the height, which must be above 0.
        ///   - anchor: the point of the picture that stays in place.
        public init(toRatio ratio: Double, anchor: Anchor = .center) {
            area = .ratio(ratio, anchor)
        }

        /// Creates a processor that crops pictures to a rectangle. Parts of the rectangle outside the picture are left
        /// out.
        public init(to rectangle: PixelRect) {
            area = .rectangle(rectangle)
        }

        /// The identifier, for example `crop(200x200,0.5:0.5)`, `crop(1.5,0.5:0.5)` or `crop(200x200+10+20)`.
        public var identifier: String {
            switch area {
            case .size(let size, let anchor): "crop(\(size),\(anchor.identifier))"
            case .ratio(let ratio, let anchor): "crop(\(ratio),\(anchor.identifier))"
            case .rectangle(let rectangle): "crop(\(rectangle))"
            }
        }

        /// Returns the part of the picture, or the picture itself if nothing is cut off.
        /// - Throws: `DipperError.processingFailed` if nothing would be left, or for a ratio that is not above 0 or not
        ///   finite; `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let rectangle: PixelRect? =
                switch area {
                case .rectangle(let rectangle): rectangle.clipped(to: image.size)
                case .size(let size, let anchor): Self.rectangle(of: size, anchor, in: image.size)
                case .ratio(let ratio, let anchor):
                    Self.rectangle(of: Self.size(of: ratio, in: image.size), anchor, in: image.size)
                }
            guard let rectangle else { throw .processingFailed.with(detail: "nothing is left of \(image.size)") }
            return try image.part(rectangle.size, x: rectangle.x, y: rectangle.y, context)
        }

        /// Returns the size of the largest part with a ratio, at least one pixel in each direction; an empty size for an
        /// invalid ratio.
        private static func size(of ratio: Double, in picture: PixelSize) -> PixelSize {
            guard ratio > 0, ratio.isFinite else { return PixelSize(width: 0, height: 0) }
            func length(_ wanted: Double, _ limit: Int) -> Int { Int(min(max(1, wanted.rounded()), Double(limit))) }
            return PixelSize(
                width: length(Double(picture.height) * ratio, picture.width),
                height: length(Double(picture.width) / ratio, picture.height))
        }

        private static func rectangle(of size: PixelSize, _ anchor: Anchor, in picture: PixelSize) -> PixelRect? {
            guard !size.isEmpty else { return nil }
            let size = PixelSize(width: min(size.width, picture.width), height: min(size.height, picture.height))
            let (x, y) = anchor.offset(of: size, in: picture)
            return PixelRect(x: x, y: y, width: size.width, height: size.height)
        }
    }
}
