import DipperData

/// Decides when which frame of an animation is decoded and shown: a value without clock, thread or decoder.
///
/// Frames are due on a timetable that runs from the first one: each is due when the one before has had its time, not so
/// long after it was really shown, so that lateness does not add up. Where several are due and decoded, only the newest
/// is shown. After more than `patience` the timetable begins anew.
struct AnimationSchedule<Picture: Sendable>: Sendable {
    struct Frame: Sendable {
        let picture: Picture
        /// In its pass; 0 is the first.
        let index: Int
        let delay: Duration
    }

    /// What the next frame turned out to be.
    enum Decoded: Sendable {
        case frame(Picture, delay: Duration)
        /// All frames have come; the next one is the first.
        case passEnd
        case failure(DipperError)
    }

    enum Action: Sendable {
        /// Frames come from the first again, but for so many that are passed over. Those that are under way are void.
        case open(skipping: Int)
        /// The next frame is wanted. There is not more than one such wish at a time.
        case decode
        /// No frames are wanted any more.
        case close
        case show(Frame)
        case prepared
        /// So often all frames have been shown.
        case looped(Int)
        case finished
        case failed(DipperError)
        /// ``woken(_:)`` is to be called at that time.
        case wake(at: Duration)
    }

    enum Phase: Sendable, Hashable {
        case idle
        case playing
        case finished
        case failed(DipperError)
    }

    private enum Entry: Sendable {
        case frame(Frame)
        case passEnd
        case failure(DipperError)
    }

    /// As long the timetable is kept although nothing could be shown: the machine slept, or the decoder is too slow.
    static var patience: Duration { .seconds(1) }

    /// Frames decoded ahead.
    private let bufferCount: Int
    /// How often all frames are shown; `nil` for ever.
    private let passes: Int?
    /// So few frames that they can all be kept.
    private var fits: Bool
    /// All frames, from elsewhere.
    private let preloaded: [Frame]?

    private(set) var phase = Phase.idle
    private(set) var isPaused = false
    private(set) var isPrepared = false
    /// When the next frame is due; while it is paused: how long it has to wait.
    private var due = Duration.zero
    private var wakeTime: Duration?
    /// The index of the frame that is shown next, if the pass has one more.
    private var nextShown = 0
    private var passesShown = 0

    private var queue: [Entry] = []
    private var buffered = 0
    private var isDecoding = false
    private var nextDecoded = 0
    private var passesDecoded = 0
    /// Nothing comes after what has been decoded.
    private var isExhausted = false
    /// The frames of this pass so far, if all can be kept.
    private var kept: [Frame]?
    /// All frames: they are not decoded again.
    private var whole: [Frame]?
    /// Frames that are let go of, to be freed where no lock is held.
    private var dropped: [Frame] = []

    /// - Parameters:
    ///   - frameCount: as the file says.
    ///   - preloaded: all frames, if they are there already.
    init(
        bufferCount: Int, passes: Int?, frameCount: Int, preloaded: [(picture: Picture, delay: Duration)]? = nil
    ) {
        self.bufferCount = max(1, bufferCount)
        self.passes = passes
        fits = frameCount <= self.bufferCount
        precondition(preloaded?.isEmpty != true, "An animation that is there has frames.")
        self.preloaded = preloaded?.enumerated().map { Frame(picture: $1.picture, index: $0, delay: $1.delay) }
    }

    /// Frames that are no longer held; to be called after each event.
    mutating func takeDropped() -> [Frame] {
        defer { dropped = [] }
        return dropped
    }

    // MARK: What its user wants

    /// Begins with the first frame. Nothing happens while it plays.
    mutating func start(_ now: Duration) -> [Action] {
        guard phase != .playing else { return [] }
        clear()
        phase = .playing
        whole = preloaded
        kept = fits ? [] : nil
        return (preloaded == nil ? [.open(skipping: 0)] : []) + proceed(now)
    }

    /// Stops the timetable, also of what is started later. What is decoded is kept.
    mutating func pause(_ now: Duration) -> [Action] {
        guard !isPaused else { return [] }
        isPaused = true
        wakeTime = nil
        due = max(.zero, due - now)
        return []
    }

    /// Goes on where it was paused.
    mutating func resume(_ now: Duration) -> [Action] {
        guard isPaused else { return [] }
        isPaused = false
        due += now
        return proceed(now)
    }

    /// Ends without a word.
    mutating func stop() -> [Action] {
        let wasPlaying = phase == .playing
        clear()
        phase = .idle
        isPaused = false
        return wasPlaying ? [.close] : []
    }

