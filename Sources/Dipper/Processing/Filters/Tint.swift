/// Lays a colour over a picture where the picture is; alpha stays. An opaque colour leaves the picture's form alone, which
/// is how icons of one colour are made.
public struct Tint: ImageProcessor, Hashable {
    /// Its alpha says how much of the picture it hides.
    public let color: Color

    /// With a colour.
    public init(_ color: Color) {
        self.color = color
    }

    /// Such as `tint(ff000080)`.
    public var identifier: String { "tint(\(color.identifier))" }

    /// The processed picture.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try Blend(color, .atop).process(image, context)
    }
}
