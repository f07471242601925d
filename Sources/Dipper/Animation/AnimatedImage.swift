import DipperData
import Synchronization

/// Plays a picture that moves: decodes its frames ahead and tells each when it is due.
///
/// Memory is bounded by ``AnimationOptions/bufferCount`` whatever the number of frames, and a few threads decode for all
/// players of the process. A frame is due when the ones before have had their time since the first, so that lateness
/// does not add up; of frames that are due together only the newest is shown, and a player that is more than a second
/// late goes on from where it is. A picture that does not move is one frame, and has finished then.
///
/// Hooks run on the callback queue, one at a time. A queue that is blocked finds the newest frame, not a row of them.
/// After ``stop()`` no hook is called: none at all if it is called on the callback queue, being a serial one; from
/// elsewhere, a hook that is being called at that moment may still run. Letting go of the player stops it; hooks that use
/// it should hold it weakly.
public final class AnimatedImage: Sendable {
    /// What a player is doing.
    public enum State: Sendable, Hashable {
        /// It was not started, or was stopped.
        case stopped
        /// The first frames are being decoded.
        case preparing
        /// Frames are shown when they are due.
        case playing
        /// It holds the frame it shows, or will begin once it is resumed.
        case paused
        /// All frames were shown as often as wanted.
        case finished
        /// A frame could not be decoded or processed; the one before it stays.
        case failed(DipperError)
    }

    struct Player {
        var schedule: AnimationSchedule<Image>
        var mailbox = AnimationMailbox()
        var hooks = AnimationHooks()
        var source: FrameSource?
        var current: (image: Image, index: Int)
    }

    /// What is to be done once the lock is released.
    private struct Work {
        var leftovers = Leftovers()
        var source: FrameSource?
        var wakeTime: Duration?
        var isCalling = false
    }

    /// What ends or is freed.
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

    /// How it plays.
    public let options: AnimationOptions
    /// Frames that the file has; 1 if it does not move.
    public let frameCount: Int
    private let content: FrameSource.Content
    private let scale: Double
    private let time: TimeSource
    private let timers: TimerQueue
    let player: Mutex<Player>

    /// A player at its beginning; it is started by ``start()``.
    /// - Parameters:
    ///   - image: with an ``Image/animation``; another one is shown once.
    ///   - options: how it plays.
    public init(_ image: Image, options: AnimationOptions = .init()) {
        self.options = options
        var first = image
        first.animation = nil
        content = image.animation.map { .animation($0) } ?? .still(first)
        scale = image.scale
        frameCount = image.animation?.frameCount ?? 1
        time = TimeSource(options.clock)
        timers = TimerQueue(time)
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
        timers.end()
        let (source, streams) = player.withLock { ($0.source, $0.hooks.streams.values) }
        source?.abandon()
        for stream in streams { stream.finish() }
    }

    // MARK: Calls

    /// Begins with the first frame; nothing happens if it plays already. While it is paused it waits for ``resume()``.
    public func start() { handle { schedule, now in schedule.start(now) } }

    /// Holds the frame that is shown, as for a display that is off the screen: nothing is told or decoded until
    /// ``resume()``. Frames that were decoded ahead are kept.
    public func pause() { handle { schedule, now in schedule.pause(now) } }

    /// Goes on: the frame that is shown has the rest of its time, then comes the next.
    public func resume() { handle { schedule, now in schedule.resume(now) } }

    /// Ends it without a word; it can be started again. Frames that were decoded ahead are let go of, and it is no longer
    /// paused.
    public func stop() { handle(isEnding: true) { schedule, _ in schedule.stop() } }

    /// Lets go of the frames that were decoded ahead, when memory is short; best while it is paused. It goes on with the
    /// same frame: all frames before that are decoded again, once, without being shown.
    public func releaseBuffer() { handle { schedule, now in schedule.releaseBuffer(now) } }

    /// What it is doing.
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

    /// The frame that is to be seen now; the picture itself until there is another one.
    public var currentFrame: Image { player.withLock { $0.current.image } }
    /// The number of ``currentFrame``, from 0.
    public var currentIndex: Int { player.withLock { $0.current.index } }

    // MARK: Driving the schedule

    private func handle(
        of source: FrameSource? = nil, isEnding: Bool = false,
        _ event: (inout AnimationSchedule<Image>, Duration) -> [AnimationSchedule<Image>.Action]
    ) {
        let now = time.now()
        var work = player.withLock { player -> Work in
            var work = Work()
            // What comes from a source that is no longer wanted is void.
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
            timers.schedule(at: due) { [weak self] in self?.handle { schedule, now in schedule.woken(now) } }
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

    // MARK: Telling

    private func call() {
        guard let run = options.callbackQueue.run else {
            while tell() {}
            return
        }
        run { [weak self] in
            if let self, self.tell() { self.call() }
        }
    }

    /// Tells what there is; what comes meanwhile waits for another call, so that the queue's other work has its turn.
    /// - Returns: true if another call is to be made.
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
