import Foundation

/// The frames of a picture that moves, decoded when they are asked for.
public final class ImageAnimation: Sendable {
    /// Frames in the file.
    public let frameCount: Int
    /// How often all frames are shown; 0 for ever.
    public let loopCount: Int
    private let data: Data
    private let decoder: any ImageDecoder
    private let options: DecodeOptions
    /// What is made of each frame.
    private let chain: ProcessorChain?
    /// All frames, if they were decoded ahead.
    public let preloaded: [AnimationFrame]?

    init(
        frameCount: Int, loopCount: Int, data: Data, decoder: any ImageDecoder, options: DecodeOptions,
        preloaded: [AnimationFrame]? = nil, chain: ProcessorChain? = nil
    ) {
        self.frameCount = frameCount
        self.loopCount = loopCount
        self.data = data
        self.decoder = decoder
        self.options = options
        self.preloaded = preloaded
        self.chain = chain
    }

    /// What it takes in memory beside the picture itself, which is the first frame, in bytes.
    public var byteCount: Int {
        data.count + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.byteCount } ?? 0)
    }

    /// The same with what is taken beside the pixels.
    var footprint: Int {
        data.count + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.footprint } ?? 0)
    }

    /// The most that one frame may ask for.
    var limits: DecodeLimits { options.limits }

    /// Decodes the frames anew, from the first, each in the size of the picture, and processed like it.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    public func makeFrameDecoder() throws(DipperError) -> any FrameDecoder {
        try makeFrameDecoder(isCancelled: { false })
    }

    /// The same; decoding and processing are told to end.
    func makeFrameDecoder(isCancelled: @escaping @Sendable () -> Bool) throws(DipperError) -> any FrameDecoder {
        var options = options
        options.isCancelled = isCancelled
        guard let frames = try decoder.frames(of: data, options) else {
            throw .undecodable.with(detail: "there are no frames")
        }
        guard let chain else { return frames }
        return ProcessedFrames(frames, chain, ProcessingContext(limits: limits, isCancelled: isCancelled))
    }

    /// The same with one more processing for each frame.
    /// - Parameters:
    ///   - scale: of each frame before it is processed.
    ///   - first: the first frame, processed already.
    ///   - context: its limits are those of all frames that were decoded ahead; where they are not enough, frames are
    ///     decoded again when they are asked for.
    /// - Throws: what the processors throw for a frame that was decoded ahead.
    func processed(
        by chain: ProcessorChain, scale: Double, first: Image, _ context: ProcessingContext
    ) throws(DipperError) -> ImageAnimation {
        // Chains before this one had a scale of their own.
        let rescale = CustomProcessor("scale") { image, _ throws(DipperError) in image.at(scale: scale) }
        let chain = ProcessorChain([rescale, chain])
        var options = options
        options.limits = context.limits
        return ImageAnimation(
            frameCount: frameCount, loopCount: loopCount, data: data, decoder: decoder, options: options,
            preloaded: try processedAhead(by: chain, first: first, context),
            chain: ProcessorChain((self.chain?.processors ?? []) + [chain]))
    }

    private func processedAhead(
        by chain: ProcessorChain, first: Image, _ context: ProcessingContext
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

/// One frame as it is shown: what earlier ones left and this one draws.
public struct AnimationFrame: Sendable {
    /// The whole picture as it is to be seen.
    public let image: Image
    /// How long it is shown, as the file says.
    public let duration: Duration

    /// A frame that is shown for a while.
    public init(image: Image, duration: Duration) {
        self.image = image
        self.duration = duration
    }
}

/// Decodes the frames of one picture in order. For one thread at a time.
public protocol FrameDecoder: AnyObject {
    /// The next frame, of the whole picture's size; `nil` after the last.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`; what processors throw.
    func next() throws(DipperError) -> AnimationFrame?
    /// Begins with the first again.
    /// - Throws: `DipperError.undecodable`.
    func rewind() throws(DipperError)
}
