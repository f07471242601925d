extension ImageProcessors {
    /// A processor that lays an enlarged, translucent copy of a picture over it. The middles of both are in the same
    /// place, and the result has the picture's size.
    ///
    /// ```swift
    /// let ghost = ImageRequest(url).processed(by: .soulOut(scale: 1.3, opacity: 0.4))
    /// ```
    public struct SoulOut: ImageProcessor, Hashable {
        /// The factor by which the copy is larger than the picture, at least 1.
        public let scale: Double
        /// The opacity of the copy, 0…1.
        public let opacity: Double

        /// Creates a processor.
        /// - Parameters:
        ///   - scale: the factor by which the copy is larger than the picture, at least 1.
        ///   - opacity: the opacity of the copy; a value outside 0…1 becomes the nearer bound, NaN becomes 1.
        public init(scale: Double = 1.5, opacity: Double = 0.5) {
            self.scale = scale
            self.opacity = opacity.isNaN ? 1 : min(max(opacity, 0), 1)
        }

        /// The identifier, for example `soulout(1.5,0.5)`.
        public var identifier: String { "soulout(\(scale),\(opacity))" }

        /// Returns the picture with the copy over it.
        /// - Throws: `DipperError.processingFailed` for a scale that is below 1 or not finite;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard scale >= 1, scale.isFinite else { throw .processingFailed }
            // Only the middle of the picture is enlarged: the rest of the copy would not be visible. Equal cuts on both
            // sides keep the copy in the middle.
            func visible(_ length: Int) -> Int { length - 2 * Int(Double(length) * (1 - 1 / scale) / 2) }
            let middle = try Crop(width: visible(image.width), height: visible(image.height)).process(image, context)
            return try Blend(Scale(by: scale).process(middle, context), opacity: opacity).process(image, context)
        }
    }
}
