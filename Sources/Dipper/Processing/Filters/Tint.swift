extension ImageProcessors {
    /// A processor that lays a colour over the visible parts of a picture. The picture's alpha stays.
    ///
    /// An opaque colour leaves only the picture's shape: this makes icons of one colour.
    ///
    /// ```swift
    /// let icon = ImageRequest(url).processed(by: .tint(Color(hex: 0x0060df)))
    /// ```
    public struct Tint: ImageProcessor, Hashable {
        /// The colour that is laid over the picture. The colour's alpha says how much of the picture is hidden.
        public let color: Color

        /// Creates a processor for a colour.
        public init(_ color: Color) {
            self.color = color
        }

        /// The identifier, for example `tint(ff000080)`.
        public var identifier: String { "tint(\(color.identifier))" }

        /// Returns the picture with the colour over it.
        /// - Throws: `DipperError.imageTooLarge`; `DipperError.processingFailed` if there is no memory;
        ///   `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            try Blend(color, .atop).process(image, context)
        }
    }
}