    /// Lets go of all frames that were decoded ahead; they are decoded again when they are needed.
    mutating func releaseBuffer(_ now: Duration) -> [Action] {
        guard phase == .playing, preloaded == nil else { return [] }
        dropFrames()
        nextDecoded = nextShown
        passesDecoded = passesShown
        // Only a pass that is seen from its first frame can be kept.
        kept = fits && nextShown == 0 ? [] : nil
        return [.open(skipping: nextShown)] + proceed(now)
    }

    // MARK: What happens

    /// The frame that was wanted has come.
    mutating func decoded(_ result: Decoded, _ now: Duration) -> [Action] {
        guard phase == .playing else { return [] }
        isDecoding = false
        switch result {
        case .frame(let picture, let delay):
            let frame = Frame(picture: picture, index: nextDecoded, delay: delay)
            nextDecoded += 1
            queue.append(.frame(frame))
            buffered += 1
            // The file may have more frames than it says.
            if frame.index >= bufferCount { fits = false }
            kept = fits ? kept.map { $0 + [frame] } : nil
        case .passEnd where nextDecoded > 0:
            queue.append(.passEnd)
            passesDecoded += 1
            // A single frame does not move.
            isExhausted = nextDecoded == 1 || passesDecoded == passes
            whole = kept
            kept = fits ? [] : nil
            nextDecoded = 0
        case .passEnd:
            fail(.undecodable.with(detail: "there are no frames"))
        case .failure(let error):
            fail(error)
        }
        return proceed(now)
    }

    /// The time that was asked for has come.
    mutating func woken(_ now: Duration) -> [Action] {
        if let time = wakeTime, time <= now { wakeTime = nil }
        return proceed(now)
    }

    private mutating func fail(_ error: DipperError) {
        queue.append(.failure(error))
        isExhausted = true
    }

    // MARK: Going on

    private mutating func proceed(_ now: Duration) -> [Action] {
        guard phase == .playing, !isPaused else { return [] }
        var actions: [Action] = []
        if !isPrepared, buffered >= bufferCount || isExhausted || whole != nil {
            isPrepared = true
            due = now
            // If there is no first frame, there is nothing to prepare for.
            if case .failure? = queue.first {} else { actions.append(.prepared) }
        }
        if isPrepared { advance(now, &actions) }
        guard phase == .playing else { return actions + [.close] }
        if !isDecoding, !isExhausted, whole == nil, buffered < bufferCount {
            isDecoding = true
            actions.append(.decode)
        }
        if isPrepared, due > now, wakeTime != due, !queue.isEmpty || whole != nil {
            wakeTime = due
            actions.append(.wake(at: due))
        }
        return actions
    }

    /// Goes through what is due.
    private mutating func advance(_ now: Duration, _ actions: inout [Action]) {
        if now - due > Self.patience { due = now }
        while due <= now, phase == .playing, let entry = takeNext() {
            switch entry {
            case .frame(let frame):
                // One that is overdue as well is not shown.
                let skipped = actions.firstIndex { if case .show = $0 { true } else { false } }
                if let skipped, case .show(let frame) = actions.remove(at: skipped) { dropped.append(frame) }
                actions.append(.show(frame))
                nextShown = frame.index + 1
                due += frame.delay
            case .passEnd:
                passesShown += 1
                actions.append(.looped(passesShown))
                if passesShown == passes || nextShown == 1 { end(.finished, .finished, &actions) }
                nextShown = 0
            case .failure(let error):
                end(.failed(error), .failed(error), &actions)
            }
        }
    }

    private mutating func takeNext() -> Entry? {
        if !queue.isEmpty {
            let entry = queue.removeFirst()
            if case .frame = entry { buffered -= 1 }
            return entry
        }
        return whole.map { nextShown < $0.count ? .frame($0[nextShown]) : .passEnd }
    }

    private mutating func end(_ phase: Phase, _ action: Action, _ actions: inout [Action]) {
        clear()
        self.phase = phase
        actions.append(action)
    }

    private mutating func dropFrames() {
        for case .frame(let frame) in queue { dropped.append(frame) }
        dropped += (kept ?? []) + (whole ?? [])
        queue = []
        buffered = 0
        (kept, whole) = (nil, nil)
        (isDecoding, isExhausted) = (false, false)
    }

    private mutating func clear() {
        dropFrames()
        (nextShown, passesShown, nextDecoded, passesDecoded) = (0, 0, 0, 0)
        (isPrepared, due, wakeTime) = (false, .zero, nil)
    }
}
