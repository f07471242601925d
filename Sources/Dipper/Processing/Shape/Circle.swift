extension ImageProcessors {
    /// A processor that cuts the largest circle out of the middle of a picture. The result is square.
    ///
    /// ```swift
    /// let avatar = ImageRequest(url).processed(by: .circle)
    /// ```
    public struct Circle: ImageProcessor, Hashable {
        /// The colour behind the circle.
        public let background: Color

        /// Creates a processor, by default with a transparent background.
        public init(background: Color = .clear) {
            self.background = background
        }

        /// The identifier, for example `circle(00000000)`.
        public var identifier: String { "circle(\(background.identifier))" }

        /// Returns the circle on the background.
        /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            let side = min(image.width, image.height)
            let square = try Crop(width: side, height: side).process(image, context)
            return try RoundedCorners(radius: .fractionOfWidth(0.5), background: background).process(square, context)
        }
    }
}
