/// Decides when each frame of an animation is decoded and shown. A value without clock, thread or decoder.
///
/// Frames are due by a timetable that begins with the first frame; delays do not move it. Of several decoded frames
/// that are due, only the newest is shown. After a delay of more than `patience` the timetable restarts.
struct AnimationSchedule: Sendable {
    struct Frame: Sendable {
        let image: Image
        /// The number in its pass, from 0.
        let index: Int
        let delay: Duration
    }

    enum Decoded: Sendable {
        case frame(Frame)
        /// The pass has no more frames. The next frame is the first.
        case passEnd
        case failure(DipperError)
    }

    enum Action: Sendable {
        /// Opens a source that begins with the first frame and skips a number of frames. Frames in progress are void.
        case open(skipping: Int)
        /// Asks for the next frame. There is at most one such request at a time.
        case decode
        case close
        case wake(at: Duration)
        case tell(Event)
    }

    enum Event: Sendable {
        case prepared
        case frame(Frame)
        case looped(Int)
        /// The error is `nil` if all frames have been shown.
        case ended(DipperError?)

        var isEnd: Bool { if case .ended = self { true } else { false } }

        /// Whether hooks that are told both at once need only the newer one.
        func replaces(_ older: Event) -> Bool {
            switch (self, older) {
            case (.frame, .frame), (.looped, .looped): true
            default: false
            }
        }
    }

    /// A longer delay, of a machine that slept or a decoder that is too slow, restarts the timetable.
    static var patience: Duration { .seconds(1) }

    private let bufferCount: Int
    private let passes: Int?

    /// Never `paused`.
    private var phase = AnimationPlayer.State.stopped
    private(set) var isPaused = false
    /// The time at which the next frame is due; while the schedule is paused, the time that is left until then.
    private var due = Duration.zero
    private var wakeTime: Duration?
    private var nextShown = 0
    private var passesShown = 0

    private var queue: [Decoded] = []
    private var isDecoding = false
    private var nextDecoded = 0
    private var passesDecoded = 0
    private var isExhausted = false

    init(bufferCount: Int, passes: Int?) {
        self.bufferCount = max(1, bufferCount)
        self.passes = passes
    }

    private var isPlaying: Bool { phase == .preparing || phase == .playing }

    var state: AnimationPlayer.State { isPaused && isPlaying ? .paused : phase }
    var hasEnded: Bool { phase != .stopped && !isPlaying }

    /// The frames that are decoded ahead.
    var frames: [Image] { queue.compactMap { if case .frame(let frame) = $0 { frame.image } else { nil } } }

    mutating func start(_ now: Duration) -> [Action] {
        guard !isPlaying else { return [] }
        clear(.preparing)
        return [.open(skipping: 0)] + proceed(now)
    }

    /// Stops the timetable, even that of a later start. Decoded frames are kept.
    mutating func pause(_ now: Duration) -> [Action] {
        guard !isPaused else { return [] }
        isPaused = true
        wakeTime = nil
        due = max(.zero, due - now)
        return []
    }

    mutating func resume(_ now: Duration) -> [Action] {
        guard isPaused else { return [] }
        isPaused = false
        due += now
        return proceed(now)
    }

    mutating func stop() -> [Action] {
        let wasPlaying = isPlaying
        clear(.stopped)
        isPaused = false
        return wasPlaying ? [.close] : []
    }

    mutating func releaseBuffer(_ now: Duration) -> [Action] {
        guard isPlaying else { return [] }
        dropFrames()
        nextDecoded = nextShown
        passesDecoded = passesShown
        return [.open(skipping: nextShown)] + proceed(now)
    }

    mutating func decoded(_ result: Decoded, _ now: Duration) -> [Action] {
        guard isPlaying else { return [] }
        isDecoding = false
        switch result {
        case .frame(let frame):
            nextDecoded = frame.index + 1
            queue.append(result)
        case .passEnd where nextDecoded > 0:
            queue.append(.passEnd)
            passesDecoded += 1
            // A single frame is not an animation.
            isExhausted = nextDecoded == 1 || passesDecoded == passes
            nextDecoded = 0
        case .passEnd:
            fail(.undecodable.with(detail: "there are no frames"))
        case .failure(let error):
            fail(error)
        }
        return proceed(now)
    }

    mutating func woken(_ now: Duration) -> [Action] {
        if let time = wakeTime, time <= now { wakeTime = nil }
        return proceed(now)
    }

    private mutating func fail(_ error: DipperError) {
        queue.append(.failure(error))
        isExhausted = true
    }

    private mutating func proceed(_ now: Duration) -> [Action] {
        guard isPlaying, !isPaused else { return [] }
        var actions: [Action] = []
        if phase == .preparing, buffered >= bufferCount || isExhausted {
            phase = .playing
            due = now
            // Without a first frame there is nothing to show.
            if case .failure? = queue.first {} else { actions.append(.tell(.prepared)) }
        }
        if phase == .playing { advance(now, &actions) }
        guard isPlaying else { return actions + [.close] }
        if !isDecoding, !isExhausted, buffered < bufferCount {
            isDecoding = true
            actions.append(.decode)
        }
        if phase == .playing, due > now, wakeTime != due, !queue.isEmpty {
            wakeTime = due
            actions.append(.wake(at: due))
        }
        return actions
    }

    private mutating func advance(_ now: Duration, _ actions: inout [Action]) {
        if now - due > Self.patience { due = now }
        while due <= now, phase == .playing, !queue.isEmpty {
            switch queue.removeFirst() {
            case .frame(let frame):
                // An earlier frame that is due at the same time is not shown.
                actions.removeAll { if case .tell(.frame) = $0 { true } else { false } }
                actions.append(.tell(.frame(frame)))
                nextShown = frame.index + 1
                // mutant Animat: `due += frame.delay` => `due = now + frame.delay`
                due += frame.delay
            case .passEnd:
                passesShown += 1
                actions.append(.tell(.looped(passesShown)))
                if passesShown == passes || nextShown == 1 { end(nil, &actions) }
                nextShown = 0
            case .failure(let error):
                end(error, &actions)
            }
        }
    }

    private var buffered: Int { queue.count { if case .frame = $0 { true } else { false } } }

    private mutating func end(_ error: DipperError?, _ actions: inout [Action]) {
        clear(error.map { .failed($0) } ?? .finished)
        actions.append(.tell(.ended(error)))
    }

    private mutating func dropFrames() {
        queue = []
        (isDecoding, isExhausted) = (false, false)
    }

    private mutating func clear(_ phase: AnimationPlayer.State) {
        self.phase = phase
        dropFrames()
        (nextShown, passesShown, nextDecoded, passesDecoded) = (0, 0, 0, 0)
        (due, wakeTime) = (.zero, nil)
    }
}
