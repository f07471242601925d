/// Cuts the square in the middle out of a picture, and the circle out of it.
public struct Circle: ImageProcessor, Hashable {
    /// Behind the circle.
    public let background: Color

    /// Nothing behind it, by default.
    public init(background: Color = .clear) {
        self.background = background
    }

    /// Such as `circle(00000000)`.
    public var identifier: String { "circle(\(background.identifier))" }

    /// The processed picture.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        let side = min(image.width, image.height)
        let square = try Crop(width: side, height: side).process(image, context)
        return try RoundCorners(radius: .fractionOfWidth(0.5), background: background).process(square, context)
    }
}
