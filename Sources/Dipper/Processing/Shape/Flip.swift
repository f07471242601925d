extension ImageProcessors {
    /// A processor that mirrors a picture without loss.
    ///
    /// ```swift
    /// let mirrored = ImageRequest(url).processed(by: .flip(.horizontal))
    /// ```
    public enum Flip: String, ImageProcessor, Hashable, CaseIterable {
        /// A flip that exchanges left and right.
        case horizontal
        /// A flip that exchanges top and bottom.
        case vertical

        /// The identifier, for example `flip(horizontal)`.
        public var identifier: String { "flip(\(rawValue))" }

        /// Returns the mirrored picture.
        /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try image.turned(self == .horizontal ? .upMirrored : .downMirrored, context)
        }
    }
}
