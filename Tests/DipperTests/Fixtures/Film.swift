import DipperTesting
import Foundation
import Synchronization
import Testing

@testable import Dipper

/// A decoder of an artificial animation that records the decoded frames and the decoding threads.
final class Film: ImageDecoder {
    private struct State {
        var decoded: [Int] = []
        var rewinds = 0
        var decoders = 0
        var threads: Set<UInt64> = []
        var frames: [WeakStorage] = []
        var mostHeld = 0
    }

    private struct WeakStorage {
        weak var storage: PixelStorage?
    }

    let format = ImageFormat(rawValue: "film")
    let delays: [Duration]
    let loopCount: Int
    /// The broken frame, and the pass in which decoding it fails.
    let broken: (frame: Int, pass: Int)?
    private let state = WatchedState(State())

    init(_ delays: [Duration], loopCount: Int = 0, broken: (frame: Int, pass: Int)? = nil) {
        self.delays = delays
        self.loopCount = loopCount
        self.broken = broken
    }

    func recognizes(_ start: Data) -> Bool { false }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try picture(Reel(self), of: data, options)
    }

    func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? { Reel(self) }

    /// Returns the first frame as an image with the animation, and clears the record.
    func image(preloaded: Bool = false) throws -> Image {
        var options = DecodeOptions()
        options.preloadsFrames = preloaded
        let image = try decode(Data("film".utf8), options)
        state.update { $0 = State() }
        return image
    }

    /// The numbers of all decoded frames, in order.
    var decoded: [Int] { state.value.decoded }
    var rewinds: Int { state.value.rewinds }
    var decoders: Int { state.value.decoders }
    var threads: Set<UInt64> { state.value.threads }
    /// The largest number of decoded frames that were in memory at once.
    var mostHeld: Int { state.value.mostHeld }
    var held: Int { state.value.frames.count { $0.storage != nil } }

    /// Waits until `count` frames have been decoded.
    func wait(forDecoded count: Int) async throws {
        try await state.wait { $0.decoded.count >= count }
    }

    /// The frames of a film, in one pass after the other.
    private final class Reel: CountedFrames {
        private let film: Film
        private let isBusy = Atomic(false)
        private var position = 0
        private var pass = 0

        init(_ film: Film) {
            self.film = film
            film.state.update { $0.decoders += 1 }
        }

        var frameCount: Int { film.delays.count }
        var loopCount: Int { film.loopCount }

        func rewind() {
            position = 0
            pass += 1
            film.state.update { $0.rewinds += 1 }
        }

        func next() throws(DipperError) -> AnimationFrame? {
            let wasBusy = isBusy.exchange(true, ordering: .sequentiallyConsistent)
            #expect(!wasBusy)
            defer { isBusy.store(false, ordering: .sequentiallyConsistent) }
            if let broken = film.broken, broken.frame == position, broken.pass == pass { throw .undecodable }
            guard position < frameCount else { return nil }
            let image = Image.sample(4, 3, seed: UInt8(position & 0xFF))
            let thread = UInt64(pthread_self())
            film.state.update { state in
                state.decoded.append(position)
                state.threads.insert(thread)
                state.frames.removeAll { $0.storage == nil }
                state.frames.append(WeakStorage(storage: image.storage))
                state.mostHeld = max(state.mostHeld, state.frames.count)
            }
            defer { position += 1 }
            return AnimationFrame(image: image, duration: film.delays[position])
        }
    }
}

/// A player on a clock that the test advances, with a record of its events and their times.
final class Projector: Sendable {
    enum Event: Sendable, Hashable {
        case prepared
        case frame(Int, UInt8)
        case looped(Int)
        case finished
        case failed(DipperError)
    }

    let clock = ManualClock()
    let player: AnimatedImage
    private let events: AsyncStream<Event>
    /// The events so far, with their times in milliseconds.
    let told = Mutex<[(event: Event, time: Int)]>([])

    /// - Parameter then: called in place with each event.
    init(
        _ image: Image, _ options: AnimationOptions = .init(),
        then: @escaping @Sendable (Event, AnimatedImage) -> Void = { _, _ in }
    ) {
        var options = options
        options.clock = clock
        options.callbackQueue = .inPlace
        player = AnimatedImage(image, options: options)
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        self.events = events
        let tell: @Sendable (Event) -> Void = { [weak self] event in
            guard let self else { return }
            let time = Int(clock.now.offset / .milliseconds(1))
            told.withLock { $0.append((event, time)) }
            then(event, player)
            continuation.yield(event)
        }
        player.onFrame { image, index in tell(.frame(index, image[0, 0].z)) }.onPrepared { tell(.prepared) }
            .onLoop { tell(.looped($0)) }.onFinish { tell(.finished) }.onFail { tell(.failed($0)) }
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
            try await clock.waitForSleepers(1)
            clock.advanceToNextSleeper()
        }
    }

    var frames: [Int] {
        told.withLock { told in
            told.compactMap { if case .frame(let index, _) = $0.event { index } else { nil } }
        }
    }

    /// The times at which frames were shown, in milliseconds.
    var times: [Int] {
        told.withLock { told in told.compactMap { if case .frame = $0.event { $0.time } else { nil } } }
    }

    var others: [Event] {
        told.withLock { told in told.map(\.event).filter { if case .frame = $0 { false } else { true } } }
    }
}
