extension ImageProcessors {
    /// A processor that applies several processors, one after the other.
    public struct Chain: ImageProcessor {
        /// The processors in the order in which they are applied.
        public let processors: [any ImageProcessor]

        /// Creates a chain that applies processors in order. A chain among them is replaced by its processors.
        public init(_ processors: [any ImageProcessor]) {
            self.processors = processors.flatMap { ($0 as? Self)?.processors ?? [$0] }
        }

        /// The identifiers of the processors, with `|>` between them.
        public var identifier: String { processors.map(\.identifier).joined(separator: "|>") }
        public var decodeTarget: TargetSize? { processors.first?.decodeTarget }
        public var usesScale: Bool { processors.contains(where: \.usesScale) }

        /// Returns the picture after all processors. An animated picture stays animated: its frames are processed when
        /// they are asked for. Frames that were decoded ahead are processed at once, as far as the limits allow.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard !processors.isEmpty else { return image }
            var still = image
            still.animation = nil
            var result = try processStill(still, context)
            // A processor may have made an animation of its own, which stays.
            if result.animation == nil, let animation = image.animation {
                result.animation = try animation.processed(by: self, scale: image.scale, first: result, context)
            }
            return result
        }

        fileprivate func processStill(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            var image = image
            for processor in processors {
                try context.checkCancelled()
                image = try context.apply(processor, to: image)
            }
            return image
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.Chain {
    /// Returns an ``ImageProcessors/Chain`` that applies processors in the given order.
    public static func chain(_ processors: [any ImageProcessor]) -> Self { Self(processors) }
}

extension Image {
    /// Returns the picture after some processors, in order, on the caller's thread. An animated picture stays animated:
    /// its frames are processed when they are asked for.
    ///
    /// ```swift
    /// let avatar = try image.processed(by: .downsample(width: 96, height: 96, .fill), .circle)
    /// ```
    /// - Throws: `DipperError.processingFailed`, `DipperError.imageTooLarge`, with the processor's identifier.
    public func processed(
        by processors: any ImageProcessor..., limits: DecodeLimits = .init()
    ) throws(DipperError) -> Image {
        try ImageProcessors.Chain(processors).process(self, ProcessingContext(limits: limits))
    }
}

infix operator |> : AdditionPrecedence

/// Returns a chain that applies one processor, then another.
///
/// ```swift
/// let square = ImageProcessors.Fitting(width: 96, height: 96, .aspectFill)
/// let avatar = square |> .circle |> .border(.white, width: 3, radius: 48)
/// ```
public func |> (first: some ImageProcessor, then: some ImageProcessor) -> ImageProcessors.Chain {
    ImageProcessors.Chain([first, then])
}

extension ImageAnimation {
    /// Returns an animation whose frames, but for the first, are processed further. Throws what the processors throw
    /// for a frame that was decoded ahead. Each frame is given the scale before. The limits hold for all frames that
    /// were decoded ahead together; above the limit in bytes, frames are decoded when they are needed.
    fileprivate func processed(
        by chain: ImageProcessors.Chain, scale: Double, first: Image, _ context: ProcessingContext
    ) throws(DipperError) -> ImageAnimation {
        // The frames of an earlier chain may have another scale.
        let rescale = ImageProcessors.Custom("scale") { image, _ throws(DipperError) in image.at(scale: scale) }
        let chain = ImageProcessors.Chain([rescale, chain])
        let preloaded = try processedAhead(by: chain, first: first, context)
        return ImageAnimation(
            frameCount: frameCount, loopCount: loopCount, loopDuration: loopDuration, fileSize: fileSize,
            storedSize: storedSize, limits: context.limits, preloaded: preloaded
        ) { [makeDecoder] context throws(DipperError) in
            ProcessedFrames(try makeDecoder(context), chain, context)
        }
    }

    private func processedAhead(
        by chain: ImageProcessors.Chain, first: Image, _ context: ProcessingContext
    ) throws(DipperError) -> [AnimationFrame]? {
        guard let preloaded, let start = preloaded.first else { return nil }
        let (bytes, overflows) = first.byteCount.multipliedReportingOverflow(by: preloaded.count)
        guard !overflows, bytes <= context.limits.bytes else { return nil }
        var frames = [AnimationFrame(image: first, duration: start.duration)]
        for frame in preloaded.dropFirst() {
            try context.checkCancelled()
            let image = try chain.processStill(frame.image, context)
            frames.append(AnimationFrame(image: image, duration: frame.duration))
        }
        return frames
    }
}

private final class ProcessedFrames: FrameDecoder {
    private let frames: any FrameDecoder
    private let chain: ImageProcessors.Chain
    private let context: ProcessingContext

    init(_ frames: any FrameDecoder, _ chain: ImageProcessors.Chain, _ context: ProcessingContext) {
        self.frames = frames
        self.chain = chain
        self.context = context
    }

    func next() throws(DipperError) -> AnimationFrame? {
        guard let frame = try frames.next() else { return nil }
        return AnimationFrame(image: try chain.processStill(frame.image, context), duration: frame.duration)
    }

    func rewind() throws(DipperError) { try frames.rewind() }
}
