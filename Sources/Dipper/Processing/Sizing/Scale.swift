extension ImageProcessors {
    /// A processor that changes width and height by a factor, with the filter of ``Resize``.
    ///
    /// ```swift
    /// let half = ImageRequest(url).processed(by: .scale(by: 0.5))
    /// ```
    public struct Scale: ImageProcessor, Hashable {
        /// The factor, which must be above 0. A factor above 1 makes the picture larger.
        public let factor: Double

        /// Creates a processor for a factor.
        public init(by factor: Double) {
            self.factor = factor
        }

        /// The identifier, for example `scale(0.5)`.
        public var identifier: String { "scale(\(factor))" }

        /// Returns the scaled picture. Its width and height are rounded to pixels, and at least 1.
        /// - Throws: `DipperError.processingFailed` for a factor that is not above 0 or not finite;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard factor > 0, factor.isFinite else { throw .processingFailed.with(detail: "scaled by \(factor)") }
            // No picture is this large. Without the bound, the conversion to `Int` could trap.
            func scaled(_ length: Int) -> Int { Int(min(max(1, (Double(length) * factor).rounded()), 0x1p31)) }
            let size = PixelSize(width: scaled(image.width), height: scaled(image.height))
            try context.limits.check(size)
            return try image.resized(to: size, context)
        }
    }
}
