/// Lays a colour over a picture where the picture is, letting a fraction of the picture through; alpha stays.
public struct Overlay: ImageProcessor, Hashable {
    /// Of the layer.
    public let color: Color
    /// 0 lets nothing through but what the colour's own alpha does, 1 hides nothing.
    public let fraction: Double

    /// Half of the picture comes through, by default.
    /// - Parameters:
    ///   - color: of the layer.
    ///   - fraction: what is outside 0…1 is brought to the nearer end, and what is no number to 0.
    public init(_ color: Color, fraction: Double = 0.5) {
        self.color = color
        self.fraction = fraction.isNaN ? 0 : min(max(fraction, 0), 1)
    }

    /// Such as `overlay(ff0000ff,0.5)`.
    public var identifier: String { "overlay(\(color.identifier),\(fraction))" }

    /// The processed picture.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try Tint(color.with(alpha: color.alpha * (1 - fraction))).process(image, context)
    }
}
