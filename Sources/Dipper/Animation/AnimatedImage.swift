import DipperData
import Synchronization

/// A player for an animated picture: it decodes frames ahead, and delivers each frame when it is due.
///
/// ```swift
/// let player = AnimatedImage(image)
///     .onFrame { frame, _ in view.show(frame) }
/// player.start()
/// ```
///
/// ``AnimationOptions/bufferCount`` limits the memory of a player, whatever the number of frames. A few threads decode
/// for all players of the process. A frame is due when all frames before it have had their durations since the first
/// one, so that delays do not add up. If several frames are due at once, the player shows only the newest. A player
/// that is more than a second late continues from the present frame. A picture that is not animated has a single frame,
/// after which the player has finished.
///
/// Hooks run on the callback queue, one at a time. A queue that was blocked receives only the newest frame. After
/// ``stop()`` the player calls no hook, if ``stop()`` is called on the callback queue and that queue is serial;
/// otherwise, a hook that is being called at that moment may still run. Releasing the player stops it; hooks that use
/// the player should hold it weakly.
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

    struct Player {
        var schedule: AnimationSchedule<Image>
        var mailbox = AnimationMailbox()
        var hooks = AnimationHooks()
        var source: FrameSource?
        var current: (image: Image, index: Int)
    }

    /// Done after the lock is released.
    private struct Work {
        var leftovers = Leftovers()
        var source: FrameSource?
        var wakeTime: Duration?
        var isCalling = false
    }

    /// Ended or freed after the lock is released.
    private struct Leftovers {
        var sources: [FrameSource] = []
        var streams: [AsyncStream<Image>.Continuation] = []
        var frames: [AnimationSchedule<Image>.Frame] = []
        var images: [Image] = []
        var news: [AnimationMailbox.News] = []

        func end() {
            for source in sources { source.abandon() }
            for stream in streams { stream.finish() }
        }
    }

    /// The options with which the player plays.
    public let options: AnimationOptions
    /// The number of frames in the file; 1 if the picture is not animated.
    public let frameCount: Int
    private let content: FrameSource.Content
    private let scale: Double
    private let time: TimeSource
    private let alarm: Alarm
    /// For the alarms of all players.
    private static let alarmThread = SeparateThread()
    let player: Mutex<Player>

    /// Creates a player, which ``start()`` starts. A picture without ``Image/animation`` is shown once.
    public init(_ image: Image, options: AnimationOptions = .init()) {
        self.options = options
        var first = image
        first.animation = nil
        content = image.animation.map { .animation($0) } ?? .still(first)
        scale = image.scale
        frameCount = image.animation?.frameCount ?? 1
        time = TimeSource(options.clock)
        alarm = Alarm(time, on: Self.alarmThread)
        var frames: [(picture: Image, delay: Duration)]?
        if options.processors.isEmpty, let preloaded = image.animation?.preloaded, !preloaded.isEmpty {
            frames = preloaded.map { ($0.image.at(scale: image.scale), options.delays.delay(of: $0.duration)) }
        }
        let schedule = AnimationSchedule<Image>(
            bufferCount: options.bufferCount, passes: options.passes(of: image.animation), frameCount: frameCount,
            preloaded: frames)
        player = Mutex(Player(schedule: schedule, current: (first, 0)))
    }

    deinit {
        alarm.cancel()
        let (source, streams) = player.withLock { ($0.source, $0.hooks.streams.values) }
        source?.abandon()
        for stream in streams { stream.finish() }
    }

    // MARK: Calls

    /// Starts the player with the first frame. Has no effect while it plays. A paused player waits for ``resume()``.
    public func start() { handle { schedule, now in schedule.start(now) } }

    /// Pauses the player, for example while its display is off screen: it holds its frame and the frames that were
    /// decoded ahead, and decodes nothing and calls no hook until ``resume()``.
    public func pause() { handle { schedule, now in schedule.pause(now) } }

    /// Resumes the player. The frame that is shown stays for the rest of its duration; then the next frame follows.
    public func resume() { handle { schedule, now in schedule.resume(now) } }

    /// Stops the player without calling a hook, and releases the frames that were decoded ahead. ``start()`` starts it
    /// again from the first frame, even if it was paused.
    public func stop() { handle(isEnding: true) { schedule, _ in schedule.stop() } }

    /// Releases the frames that were decoded ahead, for use when memory is short; best while the player is paused. The
    /// player continues with the same frame: it decodes all earlier frames again, once, without showing them.
    public func releaseBuffer() { handle { schedule, now in schedule.releaseBuffer(now) } }

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
        of source: FrameSource? = nil, isEnding: Bool = false,
        _ event: (inout AnimationSchedule<Image>, Duration) -> [AnimationSchedule<Image>.Action]
    ) {
        let now = time.now()
        var work = player.withLock { player -> Work in
            var work = Work()
            guard source == nil || source === player.source else { return work }
            for action in event(&player.schedule, now) { apply(action, to: &player, &work) }
            work.leftovers.frames = player.schedule.takeDropped()
            if isEnding {
                work.leftovers.news += player.mailbox.clear()
                work.leftovers.streams = player.hooks.takeStreams()
            }
            player.mailbox.isHeld = player.schedule.isPaused
            work.isCalling = player.mailbox.beginCall()
            return work
        }
        work.leftovers.end()
        work.leftovers = Leftovers()
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

    private func apply(_ action: AnimationSchedule<Image>.Action, to player: inout Player, _ work: inout Work) {
        switch action {
        case .open(let count):
            if let old = player.source { work.leftovers.sources.append(old) }
            player.source = FrameSource(
                content, scale: scale, skipping: count, options.processors, options.delays)
        case .close:
            if let old = player.source { work.leftovers.sources.append(old) }
            player.source = nil
        case .decode:
            work.source = player.source
        case .wake(let due):
            work.wakeTime = due
        case .show(let frame):
            work.leftovers.images.append(player.current.image)
            player.current = (frame.picture, frame.index)
            post(.frame(frame.picture, index: frame.index), to: &player, &work)
        case .prepared:
            post(.prepared, to: &player, &work)
        case .looped(let count):
            post(.looped(count), to: &player, &work)
        case .finished:
            post(.finished, to: &player, &work)
        case .failed(let error):
            post(.failed(error), to: &player, &work)
        }
    }

    private func post(_ news: AnimationMailbox.News, to player: inout Player, _ work: inout Work) {
        if let replaced = player.mailbox.post(news) { work.leftovers.news.append(replaced) }
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

    /// News that arrives meanwhile waits for another call, so that other work on the queue has its turn. Returns `true`
    /// if another call must be made.
    private func tell() -> Bool {
        for _ in 0..<player.withLock({ $0.mailbox.count }) {
            let (news, hooks, ending) = player.withLock { player in
                let news = player.mailbox.take()
                let hooks = player.hooks
                return (news, hooks, news?.isEnd == true ? player.hooks.takeStreams() : [])
            }
            guard let news else { break }
            hooks.tell(news)
            for stream in ending { stream.finish() }
        }
        return player.withLock { $0.mailbox.endCall() }
    }
}
