/// Blends a picture with a colour or with another picture, in any of the modes there are.
///
/// The result has the picture's size. Around another picture that is smaller there is nothing, which counts as well: `.in`
/// leaves nothing there.
public struct Blend: ImageProcessor {
    /// Where the colour or the other picture is.
    public enum Side: String, Sendable, Hashable, CaseIterable {
        /// It is the source, the picture the backdrop.
        case above
        /// It is the backdrop, the picture the source.
        case below
    }

    private enum Layer {
        case color(Color)
        case image(Image, Anchor)
    }

    private let layer: Layer
    /// How the source is put on the backdrop.
    public let mode: BlendMode
    /// Of the source: its alpha is multiplied by it, 0…1.
    public let opacity: Double
    /// Which of both is the source.
    public let side: Side
    /// Such as `blend(multiply,above,1.0,ff0000ff)`; another picture is named by a digest of its pixels.
    public let identifier: String

    /// With a colour.
    /// - Parameters:
    ///   - color: everywhere.
    ///   - mode: how both become one.
    ///   - opacity: what is outside 0…1 is brought to the nearer end, and what is no number to 1.
    ///   - side: which of both is the source.
    public init(_ color: Color, _ mode: BlendMode = .over, opacity: Double = 1, side: Side = .above) {
        self.init(.color(color), color.identifier, mode, opacity, side)
    }

    /// With another picture, such as a watermark. Its pixels are read here, once, for the identifier.
    /// - Parameters:
    ///   - image: in its own size; what stands out is cut off.
    ///   - mode: how both become one.
    ///   - anchor: where it lies on the picture.
    ///   - opacity: what is outside 0…1 is brought to the nearer end, and what is no number to 1.
    ///   - side: which of both is the source.
    public init(
        _ image: Image, _ mode: BlendMode = .over, anchor: Anchor = .center, opacity: Double = 1,
        side: Side = .above
    ) {
        var image = image
        image.animation = nil
        let name = "\(image.size)-\(String(image.digest, radix: 16)),\(anchor.identifier)"
        self.init(.image(image, anchor), name, mode, opacity, side)
    }

    private init(_ layer: Layer, _ name: String, _ mode: BlendMode, _ opacity: Double, _ side: Side) {
        self.layer = layer
        self.mode = mode
        self.opacity = opacity.isNaN ? 1 : min(max(opacity, 0), 1)
        self.side = side
        identifier = "blend(\(mode.rawValue),\(side.rawValue),\(self.opacity),\(name))"
    }

    /// The processed picture.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
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

extension Blend: Hashable {
    /// Equal if the identifiers are.
    public static func == (a: Self, b: Self) -> Bool { a.identifier == b.identifier }
    public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }
}
