/// The options with which an ``AnimationPlayer`` plays.
///
/// ```swift
/// var options = AnimationOptions(loop: .count(3))
/// options.processors = [.downsample(width: 64, height: 64)]
/// let player = AnimationPlayer(image, options: options)
/// ```
public struct AnimationOptions: Sendable {
    /// A number of times that all frames are shown.
    public enum LoopMode: Sendable, Hashable {
        /// The number of times that the file names.
        case asInFile
        /// All frames are shown until the player is stopped.
        case forever
        /// All frames are shown once.
        case never
        /// All frames are shown this number of times, at least once.
        case count(Int)
    }

    /// The number of times that all frames are shown.
    public var loop: LoopMode
    /// The number of frames that are decoded ahead; at least 1. A player holds no more than these frames and the one
    /// that it shows. An animation that has no more frames than this is decoded once, and not again for each loop.
    public var bufferCount: Int
    /// The rule for the durations of frames.
    public var delays: FrameDelays
    /// The processors that are applied to each frame, in order, after those of the request.
    public var processors: [any ImageProcessor]
    /// The clock by which the player shows frames.
    public var clock: any Clock<Duration>
    /// The queue on which hooks run: the queue of the display.
    public var callbackQueue: CallbackQueue

    /// Creates options. By default the animation plays in real time, as often as the file says.
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

    /// `nil` for no limit.
    func passes(of animation: ImageAnimation) -> Int? {
        switch loop {
        case .asInFile: animation.loopCount > 0 ? animation.loopCount : nil
        case .forever: nil
        case .never: 1
        case .count(let count): max(1, count)
        }
    }
}

/// The rule for how long each frame is shown. Decoders report the durations that the file has.
public enum FrameDelays: Sendable, Hashable {
    /// The rule of browsers: a duration of 10 ms or less counts as 100 ms.
    // As in Firefox (FrameTimeout::FromRawMilliseconds), WebKit (webkit.org/b/36082) and Chromium
    // (DeferredImageDecoder::FrameDurationAtIndex): such files were made for viewers that could not keep up.
    case browsers
    /// The duration in the file, but at least the given duration and at least 1 ms.
    case atLeast(Duration)

    /// Longer durations would leave the range of clocks.
    private static let longest = Duration.seconds(1_000_000)

    func delay(of duration: Duration) -> Duration {
        switch self {
        case .browsers: duration <= .milliseconds(10) ? .milliseconds(100) : min(duration, Self.longest)
        case .atLeast(let least): min(max(duration, least, .milliseconds(1)), Self.longest)
        }
    }
}
