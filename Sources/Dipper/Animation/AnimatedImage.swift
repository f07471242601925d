import DipperData
import Dispatch
import Synchronization

/// A player for an animated picture: it decodes frames ahead, and delivers each frame when it is due.
///
/// ```swift
/// let player = AnimatedImage(image)
///     .onFrame { frame, _ in view.show(frame) }
/// player.start()
/// ```
///
/// ``AnimationOptions/bufferCount`` limits the memory of a player. All players share a few decoding threads. A frame is
/// due when all frames before it have had their durations since the first, so that delays do not add up; of several
/// frames due at once, only the newest is shown. After a delay of more than a second the player continues from the
/// present frame. A still picture is a single frame, after which the player has finished.
///
/// Hooks run on the callback queue, one at a time. A queue that was blocked receives only the newest frame. If
/// ``stop()`` is called on the callback queue and that is serial, no hook runs afterwards; otherwise, a hook that is
/// being called may still run. Releasing the player stops it; hooks that use the player should hold it weakly.
public final class AnimatedImage: Sendable {
    /// The state of a player.
    public enum State: Sendable, Hashable {
        /// The player was not started, or was stopped.
        case stopped
        /// The player is decoding the first frames.
        case preparing
        /// The player shows frames when they are due.
        case playing
        /// The player holds the frame that it shows, or begins when it is resumed.
        case paused
        /// All frames have been shown as often as wanted.
        case finished
        /// A frame could not be processed or is too large, or the first could not be decoded. The frame before it stays.
        case failed(DipperError)
    }

    private struct Player {
        var schedule: AnimationSchedule
        var current: (image: Image, index: Int)
        var source: FrameSource?
        var hooks: [@Sendable (AnimationSchedule.Event) -> Void] = []
        var streams: [Int: AsyncStream<Image>.Continuation] = [:]
        var lastStream = 0
        /// Not told to the hooks yet, in order: of frames and of counts of loops, only the newest.
        var untold: [AnimationSchedule.Event] = []
        var isCalling = false

        /// Returns `true` if the caller must make a call on the callback queue.
        mutating func beginCall() -> Bool {
            guard !isCalling, !schedule.isPaused, !untold.isEmpty else { return false }
            isCalling = true
            return true
        }
    }

    /// Work for when the lock is released, because it may lock again or run code of the program's own.
    private struct Work {
        var abandoned: [FrameSource?] = []
        /// Frames that are no longer needed; to release them may take the system some time.
        var frames: [Image] = []
        var schedule: AnimationSchedule?
        var endedStreams: [AsyncStream<Image>.Continuation] = []
        var source: FrameSource?
        var wakeTime: Duration?
        var isCalling = false
    }

    /// The options with which the player plays.
    public let options: AnimationOptions
    /// The number of frames in the file; 1 if the picture is not animated.
    public let frameCount: Int
    private let content: FrameSource.Content
    private let scale: Double
    private let time: TimeSource
    private let alarm: Alarm
    private static let alarmQueue = DispatchQueue(label: "dipper.alarm")
    private let player: Mutex<Player>

    /// Creates a player, which ``start()`` starts. A picture without ``Image/animation`` is shown once.
    public init(_ image: Image, options: AnimationOptions = .init()) {
        self.options = options
        var first = image
        first.animation = nil
        content = image.animation.map { .animation($0) } ?? .still(first)
        scale = image.scale
        frameCount = image.animation?.frameCount ?? 1
        time = TimeSource(options.clock)
        alarm = Alarm(time, on: Self.alarmQueue)
        var preloaded: [AnimationSchedule.Frame]?
        if options.processors.isEmpty, let frames = image.animation?.preloaded, !frames.isEmpty {
            preloaded = frames.enumerated().map { index, frame in
                let delay = options.delays.delay(of: frame.duration)
                return AnimationSchedule.Frame(
                    image: frame.image.at(scale: image.scale), index: index, delay: delay)
            }
        }
        let schedule = AnimationSchedule(
            bufferCount: options.bufferCount, passes: options.passes(of: image.animation), frameCount: frameCount,
            preloaded: preloaded)
        player = Mutex(Player(schedule: schedule, current: (first, 0)))
    }

    deinit {
        alarm.cancel()
        let (source, streams) = player.withLock { ($0.source, $0.streams.values) }
        source?.abandon()
        for stream in streams { stream.finish() }
    }

    /// Starts the player with the first frame. Has no effect while it plays. A paused player waits for ``resume()``.
    public func start() { handle { schedule, now in schedule.start(now) } }

    /// Pauses the player: until ``resume()`` it keeps its frames, decodes nothing and calls no hook.
    public func pause() { handle { schedule, now in schedule.pause(now) } }

    /// Resumes the player. The frame that is shown stays for the rest of its duration; then the next frame follows.
    public func resume() { handle { schedule, now in schedule.resume(now) } }

    /// Stops the player without calling a hook, and releases the frames that were decoded ahead. ``start()`` starts it
    /// again from the first frame, even if it was paused.
    public func stop() { handle(isEnding: true, dropsFrames: true) { schedule, _ in schedule.stop() } }

    /// Releases the frames that were decoded ahead, for use when memory is short; best while the player is paused. The
    /// player continues with the same frame: it decodes all earlier frames again, once, without showing them.
    public func releaseBuffer() { handle(dropsFrames: true) { schedule, now in schedule.releaseBuffer(now) } }

    /// The present state of the player.
    public var state: State {
        player.withLock { player in
            let schedule = player.schedule
            return switch schedule.phase {
            case .idle: .stopped
            case .playing where schedule.isPaused: .paused
            case .playing: schedule.isPrepared ? .playing : .preparing
            case .finished: .finished
            case .failed(let error): .failed(error)
            }
        }
    }

