/// A value that makes a new picture from a picture.
///
/// ``ImageProcessors`` has the built-in processors. Each is also a static member of this protocol, and can be written
/// in short form where a processor is expected:
///
/// ```swift
/// let request = ImageRequest(url).processed(by: .downsample(width: 200, height: 150), .blur(10))
/// let processors: [any ImageProcessor] = [.circle, .border(.white, width: .points(2), radius: .fractionOfWidth(0.5))]
/// ```
public protocol ImageProcessor: Sendable {
    /// A text that differs for any two processors, or for any two sets of options. The text is part of the key under
    /// which the result is cached.
    var identifier: String { get }

    /// The size to which the picture may be decoded, if the processing begins with a change of size; `nil` by default.
    /// For the first processor of a request the decoder produces this size at once. A picture that the caller has
    /// added, that is in memory already, or that is a video's frame comes in its own size.
    var decodeTarget: TargetSize? { get }

    /// Whether the result depends on ``Image/scale``, as lengths in points do; `false` by default. If it does, the
    /// scale that a request asks for is part of the key.
    var usesScale: Bool { get }

    /// Returns the processed picture.
    ///
    /// A cache calls this method on a decoding thread. The frames of an animation are processed one by one, also on the
    /// thread that calls ``FrameDecoder/next()``; each frame comes without ``Image/animation``.
    ///
    /// The package's processors make a still of an animated picture's first frame, or return the picture if they change
    /// nothing. An ``ImageProcessors/Chain``, even of one processor, keeps the animation, and so do requests and
    /// ``Image/processed(by:limits:)``.
    /// - Throws: `DipperError.processingFailed`, `DipperError.imageTooLarge`, `DipperError.cancelled`. Any other error
    ///   counts as `DipperError.processingFailed`. The cache adds the identifier to the detail of the error.
    func process(_ image: Image, _ context: ProcessingContext) throws -> Image
}

extension ImageProcessor {
    /// No decode target: the picture is decoded in its own size.
    public var decodeTarget: TargetSize? { nil }
    /// `false`: the result does not depend on ``Image/scale``.
    public var usesScale: Bool { false }
}

extension ProcessingContext {
    func apply(_ processor: any ImageProcessor, to image: Image) throws(DipperError) -> Image {
        let end = onStep?(processor.identifier)
        do {
            let result = try processor.process(image, self)
            end?(nil)
            return result
        } catch {
            var error = DipperError(error, as: .processingFailed)
            if !error.isCancelled {
                let reason = error.detail.map { ": \($0)" } ?? ""
                error = error.with(detail: processor.identifier + reason)
            }
            end?(error)
            throw error
        }
    }
}

/// The built-in processors.
///
/// - Sizes and frames: ``Resize``, ``Scale``, ``Crop``, ``Fitting``.
/// - Orientation: ``Rotate``, ``Flip``.
/// - Shapes: ``RoundedCorners``, ``Circle``, ``Border``.
/// - Colours and filters: ``Blur``, ``ColorControls``, ``WhiteBalance``, ``Monochrome``, ``Tint``, ``Overlay``,
///   ``Blend``, ``Storyboard``, ``SoulOut``.
/// - Chains and closures: ``Chain``, ``Custom``.
///
/// Each of them throws `DipperError.imageTooLarge` for a result above the limits of its context, or if there is no
/// memory, and `DipperError.cancelled`.
public enum ImageProcessors {
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

        /// Creates a processor from a closure, which is called as ``ImageProcessor/process(_:_:)`` is, also for each
        /// frame of an animation. Another closure, or other settings of it, need another identifier.
        public init(
            _ identifier: String, usesScale: Bool = false,
            _ body: @escaping @Sendable (Image, ProcessingContext) throws -> Image
        ) {
            self.identifier = "custom(\(identifier))"
            self.usesScale = usesScale
            self.body = body
        }

        /// Returns the picture that the closure makes. Throws what the closure throws.
        public func process(_ image: Image, _ context: ProcessingContext) throws -> Image {
            try body(image, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Custom {
    /// Returns an ``ImageProcessors/Custom`` processor for a closure that the identifier names.
    public static func custom(
        _ identifier: String, usesScale: Bool = false,
        _ body: @escaping @Sendable (Image, ProcessingContext) throws -> Image
    ) -> Self {
        Self(identifier, usesScale: usesScale, body)
    }
}
