/// Brings a picture to the size it is displayed in. As the first of a chain it is done while decoding, where formats
/// offer cheap ways to smaller sizes, and rows need not be kept in the picture's own size.
public struct Downsample: ImageProcessor, Hashable {
    /// The size, and how other proportions are brought to it.
    public let target: TargetSize

    /// To a size for pictures of any size.
    public init(to target: TargetSize) {
        self.target = target
    }

    /// To a size in pixels.
    public init(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) {
        self.init(to: TargetSize(PixelSize(width: width, height: height), mode))
    }

    /// Such as `downsample(400x300,fit)`.
    public var identifier: String { "downsample(\(target.identifier))" }

    /// ``target``.
    public var decodeTarget: TargetSize? { target }

    /// A picture that has the size already is given back as it is.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try image.resized(to: target.size(for: image.size), context)
    }
}
