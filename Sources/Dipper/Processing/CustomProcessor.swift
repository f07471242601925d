/// A processor that is a closure.
///
/// ```swift
/// let left = CustomProcessor("left half") { image, context throws(DipperError) in
///     try Crop(width: image.width / 2, height: image.height, anchor: .left).process(image, context)
/// }
/// ```
public struct CustomProcessor: ImageProcessor {
    /// What it was given, as `custom(…)`.
    public let identifier: String
    /// Whether the result depends on ``Image/scale``.
    public let usesScale: Bool
    private let body: @Sendable (Image, ProcessingContext) throws(DipperError) -> Image

    /// - Parameters:
    ///   - identifier: tells this closure from every other, and from itself with other settings.
    ///   - usesScale: whether the result depends on ``Image/scale``.
    ///   - body: called on a decoding thread, also for each frame of a picture that moves.
    public init(
        _ identifier: String, usesScale: Bool = false,
        _ body: @escaping @Sendable (Image, ProcessingContext) throws(DipperError) -> Image
    ) {
        self.identifier = "custom(\(identifier))"
        self.usesScale = usesScale
        self.body = body
    }

    /// What the closure makes.
    /// - Throws: what the closure throws.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        try body(image, context)
    }
}
