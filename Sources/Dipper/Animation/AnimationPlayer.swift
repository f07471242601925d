import Dispatch
import Synchronization

/// A player for an animated picture: it decodes frames ahead, and delivers each frame when it is due.
///
/// ```swift
/// let player = AnimationPlayer(image)
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
public final class AnimationPlayer: Sendable {
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
        var cancelWake: (@Sendable () -> Void)?
        var hooks: [@Sendable (AnimationSchedule.Event) -> Void] = []
        var streams: [Int: AsyncStream<Image>.Continuation] = [:]
        var lastStream = 0
        /// Not told to the hooks yet, in order: of frames and of counts of loops, only the newest.
        var untold: [AnimationSchedule.Event] = []
        var isCalling = false

        /// The pixels of all frames that the player holds.
        var frames: [PixelStorage] {
            let shown = untold.compactMap { if case .frame(let frame) = $0 { frame.image } else { nil } }
            return (schedule.frames + shown + [current.image]).map(\.storage)
        }

        /// Returns `true` if the caller must make a call on the callback queue.
        mutating func beginCall() -> Bool {
            guard !isCalling, !schedule.isPaused, !untold.isEmpty else { return false }
            isCalling = true
            return true
        }
    }

    /// The rest of a change, to be done outside of the lock.
    private struct Change {
        var freed: [PixelStorage]
        let abandoned: FrameSource?
        let ended: [AsyncStream<Image>.Continuation]
        let cancelWake: (@Sendable () -> Void)?
        let source: FrameSource?
        let actions: [AnimationSchedule.Action]
        let isCalling: Bool
    }

    /// The options with which the player plays.
    public let options: AnimationOptions
    /// The number of frames in the file; 1 if the picture is not animated.
    public let frameCount: Int
    private let animation: ImageAnimation
    private let scale: Double
    private let time: TimeSource
    private let player: Mutex<Player>
    /// A queue of its own: busy Swift tasks would delay timers.
    private static let timers = DispatchQueue(label: "dipper.timers")

    /// Creates a player, which ``start()`` starts. A picture without ``Image/animation`` is shown once.
    public init(_ image: Image, options: AnimationOptions = .init()) {
        self.options = options
        var first = image
        first.animation = nil
        animation = image.animation ?? .still(first)
        scale = image.scale
        frameCount = animation.frameCount
        time = TimeSource(options.clock)
        let schedule = AnimationSchedule(bufferCount: options.bufferCount, passes: options.passes(of: animation))
        player = Mutex(Player(schedule: schedule, current: (first, 0)))
    }

    deinit {
        let last = player.withLock { $0 }
        last.cancelWake?()
        last.source?.abandon()
        for stream in last.streams.values { stream.finish() }
    }

    /// Starts the player with the first frame. Has no effect while it plays. A paused player waits for ``resume()``.
    public func start() { handle { player, now in player.schedule.start(now) } }

    /// Pauses the player: until ``resume()`` it keeps its frames, decodes nothing and calls no hook.
    public func pause() { handle { player, now in player.schedule.pause(now) } }

    /// Resumes the player. The frame that is shown stays for the rest of its duration; then the next frame follows.
    public func resume() { handle { player, now in player.schedule.resume(now) } }

    /// Stops the player without calling a hook, and releases the frames that were decoded ahead. ``start()`` starts it
    /// again from the first frame, even if it was paused.
    public func stop() {
        handle { player, _ in
            player.untold = []
            player.streams = [:]
            return player.schedule.stop()
        }
    }

    /// Releases the frames that were decoded ahead, for use when memory is short; best while the player is paused. The
    /// player continues with the same frame: it decodes all earlier frames again, once, without showing them.
    public func releaseBuffer() { handle { player, now in player.schedule.releaseBuffer(now) } }

    /// The present state of the player.
    public var state: State { player.withLock { $0.schedule.state } }

    /// The frame to show now; the picture itself until another frame is due. A display that asks for it at each refresh
    /// needs no hook.
    public var currentFrame: Image { player.withLock { $0.current.image } }
    /// The number of ``currentFrame``, from 0.
    public var currentIndex: Int { player.withLock { $0.current.index } }

    // MARK: Schedule

    /// `source`: that of the decoded frame, if the event is one; frames of an earlier source are ignored.
    private func handle(
        of source: FrameSource? = nil, _ event: (inout Player, Duration) -> [AnimationSchedule.Action]
    ) {
        if apply(event, of: source) { call() }
    }

    /// Returns `true` if the caller must make a call on the callback queue.
    private func apply(
        _ event: (inout Player, Duration) -> [AnimationSchedule.Action], of source: FrameSource?
    ) -> Bool {
        let now = time.now()
        // What is let go is freed after the lock and before the hooks, because frames may take the system some time: just
        // that, because a thread may stay here while others let go of more.
        let change = player.withLock { player -> Change? in
            guard source == nil || source === player.source else { return nil }
            let (frames, source, streams, cancelWake) = (
                player.frames, player.source, player.streams, player.cancelWake
            )
            let actions = event(&player, now)
            for action in actions { enter(action, into: &player) }
            let kept = Set(player.frames.map(ObjectIdentifier.init))
            return Change(
                freed: frames.filter { !kept.contains(ObjectIdentifier($0)) },
                abandoned: source === player.source ? nil : source,
                // Only a stop ends streams here.
                ended: player.streams.isEmpty ? Array(streams.values) : [], cancelWake: cancelWake,
                source: player.source, actions: actions, isCalling: player.beginCall())
        }
        guard var change else { return false }
        change.freed = []
        change.abandoned?.abandon()
        for stream in change.ended { stream.finish() }
        for action in change.actions {
            switch action {
            case .wake: change.cancelWake?()
            case .decode:
                change.source?.decodeNext { [weak self, weak source = change.source] result in
                    guard let source else { return }
                    self?.handle(of: source) { player, now in player.schedule.decoded(result, now) }
                }
            case .open, .close, .tell: break
            }
        }
        return change.isCalling
    }

    /// The part of an action under the lock.
    private func enter(_ action: AnimationSchedule.Action, into player: inout Player) {
        switch action {
        case .open(let count):
            player.source = FrameSource(animation, scale: scale, skipping: count, options)
        case .close: player.source = nil
        case .decode: break
        case .wake(let due):
            player.cancelWake = time.wake(at: due, on: Self.timers) { [weak self] in
                self?.handle { player, now in player.schedule.woken(now) }
            }
        case .tell(let event):
            if case .frame(let frame) = event { player.current = (frame.image, frame.index) }
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

    /// Calls a closure with each frame when it is due, and with the number of the frame, from 0.
    @discardableResult
    public func onFrame(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image, _ index: Int) -> Void
    ) -> AnimationPlayer {
        add { [body = onItsActor(body)] in if case .frame(let frame) = $0 { body(frame.image, frame.index) } }
    }

    /// Calls a closure when the first frames are decoded, just before the first one is shown; once for each start.
    @discardableResult
    public func onPrepared(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimationPlayer {
        add { [body = onItsActor(body)] in if case .prepared = $0 { body() } }
    }

    /// Calls a closure each time all frames have been shown, with the number of times so far.
    @discardableResult
    public func onLoop(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ count: Int) -> Void
    ) -> AnimationPlayer {
        add { [body = onItsActor(body)] in if case .looped(let count) = $0 { body(count) } }
    }

    /// Calls a closure when the last frame has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFinish(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimationPlayer {
        add { [body = onItsActor(body)] in if case .ended(nil) = $0 { body() } }
    }

    /// Calls a closure if a frame cannot be processed or is too large, or if not even the first can be decoded, after the
    /// frame before it has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (DipperError) -> Void
    ) -> AnimationPlayer {
        add { [body = onItsActor(body)] in if case .ended(let error?) = $0 { body(error) } }
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
            // Until the hooks are told the end, the streams go on too.
            guard !player.schedule.hasEnded || player.untold.contains(where: \.isEnd) else { return nil }
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

    private func add(_ hook: @escaping @Sendable (AnimationSchedule.Event) -> Void) -> AnimationPlayer {
        player.withLock { $0.hooks.append(hook) }
        return self
    }
}

extension TimeSource {
    /// Calls a closure once, on a queue, at a time. Returns a closure that cancels it.
    func wake(at due: Duration, on queue: DispatchQueue, _ body: @escaping @Sendable () -> Void) -> @Sendable () -> Void
    {
        guard isReal else {
            let task = Task.detached { [now, sleep] in
                // The ticks of the clock may be coarser than the time.
                var next = due
                repeat {
                    try? await sleep(next)
                    next += .milliseconds(1)
                } while !Task.isCancelled && now() < due
                if !Task.isCancelled { queue.async(execute: body) }
            }
            return { task.cancel() }
        }
        // Any thread may cancel a timer of Dispatch; only its Swift type does not say so.
        nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: queue)
        let schedule: @Sendable () -> Void = { [now] in
            // Timers of Dispatch stand still while the computer sleeps, but `ContinuousClock` goes on.
            let wait = min(max(due - now(), .zero), .seconds(60))
            timer.schedule(deadline: .now() + wait / .seconds(1))
        }
        timer.setEventHandler { [now] in
            guard now() >= due else { return schedule() }
            timer.cancel()
            body()
        }
        schedule()
        timer.activate()
        return { timer.cancel() }
    }
}
