extension ImageProcessors {
    /// A processor that applies several processors, one after the other.
    ///
    /// ```swift
    /// let avatar = ImageProcessors.Chain([.downsample(width: 96, height: 96, .fill), .circle])
    /// let request = ImageRequest(url).processed(by: avatar)
    /// ```
    public struct Chain: ImageProcessor {
        /// The processors in the order in which they are applied.
        public let processors: [any ImageProcessor]

        /// Creates a chain that applies processors in the given order. A chain among them is replaced by its
        /// processors.
        public init(_ processors: [any ImageProcessor]) {
            self.processors = processors.flatMap { ($0 as? Self)?.processors ?? [$0] }
        }

        /// The identifiers of the processors, with `|>` between them.
        public var identifier: String { processors.map(\.identifier).joined(separator: "|>") }
        /// The decode target of the first processor.
        public var decodeTarget: TargetSize? { processors.first?.decodeTarget }
        /// Whether the result of at least one processor depends on ``Image/scale``.
        public var usesScale: Bool { processors.contains(where: \.usesScale) }

        /// Returns the picture after all processors.
        ///
        /// An animated picture stays animated: its frames are processed when they are asked for. Frames that were
        /// decoded ahead are processed at once, as far as the limits allow.
        /// - Throws: what the processors throw; `DipperError.cancelled`.
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

        /// Returns one still picture or frame after all processors.
        func processStill(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            var image = image
            for processor in processors {
                try context.checkCancelled()
                image = try context.apply(processor, to: image)
            }
            return image
        }
    }
}

infix operator |> : AdditionPrecedence

/// Returns a chain that applies one processor, then another.
///
/// ```swift
/// let square = ImageProcessors.Downsample(width: 96, height: 96, .fill)
/// let avatar = square |> .circle |> .border(.white, width: 3, radius: 48)
/// let request = ImageRequest(url).processed(by: avatar)
/// ```
public func |> (first: some ImageProcessor, then: some ImageProcessor) -> ImageProcessors.Chain {
    ImageProcessors.Chain([first, then])
}
