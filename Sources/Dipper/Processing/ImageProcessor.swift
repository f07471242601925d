/// Makes a picture of a picture: a value.
public protocol ImageProcessor: Sendable {
    /// Tells this processing from every other, options included; part of the key under which the result is cached.
    var identifier: String { get }

    /// If the processing begins with a change of size: the size. Where this is the first processor, the picture is
    /// decoded to it at once, and ``process(_:_:)`` is given one that has it already.
    var decodeTarget: TargetSize? { get }

    /// Whether the result depends on ``Image/scale``, as lengths in points do; by default not. The scale that a request
    /// asks for is then a part of the key.
    var usesScale: Bool { get }

    /// The processed picture. Called on a decoding thread, also for each frame of a picture that moves, which then comes
    /// without ``Image/animation``.
    ///
    /// A processor of the package that is called by itself with a picture that moves makes a still of its first frame, but
    /// for one that changes nothing, which gives the picture back as it is. A ``ProcessorChain``, of one processor too,
    /// keeps the movement, and so do requests.
    /// - Throws: `DipperError.processingFailed`, `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image
}

extension ImageProcessor {
    /// None.
    public var decodeTarget: TargetSize? { nil }
    /// False.
    public var usesScale: Bool { false }
}

/// What surrounds a processing.
public struct ProcessingContext: Sendable {
    /// The most that the result, and the way to it, may take.
    public var limits: DecodeLimits
    /// Asked now and then: true ends the work with `DipperError.cancelled`.
    public var isCancelled: @Sendable () -> Bool

    /// Without a way to cancel, by default.
    public init(limits: DecodeLimits = .init(), isCancelled: @escaping @Sendable () -> Bool = { false }) {
        self.limits = limits
        self.isCancelled = isCancelled
    }

    /// To be called every few rows.
    /// - Throws: `DipperError.cancelled`.
    public func checkCancelled() throws(DipperError) {
        if isCancelled() { throw .cancelled }
    }
}
