extension ImageProcessors {
    /// A processor that leaves shades of one colour, by default black and white.
    ///
    /// Each pixel becomes the colour times the pixel's brightness, which is 0.2126 red + 0.7152 green + 0.0722 blue of
    /// the encoded values.
    ///
    /// ```swift
    /// let grey = ImageRequest(url).processed(by: .monochrome)
    /// let sepia = ImageRequest(url).processed(by: .monochrome(Color(hex: 0xffd0a0), intensity: 0.8))
    /// ```
    public struct Monochrome: ImageProcessor, Hashable {
        /// The colour that white becomes. Its alpha is ignored.
        public let color: Color
        /// The share of the shades in the result: 0 leaves the picture, 1 only the shades. A value outside 0…1 becomes
        /// the nearer bound.
        public let intensity: Double

        /// Creates a processor, by default for black and white.
        public init(_ color: Color = .white, intensity: Double = 1) {
            self.color = color
            self.intensity = intensity
        }

        /// The identifier, for example `monochrome(ffffffff,1.0)`.
        public var identifier: String { "monochrome(\(color.with(alpha: 1).identifier),\(intensity))" }

        /// Returns the picture in shades of the colour.
        /// - Throws: `DipperError.processingFailed` for an intensity that is NaN; `DipperError.imageTooLarge`,
        ///   `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard !intensity.isNaN else { throw .processingFailed }
            let intensity = min(max(intensity, 0), 1)
            guard intensity > 0 else { return image }
            return try ColorMatrix(monochrome: color, intensity: intensity).apply(to: image, context)
        }
    }
}
