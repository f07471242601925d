import CXXHash

extension ImageProcessors {
    /// A processor that blends a picture with a colour or another picture, in any ``Mode``. The result has the
    /// picture's size. The area around a smaller other picture counts as transparent: `.in` leaves nothing there.
    ///
    /// ```swift
    /// let watermarked = ImageRequest(url).processed(by: .blend(image, anchor: .bottomRight, opacity: 0.6))
    /// let darker = ImageRequest(url).processed(by: .blend(.black.with(alpha: 0.4), .multiply))
    /// ```
    public struct Blend: ImageProcessor, Hashable {
        /// The position of the colour or of the other picture.
        public enum Side: String, Sendable, Hashable, CaseIterable {
            /// The colour or the other picture is the source, and the picture is the backdrop.
            case above
            /// The colour or the other picture is the backdrop, and the picture is the source.
            case below
        }

        enum Layer {
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

        /// Creates a processor that blends pictures with a colour. The opacity is clamped to 0…1; NaN becomes 1.
        public init(_ color: Color, _ mode: Mode = .over, opacity: Double = 1, side: Side = .above) {
            self.init(.color(color), color.identifier, mode, opacity, side)
        }

        /// Creates a processor that blends pictures with another picture, such as a watermark, in its own size; parts
        /// outside are cut off. The opacity is clamped to 0…1; NaN becomes 1. Reads the other picture's pixels once.
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
            self.opacity = opacity.limited(nan: 1)
            self.side = side
            identifier = "blend(\(mode.rawValue),\(side.rawValue),\(self.opacity),\(name))"
        }

        /// Returns the blended picture.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try context.limits.checkMemory(image.size)
            let own = Layer.image(image, .topLeft)
            let (source, backdrop) = side == .above ? (layer, own) : (own, layer)
            let buffer = try PixelBuffer(image.size)
            try buffer.composite(.source, backdrop, context)
            try buffer.composite(mode, source, opacity: opacity, context)
            return buffer.settled(scale: image.scale)
        }

        public static func == (a: Self, b: Self) -> Bool { a.identifier == b.identifier }
        public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }

        /// A way to put a source on a backdrop (W3C Compositing and Blending Level 1; PDF 1.7, section 11).
        public enum Mode: String, Sendable, Hashable, CaseIterable {
            // Porter and Duff's operators, which choose the parts of source and backdrop that stay.

            /// Nothing: the result is transparent.
            case clear
            /// The source alone.
            case source
            /// The backdrop alone.
            case destination
            /// The source on the backdrop.
            case over
            /// The backdrop on the source.
            case destinationOver
            /// The source, only where the backdrop is.
            case `in`
            /// The backdrop, only where the source is.
            case destinationIn
            /// The source, only where the backdrop is not.
            case out
            /// The backdrop, only where the source is not.
            case destinationOut
            /// The source on the backdrop, where the backdrop is.
            case atop
            /// The backdrop on the source, where the source is.
            case destinationAtop
            /// The source where the backdrop is not, and the backdrop where the source is not.
            case xor
            /// The sum of source and backdrop, at most white.
            case plus

            // Separable modes, which mix one colour component at a time where both overlap; elsewhere like `over`.

            /// The product of both colours, which is at least as dark as each.
            case multiply
            /// The inverse of the product of both inverse colours, which is at least as light as each.
            case screen
            /// The result of `multiply` or `screen`, depending on the backdrop.
            case overlay
            /// The darker one of both colours.
            case darken
            /// The lighter one of both colours.
            case lighten
            /// The backdrop made lighter by the source.
            case colorDodge
            /// The backdrop made darker by the source.
            case colorBurn
            /// The result of `multiply` or `screen`, depending on the source.
            case hardLight
            /// The backdrop made darker or lighter, depending on the source.
            case softLight
            /// The lighter colour minus the darker colour.
            case difference
            /// The result of `difference`, with less contrast.
            case exclusion

            // Non-separable modes, which mix all three colour components together.

            /// The hue of the source, the saturation and luminosity of the backdrop.
            case hue
            /// The saturation of the source, the hue and luminosity of the backdrop.
            case saturation
            /// Hue and saturation of the source, the luminosity of the backdrop.
            case color
            /// The luminosity of the source, hue and saturation of the backdrop.
            case luminosity
        }
    }

    /// A processor that lays a colour over the visible parts of a picture. The picture's alpha stays. An opaque colour
    /// leaves only the picture's shape: this makes icons of one colour.
    public struct Tint: ImageProcessor, Hashable {
        /// The colour that is laid over the picture. The colour's alpha says how much of the picture is hidden.
        public let color: Color

        /// Creates a processor for a colour.
        public init(_ color: Color) {
            self.color = color
        }

        /// The identifier, for example `tint(ff000080)`.
        public var identifier: String { "tint(\(color.identifier))" }

        /// Returns the picture with the colour over it.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try Blend(color, .atop).process(image, context)
        }
    }

    /// A processor like ``Tint`` that lets a fraction of the picture through the colour.
    public struct Overlay: ImageProcessor, Hashable {
        /// The colour that is laid over the picture.
        public let color: Color
        /// The fraction of the picture that shows: at 0 only what the colour's own alpha lets through, at 1 everything.
        public let fraction: Double

        /// Creates a processor, which by default lets half through. The fraction is clamped to 0…1; NaN becomes 0.
        public init(_ color: Color, fraction: Double = 0.5) {
            self.color = color
            self.fraction = fraction.limited(nan: 0)
        }

        /// The identifier, for example `overlay(ff0000ff,0.5)`.
        public var identifier: String { "overlay(\(color.identifier),\(fraction))" }

        /// Returns the picture with the colour over it.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try Tint(color.with(alpha: color.alpha * (1 - fraction))).process(image, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Blend {
    /// Returns an ``ImageProcessors/Blend`` processor that blends pictures with a colour.
    public static func blend(
        _ color: Color, _ mode: ImageProcessors.Blend.Mode = .over, opacity: Double = 1,
        side: ImageProcessors.Blend.Side = .above
    ) -> Self {
        Self(color, mode, opacity: opacity, side: side)
    }

    /// Returns an ``ImageProcessors/Blend`` processor that blends pictures with another picture.
    public static func blend(
        _ image: Image, _ mode: ImageProcessors.Blend.Mode = .over, anchor: ImageProcessors.Anchor = .center,
        opacity: Double = 1,
        side: ImageProcessors.Blend.Side = .above
    ) -> Self {
        Self(image, mode, anchor: anchor, opacity: opacity, side: side)
    }
}

extension Image {
    /// Equal in every run and on every machine.
    fileprivate var digest: UInt64 {
        var digest = UInt64(truncatingIfNeeded: width) << 32 ^ UInt64(truncatingIfNeeded: height)
        for y in 0..<height { digest = dipper_xxh3_seeded(row(y), width * 4, digest) }
        return digest
    }
}

extension ImageProcessor where Self == ImageProcessors.Tint {
    /// Returns an ``ImageProcessors/Tint`` processor.
    public static func tint(_ color: Color) -> Self { Self(color) }
}

extension ImageProcessor where Self == ImageProcessors.Overlay {
    /// Returns an ``ImageProcessors/Overlay`` processor.
    public static func overlay(_ color: Color, fraction: Double = 0.5) -> Self { Self(color, fraction: fraction) }
}