    /// The frame to show now; the picture itself until another frame is due. A display that asks for it at each refresh
    /// needs no hook.
    public var currentFrame: Image { player.withLock { $0.current.image } }
    /// The number of ``currentFrame``, from 0.
    public var currentIndex: Int { player.withLock { $0.current.index } }

    // MARK: Schedule

    private func handle(
        of source: FrameSource? = nil, isEnding: Bool = false, dropsFrames: Bool = false,
        _ event: (inout AnimationSchedule, Duration) -> [AnimationSchedule.Action]
    ) {
        let now = time.now()
        let work = player.withLock { player -> Work in
            var work = Work()
            guard source == nil || source === player.source else { return work }
            if dropsFrames { work.schedule = player.schedule }
            for action in event(&player.schedule, now) { apply(action, to: &player, &work) }
            if isEnding {
                player.untold = []
                work.endedStreams = Array(exchange(&player.streams, with: [:]).values)
            }
            work.isCalling = player.beginCall()
            return work
        }
        for source in work.abandoned { source?.abandon() }
        for stream in work.endedStreams { stream.finish() }
        if let due = work.wakeTime {
            alarm.set(at: due) { [weak self] in self?.handle { schedule, now in schedule.woken(now) } }
        }
        if let source = work.source {
            source.decodeNext { [weak self, weak source] result in
                guard let source else { return }
                self?.handle(of: source) { schedule, now in schedule.decoded(result, now) }
            }
        }
        if work.isCalling { call() }
    }

    private func apply(_ action: AnimationSchedule.Action, to player: inout Player, _ work: inout Work) {
        switch action {
        case .open(let count):
            let source = FrameSource(content, scale: scale, skipping: count, options.processors, options.delays)
            work.abandoned.append(exchange(&player.source, with: source))
        case .close: work.abandoned.append(exchange(&player.source, with: nil))
        case .decode: work.source = player.source
        case .wake(let due): work.wakeTime = due
        case .tell(let event):
            if case .frame(let frame) = event {
                work.frames.append(exchange(&player.current, with: (frame.image, frame.index)).image)
            }
            player.untold.removeAll { event.replaces($0) }
            player.untold.append(event)
        }
    }

    // MARK: Hooks

    private func call() {
        if options.callbackQueue.isInPlace {
            while tell() {}
            return
        }
        options.callbackQueue.perform { [weak self] in
            if let self, self.tell() { self.call() }
        }
    }

    /// Events that arrive meanwhile wait for another call, so that other work on the queue has its turn. Returns `true`
    /// if another call must be made.
    private func tell() -> Bool {
        for _ in 0..<player.withLock({ $0.untold.count }) {
            let (event, hooks, streams) = player.withLock { player in
                let isHeld = player.schedule.isPaused || player.untold.isEmpty
                let event = isHeld ? nil : player.untold.removeFirst()
                let streams = player.streams
                if event?.isEnd == true { player.streams = [:] }
                return (event, player.hooks, streams)
            }
            guard let event else { break }
            for hook in hooks { hook(event) }
            for stream in streams.values {
                if case .frame(let frame) = event { stream.yield(frame.image) }
                if event.isEnd { stream.finish() }
            }
        }
        return player.withLock { player in
            player.isCalling = false
            return player.beginCall()
        }
    }
}

extension AnimatedImage {
    /// Calls a closure with each frame when it is due, and with the number of the frame, from 0.
    @discardableResult
    public func onFrame(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image, _ index: Int) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .frame(let frame) = $0 { body(frame.image, frame.index) } }
    }

    /// Calls a closure when the first frames are decoded, just before the first one is shown; once for each start.
    @discardableResult
    public func onPrepared(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .prepared = $0 { body() } }
    }

    /// Calls a closure each time all frames have been shown, with the number of times so far.
    @discardableResult
    public func onLoop(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ count: Int) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .looped(let count) = $0 { body(count) } }
    }

    /// Calls a closure when the last frame has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFinish(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .finished = $0 { body() } }
    }

    /// Calls a closure if a frame cannot be processed or is too large, or if not even the first can be decoded, after the
    /// frame before it has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (DipperError) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .failed(let error) = $0 { body(error) } }
    }

    /// A stream of the frames as they are due. A reader that is late receives only the newest. The stream begins with
    /// ``currentFrame`` and ends with the player.
    ///
    /// ```swift
    /// let frames = player.frames
    /// player.start()
    /// for await frame in frames { view.show(frame) }
    /// ```
    public var frames: AsyncStream<Image> {
        let (stream, continuation) = AsyncStream.makeStream(of: Image.self, bufferingPolicy: .bufferingNewest(1))
        let number = player.withLock { player -> Int? in
            // The stream has no reader yet, so nothing wakes up here, and no frame can come in between.
            continuation.yield(player.current.image)
            let hasEnded = ![.idle, .playing].contains(player.schedule.phase)
            // Until the hooks are told the end, the streams go on too.
            guard !hasEnded || player.untold.contains(where: \.isEnd) else { return nil }
            player.lastStream += 1
            player.streams[player.lastStream] = continuation
            return player.lastStream
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            let ended = self?.player.withLock { $0.streams.removeValue(forKey: number) }
            _ = consume ended
        }
        return stream
    }

    private func add(_ hook: @escaping @Sendable (AnimationSchedule.Event) -> Void) -> AnimatedImage {
        player.withLock { $0.hooks.append(hook) }
        return self
    }
}
