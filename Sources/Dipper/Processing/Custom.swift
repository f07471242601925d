extension ImageProcessors {
    /// A processor that is a closure.
    ///
    /// ```swift
    /// let left = ImageProcessors.Custom("left half") { image, context in
    ///     let half = ImageProcessors.Crop(width: image.width / 2, height: image.height, anchor: .left)
    ///     return try half.process(image, context)
    /// }
    /// let request = ImageRequest(url).processed(by: left)
    /// ```
    public struct Custom: ImageProcessor {
        /// The identifier that the initializer was given, in the form `custom(…)`.
        public let identifier: String
        /// Whether the result depends on ``Image/scale``.
        public let usesScale: Bool
        private let body: @Sendable (Image, ProcessingContext) throws -> Image

        /// Creates a processor from a closure.
        /// - Parameters:
        ///   - identifier: identifies the closure and its settings: another closure, or other settings, need another
        ///     identifier.
        ///   - usesScale: whether the result depends on ``Image/scale``.
        ///   - body: makes the new picture; called as ``ImageProcessor/process(_:_:)`` is, also for each frame of an
        ///     animation.
        public init(
            _ identifier: String, usesScale: Bool = false,
            _ body: @escaping @Sendable (Image, ProcessingContext) throws -> Image
        ) {
            self.identifier = "custom(\(identifier))"
            self.usesScale = usesScale
            self.body = body
        }

        /// Returns the picture that the closure makes.
        /// - Throws: what the closure throws.
        public func process(_ image: Image, _ context: ProcessingContext) throws -> Image {
            try body(image, context)
        }
    }
}
