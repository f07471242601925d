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
    /// True if one of its processors does.
    public var usesScale: Bool { processors.contains(where: \.usesScale) }

    /// The processed picture. One that moves goes on moving: its frames are processed when they are asked for, those
    /// that were decoded ahead at once, as far as the limits allow.
    /// - Throws: what its processors throw.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard !processors.isEmpty else { return image }
        var still = image
        still.animation = nil
        var result = try processStill(still, context)
        // Unless a processor has made a movement of its own.
        if result.animation == nil, let animation = image.animation {
            result.animation = try animation.processed(by: self, scale: image.scale, first: result, context)
        }
        return result
    }

    /// The same for one frame.
    func processStill(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
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
