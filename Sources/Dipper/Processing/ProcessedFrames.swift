/// A decoder that processes each frame of another decoder when the caller asks for the frame.
final class ProcessedFrames: FrameDecoder {
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
