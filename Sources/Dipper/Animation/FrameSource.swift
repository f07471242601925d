/// Decodes and processes the frames of one animation in order, on threads that all players share.
// Safe to share: one thread at a time uses the decoder and the position, because a player requests the next frame only
// when it has the one before, and both pass through locks.
final class FrameSource: @unchecked Sendable {
    typealias Decoded = AnimationSchedule.Decoded

    /// Few threads, whatever the number of players. Each task decodes one frame, so that players take turns.
    private static let threads = Workers(name: "dipper-frames", threads: 2)

    private let animation: ImageAnimation
    private let scale: Double
    private let options: AnimationOptions
    private let context: ProcessingContext
    private let cancellation: Cancellation
    private var decoder: (any FrameDecoder)?
    private var position = 0
    private var toSkip: Int
    /// The frames of this pass from its first on, as long as they fit into the player's buffer; or all frames, if they
    /// were decoded ahead and are not processed.
    private var kept: [AnimationSchedule.Frame] = []
    /// Whether all frames are kept, so that none is decoded again.
    private var isWhole = false

    init(_ animation: ImageAnimation, scale: Double, skipping: Int, _ options: AnimationOptions) {
        self.animation = animation
        self.scale = scale
        self.options = options
        let cancellation = Cancellation()
        self.cancellation = cancellation
        context = ProcessingContext(limits: animation.limits) { cancellation.isSet }
        toSkip = skipping
        guard options.processors.isEmpty, let frames = animation.preloaded else { return }
        for frame in frames { kept.append(self.frame(kept.count, frame.image.at(scale: scale), frame.duration)) }
        (position, toSkip, isWhole) = (skipping, 0, true)
    }

    func abandon() { cancellation.set() }

    /// Must not be called again before the frame is there, which may be at once.
    func decodeNext(_ bring: @escaping @Sendable (Decoded) -> Void) {
        if isWhole, position < kept.count {
            position += 1
            return bring(.frame(kept[position - 1]))
        }
        Self.threads.run { [self] in
            guard !cancellation.isSet else { return }
            if let result = step() {
                bring(result)
            } else {
                decodeNext(bring)
            }
        }
    }

    /// `nil` if a frame was skipped.
    private func step() -> Decoded? {
        do throws(DipperError) {
            guard !isWhole, let frame = try nextFrame() else {
                isWhole = kept.count == position
                if !isWhole { kept = [] }
                (position, toSkip) = (0, 0)
                return .passEnd
            }
            position += 1
            guard toSkip == 0 else {
                toSkip -= 1
                return nil
            }
            var image = frame.image.at(scale: scale)
            for processor in options.processors { image = try context.apply(processor, to: image) }
            image.animation = nil
            let next = self.frame(position - 1, image, frame.duration)
            if next.index == kept.count, kept.count < options.bufferCount { kept.append(next) } else { kept = [] }
            return .frame(next)
        } catch {
            return .failure(error)
        }
    }

    private func nextFrame() throws(DipperError) -> AnimationFrame? {
        if let frames = animation.preloaded { return position < frames.count ? frames[position] : nil }
        if decoder == nil {
            decoder = try animation.makeDecoder(context)
        } else if position == 0 {
            try decoder?.rewind()
        }
        return try decoder?.next()
    }

    private func frame(_ index: Int, _ image: Image, _ duration: Duration) -> AnimationSchedule.Frame {
        // A still picture has no duration: the animation ends as soon as it is shown.
        let delay = animation.frameCount == 1 ? .zero : options.delays.delay(of: duration)
        return AnimationSchedule.Frame(image: image, index: index, delay: delay)
    }
}
