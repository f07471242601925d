import Synchronization
import TestSupport

/// Animations made by encoding: the number of a frame is its colour.
enum Film {
    /// Returns the picture of frame `number`. In the first 256 frames its blue is the number.
    static func picture(_ number: Int) -> Image { .filled(with: Color(hex: UInt32(number)), 4, 3) }

    static func number(of image: Image) -> Int {
        let pixel = image[0, 0]
        return Int(pixel.x) << 16 | Int(pixel.y) << 8 | Int(pixel.z)
    }

    static func file(_ durations: [Int], loopCount: Int = 0, as format: ImageFormat = .gif) throws -> Data {
        let frames = durations.enumerated().map { AnimationFrame(image: picture($0), duration: .milliseconds($1)) }
        var options = EncodeOptions()
        options.isLossless = true
        return try CodecRegistry.standard.encoder(for: format).encode(frames, loopCount: loopCount, options)
    }

    static func image(
        _ durations: [Int], loopCount: Int = 0, as format: ImageFormat = .gif, preloaded: Bool = false
    ) throws -> Image {
        var options = DecodeOptions()
        options.preloadsFrames = preloaded
        return try CodecRegistry.standard.decode(file(durations, loopCount: loopCount, as: format), options)
    }
}

/// A processor that sees each frame that a player decodes, and counts those that are still in memory.
final class FrameWatch: ImageProcessor {
    private struct State {
        var decoded: [Int] = []
        var frames: [WeakStorage] = []
        var mostHeld = 0
        var threads: Set<UInt64> = []
        var limits: [DecodeLimits] = []
    }

    private struct WeakStorage {
        weak var storage: PixelStorage?
    }

    /// The call that fails, from 0.
    private let failsAt: Int
    private let state = WatchedState(State())
    var identifier: String { "test.watch" }

    init(failsAt: Int = .max) { self.failsAt = failsAt }

    var decoded: [Int] { state.value.decoded }
    var held: Int { state.value.frames.count { $0.storage != nil } }
    var mostHeld: Int { state.value.mostHeld }
    var threads: Set<UInt64> { state.value.threads }
    var limits: [DecodeLimits] { state.value.limits }

    func waitForDecoded(_ count: Int) async throws { try await state.wait { $0.decoded.count >= count } }

    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        let thread = UInt64(pthread_self())
        let count = state.update { state in
            state.decoded.append(Film.number(of: image))
            state.frames.removeAll { $0.storage == nil }
            state.frames.append(WeakStorage(storage: image.storage))
            state.mostHeld = max(state.mostHeld, state.frames.count)
            state.threads.insert(thread)
            state.limits.append(context.limits)
            return state.decoded.count
        }
        guard count - 1 != failsAt else { throw .processingFailed }
        return image
    }
}

/// A player on a clock that the test advances, with a record of its events and their times.
final class Projector: Sendable {
    enum Event: Sendable, Hashable {
        case prepared
        /// The number of the frame, and the number that its picture shows.
        case frame(Int, picture: Int)
        case looped(Int)
        case finished
        case failed(DipperError)

        var isFrame: Bool { if case .frame = self { true } else { false } }
    }

    let clock = ManualClock()
    let player: AnimationPlayer
    /// The events so far, with their times in milliseconds.
    let told = Box<[(event: Event, time: Int)]>([])
    private let events: AsyncStream<Event>

    init(
        _ image: Image, _ options: AnimationOptions = .init(),
        then: @escaping @Sendable (Event, AnimationPlayer) -> Void = { _, _ in }
    ) {
        var options = options
        options.clock = clock
        options.callbackQueue = .inPlace
        player = AnimationPlayer(image, options: options)
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        self.events = events
        let tell: @Sendable (Event) -> Void = { [weak self] event in
            guard let self else { return }
            let time = Int(clock.now.offset / .milliseconds(1))
            told.update { $0.append((event, time)) }
            then(event, player)
            continuation.yield(event)
        }
        player.onFrame { image, index in tell(.frame(index, picture: Film.number(of: image))) }
            .onPrepared { tell(.prepared) }.onLoop { tell(.looped($0)) }.onFinish { tell(.finished) }
            .onFail { tell(.failed($0)) }
    }

    /// Plays to the end, or until `count` frames were shown, and advances the clock to each due time.
    func play(frames count: Int = .max) async throws {
        player.start()
        try await run(frames: count)
    }

    func run(frames count: Int = .max) async throws {
        var shown = 0
        for await event in events {
            switch event {
            case .finished, .failed: return
            case .prepared, .looped: continue
            case .frame: shown += 1
            }
            if shown == count { return }
            if player.state == .finished { continue }
            try await clock.wake()
        }
    }

    var frames: [Int] { told.value.compactMap { if case .frame(let index, _) = $0.event { index } else { nil } } }
    var pictures: [Int] { told.value.compactMap { if case .frame(_, let picture) = $0.event { picture } else { nil } } }
    /// The times at which frames were shown, in milliseconds.
    var times: [Int] { told.value.filter(\.event.isFrame).map(\.time) }
    var others: [Event] { told.value.map(\.event).filter { !$0.isFrame } }
}
