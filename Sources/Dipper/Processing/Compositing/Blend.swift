extension ImageProcessors {
    /// A processor that blends a picture with a colour or with another picture, in any ``Mode``.
    ///
    /// The result has the picture's size. The area around a smaller other picture counts as transparent: for example,
    /// `.in` leaves nothing there.
    ///
    /// ```swift
    /// let watermarked = ImageRequest(url).processed(by: .blend(image, anchor: .bottomRight, opacity: 0.6))
    /// let darker = ImageRequest(url).processed(by: .blend(.black.with(alpha: 0.4), .multiply))
    /// ```
    public struct Blend: ImageProcessor {
        /// The position of the colour or of the other picture.
        public enum Side: String, Sendable, Hashable, CaseIterable {
            /// The colour or the other picture is the source, and the picture is the backdrop.
            case above
            /// The colour or the other picture is the backdrop, and the picture is the source.
            case below
        }

        private enum Layer {
            case color(Color)
            case image(Image, Anchor)
        }

        private let layer: Layer
        /// The mode in which the source is put on the backdrop.
        public let mode: Mode
        /// The opacity of the source, 0…1, by which the source's alpha is multiplied.
        public let opacity: Double
        /// The position of the colour or of the other picture, which decides which of the two is the source.
        public let side: Side
        /// The identifier, for example `blend(multiply,above,1.0,ff0000ff)`. For another picture it ends with the
        /// picture's size, a digest of its pixels, and its anchor.
        public let identifier: String

        /// Creates a processor that blends pictures with a colour.
        /// - Parameters:
        ///   - color: the colour, which is the same everywhere.
        ///   - mode: the mode in which the source is put on the backdrop.
        ///   - opacity: the opacity of the source; a value outside 0…1 becomes the nearer bound, NaN becomes 1.
        ///   - side: whether the colour is the source or the backdrop.
        public init(_ color: Color, _ mode: Mode = .over, opacity: Double = 1, side: Side = .above) {
            self.init(.color(color), color.identifier, mode, opacity, side)
        }

        /// Creates a processor that blends pictures with another picture, such as a watermark.
        ///
        /// The initializer reads the other picture's pixels once, for the identifier.
        /// - Parameters:
        ///   - image: the other picture, in its own size; parts outside the processed picture are cut off.
        ///   - mode: the mode in which the source is put on the backdrop.
        ///   - anchor: the place of the other picture on the processed picture.
        ///   - opacity: the opacity of the source; a value outside 0…1 becomes the nearer bound, NaN becomes 1.
        ///   - side: whether the other picture is the source or the backdrop.
        public init(
            _ image: Image, _ mode: Mode = .over, anchor: Anchor = .center, opacity: Double = 1,
            side: Side = .above
        ) {
            var image = image
            image.animation = nil
            let name = "\(image.size)-\(String(image.digest, radix: 16)),\(anchor.identifier)"
            self.init(.image(image, anchor), name, mode, opacity, side)
        }

        private init(_ layer: Layer, _ name: String, _ mode: Mode, _ opacity: Double, _ side: Side) {
            self.layer = layer
            self.mode = mode
            self.opacity = opacity.isNaN ? 1 : min(max(opacity, 0), 1)
            self.side = side
            identifier = "blend(\(mode.rawValue),\(side.rawValue),\(self.opacity),\(name))"
        }

        /// Returns the blended picture.
        /// - Throws: `DipperError.imageTooLarge`; `DipperError.processingFailed` if there is no memory;
        ///   `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try context.limits.checkMemory(image.size)
            let own = CompositingLayer.image(image, x: 0, y: 0)
            let other: CompositingLayer
            switch layer {
            case .color(let color): other = .color(color.premultiplied)
            case .image(let picture, let anchor):
                let (x, y) = anchor.offset(of: picture.size, in: image.size)
                other = .image(picture, x: x, y: y)
            }
            let (source, backdrop) = side == .above ? (other, own) : (own, other)
            let buffer = try PixelBuffer(image.size)
            try buffer.composite(.source, backdrop, opacity: 1, context)
            try buffer.composite(mode, source, opacity: opacity, context)
            return buffer.settled(scale: image.scale)
        }
    }
}

extension ImageProcessors.Blend: Hashable {
    /// Returns whether two processors have equal identifiers.
    public static func == (a: Self, b: Self) -> Bool { a.identifier == b.identifier }
    public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }
}
