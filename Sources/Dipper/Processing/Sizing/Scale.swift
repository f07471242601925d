/// Changes width and height by a factor, with the filter of ``Resize``.
public struct Scale: ImageProcessor, Hashable {
    /// More than 0; above 1 the picture grows.
    public let factor: Double

    /// By a factor.
    public init(by factor: Double) {
        self.factor = factor
    }

    /// Such as `scale(0.5)`.
    public var identifier: String { "scale(\(factor))" }

    /// Both sides are rounded, and at least one pixel.
    /// - Throws: `DipperError.processingFailed` for a factor that is not above 0; `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard factor > 0, factor.isFinite else { throw .processingFailed.with(detail: "scaled by \(factor)") }
        // No picture is as large.
        func scaled(_ length: Int) -> Int { Int(min(max(1, (Double(length) * factor).rounded()), 0x1p31)) }
        let size = PixelSize(width: scaled(image.width), height: scaled(image.height))
        try context.limits.check(size)
        return try image.resized(to: size, context)
    }
}
