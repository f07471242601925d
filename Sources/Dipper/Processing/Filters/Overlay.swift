extension ImageProcessors {
    /// A processor that lays a colour over the visible parts of a picture and lets a fraction of the picture through.
    /// The picture's alpha stays.
    ///
    /// ```swift
    /// let dimmed = ImageRequest(url).processed(by: .overlay(.black, fraction: 0.6))
    /// ```
    public struct Overlay: ImageProcessor, Hashable {
        /// The colour that is laid over the picture.
        public let color: Color
        /// The fraction of the picture that shows: at 0 only what the colour's own alpha lets through, at 1 everything.
        public let fraction: Double

        /// Creates a processor that by default lets half of the picture through.
        /// - Parameters:
        ///   - color: the colour that is laid over the picture.
        ///   - fraction: the fraction of the picture that shows; a value outside 0…1 becomes the nearer bound, NaN
        ///     becomes 0.
        public init(_ color: Color, fraction: Double = 0.5) {
            self.color = color
            self.fraction = fraction.isNaN ? 0 : min(max(fraction, 0), 1)
        }

        /// The identifier, for example `overlay(ff0000ff,0.5)`.
        public var identifier: String { "overlay(\(color.identifier),\(fraction))" }

        /// Returns the picture with the colour over it.
        /// - Throws: `DipperError.imageTooLarge`; `DipperError.processingFailed` if there is no memory;
        ///   `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try Tint(color.with(alpha: color.alpha * (1 - fraction))).process(image, context)
        }
    }
}
