import DipperData

/// How an ``AnimatedImage`` plays.
public struct AnimationOptions: Sendable {
    /// How often all frames are shown.
    public enum LoopMode: Sendable, Hashable {
        /// As often as the file says.
        case asInFile
        /// Until it is stopped.
        case forever
        /// Once, and not again.
        case never
        /// So often; at least once.
        case count(Int)
    }

    /// How often all frames are shown.
    public var loop: LoopMode
    /// Frames decoded ahead; at least one.
    ///
    /// A player holds no more than these and the one it shows. An animation that has no more frames than this is
    /// decoded once, not again for each loop.
    public var bufferCount: Int
    /// How long frames are shown whose files say next to nothing.
    public var delays: FrameDelays
    /// Applied to every frame in this order, after those of the request.
    public var processors: [any ImageProcessor]
    /// What the player tells the time by.
    public var clock: any Clock<Duration>
    /// Where hooks run: that of the display.
    public var callbackQueue: CallbackQueue

    /// As the file says, in real time, by default.
    public init(
        loop: LoopMode = .asInFile, bufferCount: Int = 3, delays: FrameDelays = .browsers,
        processors: [any ImageProcessor] = [], clock: any Clock<Duration> = ContinuousClock(),
        callbackQueue: CallbackQueue = .serial(label: "dipper.animation")
    ) {
        self.loop = loop
        self.bufferCount = bufferCount
        self.delays = delays
        self.processors = processors
        self.clock = clock
        self.callbackQueue = callbackQueue
    }

    /// How often all frames of an animation are shown; `nil` for ever.
    func passes(of animation: ImageAnimation?) -> Int? {
        guard let animation else { return 1 }
        return switch loop {
        case .asInFile: animation.loopCount > 0 ? animation.loopCount : nil
        case .forever: nil
        case .never: 1
        case .count(let count): max(1, count)
        }
    }
}
