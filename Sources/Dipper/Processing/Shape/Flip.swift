/// Mirrors a picture; nothing is lost.
public enum Flip: String, ImageProcessor, Hashable, CaseIterable {
    /// Left and right are exchanged.
    case horizontal
    /// Top and bottom are exchanged.
    case vertical

    /// Such as `flip(horizontal)`.
    public var identifier: String { "flip(\(rawValue))" }

    /// The processed picture.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try image.turned(self == .horizontal ? .upMirrored : .downMirrored, context)
    }
}
