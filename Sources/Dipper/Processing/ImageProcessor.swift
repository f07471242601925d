/// Makes a picture of a picture: a value.
public protocol ImageProcessor: Sendable {
    /// Tells this processing from every other, options included; part of the key under which the result is cached.
    var identifier: String { get }

    /// If the processing begins with a change of size: the size. Where this is the first processor, the picture is
    /// decoded to it at once, and ``process(_:_:)`` is given one that has it already.
    var decodeTarget: TargetSize? { get }

    /// The processed picture. Called on a decoding thread.
    /// - Throws: `DipperError.processingFailed`, `DipperError.cancelled`.
    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image
}

extension ImageProcessor {
    public var decodeTarget: TargetSize? { nil }
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

/// One processor after the other.
public struct ProcessorChain: ImageProcessor {
    /// In the order they are applied.
    public let processors: [any ImageProcessor]

    /// In this order.
    public init(_ processors: [any ImageProcessor]) {
        self.processors = processors.flatMap { ($0 as? ProcessorChain)?.processors ?? [$0] }
    }

    /// Those of its processors, with `|>` between them.
    public var identifier: String { processors.map(\.identifier).joined(separator: "|>") }
    /// That of its first processor.
    public var decodeTarget: TargetSize? { processors.first?.decodeTarget }

    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        var image = image
        for processor in processors {
            try context.checkCancelled()
            image = try processor.process(image, context)
        }
        return image
    }
}

infix operator |> : AdditionPrecedence

/// One processor, then the other.
public func |> (first: some ImageProcessor, then: some ImageProcessor) -> ProcessorChain {
    ProcessorChain([first, then])
}

/// A chain, then one more.
public func |> (first: ProcessorChain, then: some ImageProcessor) -> ProcessorChain {
    ProcessorChain(first.processors + [then])
}
