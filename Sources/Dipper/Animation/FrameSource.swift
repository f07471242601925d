import DipperData
import Synchronization

/// Decodes and processes the frames of one animation in order, on threads that all players share.
// The decoder and the position are used by one thread at a time: the next frame is asked for when the one before has
// come, and both go through locks.
final class FrameSource: @unchecked Sendable {
    typealias Decoded = AnimationSchedule<Image>.Decoded

    enum Content: Sendable {
        case still(Image)
        case animation(ImageAnimation)
    }

    /// Few, whatever the number of players; each takes one frame at a time, so that players take turns.
    private static let threads = WorkerPool(name: "dipper-frames", threads: 2)

    private let content: Content
    /// Of the picture, and so of all frames.
    private let scale: Double
    private let processors: [any ImageProcessor]
    private let delays: FrameDelays
    private let isAbandoned = Atomic(false)
    private var decoder: (any FrameDecoder)?
    private var position = 0
    private var isAtEnd = false
    private var toSkip: Int

    init(
        _ content: Content, scale: Double, skipping: Int, _ processors: [any ImageProcessor], _ delays: FrameDelays
    ) {
        self.content = content
        self.scale = scale
        self.processors = processors
        self.delays = delays
        toSkip = skipping
    }

    /// For the decoder and the processors; holds nothing.
    private var isCancelled: @Sendable () -> Bool {
        { [weak self] in self?.isAbandoned.load(ordering: .relaxed) ?? true }
    }

    /// Those that the picture was decoded with.
    private var limits: DecodeLimits {
        if case .animation(let animation) = content { animation.limits } else { DecodeLimits() }
    }

    /// Work that has not begun is not done any more, and processors are told to end.
    func abandon() { isAbandoned.store(true, ordering: .relaxed) }

    /// Brings the next frame, on another thread. To be called again when it has come.
    func decodeNext(_ bring: @escaping @Sendable (Decoded) -> Void) {
        Self.threads.run { [self] in
            guard !isAbandoned.load(ordering: .relaxed) else { return }
            if let result = step() {
                bring(result)
            } else {
                // One frame that is passed over is a turn like any other.
                decodeNext(bring)
            }
        }
    }

    /// - Returns: `nil` if a frame was passed over.
    private func step() -> Decoded? {
        do throws(DipperError) {
            guard let frame = try nextFrame() else {
                (position, toSkip, isAtEnd) = (0, 0, true)
                return .passEnd
            }
            position += 1
            guard toSkip == 0 else {
                toSkip -= 1
                return nil
            }
            let context = ProcessingContext(limits: limits, isCancelled: isCancelled)
            var image = frame.image.at(scale: scale)
            for processor in processors { image = try processor.process(image, context) }
            image.animation = nil
            return .frame(image, delay: frame.duration)
        } catch {
            return .failure(error)
        }
    }

    private func nextFrame() throws(DipperError) -> AnimationFrame? {
        switch content {
        case .still(let image):
            // It has no time: the animation ends as soon as it is shown.
            return position == 0 ? AnimationFrame(image: image, duration: .zero) : nil
        case .animation(let animation):
            if let frames = animation.preloaded {
                return position < frames.count ? timed(frames[position]) : nil
            }
            if decoder == nil { decoder = try animation.makeFrameDecoder(isCancelled: isCancelled) }
            if isAtEnd { try decoder?.rewind() }
            isAtEnd = false
            return try decoder?.next().map(timed)
        }
    }

    private func timed(_ frame: AnimationFrame) -> AnimationFrame {
        AnimationFrame(image: frame.image, duration: delays.delay(of: frame.duration))
    }
}
