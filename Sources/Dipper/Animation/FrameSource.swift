import DipperData
import Synchronization

/// Decodes and processes the frames of one animation in order, on threads that all players share.
// Safe to share: one thread at a time uses the decoder and the position, because a player requests the next frame only
// when it has the one before, and both pass through locks.
final class FrameSource: @unchecked Sendable {
    typealias Decoded = AnimationSchedule.Decoded

    enum Content: Sendable {
        case still(Image)
        case animation(ImageAnimation)
    }

    /// Few threads, whatever the number of players. Each task decodes one frame, so that players take turns.
    private static let threads = Workers(name: "dipper-frames", threads: 2)

    private let content: Content
    private let scale: Double
    private let options: AnimationOptions
    private let isAbandoned = Atomic(false)
    private var decoder: (any FrameDecoder)?
    private var position = 0
    private var toSkip: Int
    /// The frames of this pass from its first on, as long as they fit into the player's buffer.
    private var kept: [AnimationSchedule.Frame] = []
    /// Whether all frames are kept, so that none is decoded again.
    private var isWhole = false

    init(_ content: Content, scale: Double, skipping: Int, _ options: AnimationOptions) {
        self.content = content
        self.scale = scale
        self.options = options
        toSkip = skipping
    }

    /// Does not hold the source.
    private var isCancelled: @Sendable () -> Bool {
        { [weak self] in self?.isAbandoned.load(ordering: .relaxed) ?? true }
    }

    private var limits: DecodeLimits {
        if case .animation(let animation) = content { animation.limits } else { DecodeLimits() }
    }

    func abandon() { isAbandoned.store(true, ordering: .relaxed) }

    /// Whether the next frame is in memory already, and needs no thread.
    private var isAtHand: Bool {
        if isWhole { return position < kept.count }
        guard options.processors.isEmpty, case .animation(let animation) = content else { return false }
        return position < animation.preloaded?.count ?? 0
    }

    /// Must not be called again before the frame is there, which may be at once.
    func decodeNext(_ bring: @escaping @Sendable (Decoded) -> Void) {
        while isAtHand {
            if let frame = step() { return bring(frame) }
        }
        Self.threads.run { [self] in
            guard !isAbandoned.load(ordering: .relaxed) else { return }
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
            if isWhole, position < kept.count {
                position += 1
                return .frame(kept[position - 1])
            }
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
            let context = ProcessingContext(limits: limits, isCancelled: isCancelled)
            var image = frame.image.at(scale: scale)
            for processor in options.processors { image = try context.apply(processor, to: image) }
            image.animation = nil
            let next = AnimationSchedule.Frame(image: image, index: position - 1, delay: frame.duration)
            if next.index == kept.count, kept.count < options.bufferCount { kept.append(next) } else { kept = [] }
            return .frame(next)
        } catch {
            return .failure(error)
        }
    }

    private func nextFrame() throws(DipperError) -> AnimationFrame? {
        switch content {
        case .still(let image):
            // A still picture has no duration: the animation ends as soon as it is shown.
            return position == 0 ? AnimationFrame(image: image, duration: .zero) : nil
        case .animation(let animation):
            if let frames = animation.preloaded {
                return position < frames.count ? timed(frames[position]) : nil
            }
            if decoder == nil {
                decoder = try animation.makeFrameDecoder(isCancelled: isCancelled)
            } else if position == 0 {
                try decoder?.rewind()
            }
            return try decoder?.next().map(timed)
        }
    }

    private func timed(_ frame: AnimationFrame) -> AnimationFrame {
        AnimationFrame(image: frame.image, duration: options.delays.delay(of: frame.duration))
    }
}
