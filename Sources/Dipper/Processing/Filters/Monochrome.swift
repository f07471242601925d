/// Leaves shades of one colour: black and white, by default.
///
/// Each pixel becomes the colour times its brightness, 0.2126 red + 0.7152 green + 0.0722 blue of what is encoded.
public struct Monochrome: ImageProcessor, Hashable {
    /// What white becomes; its alpha does not count.
    public let color: Color
    /// 0 leaves the picture, 1 the shades; what is outside is brought to the nearer end.
    public let intensity: Double

    /// Black and white, by default.
    public init(color: Color = .white, intensity: Double = 1) {
        self.color = color
        self.intensity = intensity
    }

    /// Such as `monochrome(ffffffff,1.0)`.
    public var identifier: String { "monochrome(\(color.with(alpha: 1).identifier),\(intensity))" }

    /// The processed picture.
    /// - Throws: `DipperError.processingFailed` for an intensity that is no number; `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard !intensity.isNaN else { throw .processingFailed.with(detail: identifier) }
        let intensity = min(max(intensity, 0), 1)
        guard intensity > 0 else { return image }
        return try ColorMatrix(monochrome: color, intensity: intensity).apply(to: image, context)
    }
}
