import DipperTesting
import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

@Suite("What players take", .timeLimit(.minutes(2)))
struct AnimatedMemoryTests {
    /// Each of two that decode and one that tells may still have in its hands what has just been shown.
    private static let threads = 3

    @Test("no more frames are held than are decoded ahead and shown, however many there are", arguments: [1, 3, 8])
    func bounded(buffer: Int) async throws {
        let film = Film(.init(repeating: .milliseconds(30), count: 500))
        let projector = Projector(try film.image(), AnimationOptions(loop: .never, bufferCount: buffer))
        try await projector.play()
        #expect(projector.frames == Array(0..<500) && projector.times.last == 499 * 30)
        #expect(film.decoded == Array(0..<500))
        #expect(film.mostHeld <= buffer + 1 + Self.threads)
        #expect(await settle { film.held == 1 })
    }

    #if GIF
        @Test("a GIF of 500 frames plays in the memory of a few")
        func longFile() async throws {
            let pictures = (0..<500).map { number in
                AnimationFrame(image: Self.stripes(number), duration: .milliseconds(40))
            }
            let image = try CodecRegistry.standard.decode(
                GIFEncoder().encode(pictures, loopCount: 1, EncodeOptions()))
            let watching = Watching()
            let shown = Box<[SIMD4<UInt8>]>([])
            let projector = Projector(image, AnimationOptions(bufferCount: 4, processors: [watching]))
            projector.player.onFrame { image, index in shown.update { $0.append(image[index % 32, 5]) } }
            try await projector.play()
            #expect(projector.frames == Array(0..<500) && projector.times.last == 499 * 40)
            #expect(shown.value == pictures.enumerated().map { $1.image[$0 % 32, 5] })
            #expect(watching.mostHeld <= 4 + 1 + Self.threads)
        }

        private static func stripes(_ number: Int) -> Image {
            var pixels: [UInt8] = []
            for position in 0..<32 * 24 {
                pixels += position % 32 == number % 32 ? [UInt8(number & 0xFF), 255, 0, 255] : [0, 0, 80, 255]
            }
            return Image(size: PixelSize(width: 32, height: 24), premultiplied: pixels) ?? .sample()
        }
    #endif

    @Test("fifty players share two threads, and each has its turn")
    func threads() async throws {
        let films = (0..<50).map { Film(.init(repeating: .milliseconds(10 + $0), count: 12), loopCount: 1) }
        let projectors = try films.map { Projector(try $0.image(), AnimationOptions(bufferCount: 2)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for projector in projectors { group.addTask { try await projector.play() } }
            try await group.waitForAll()
        }
        for projector in projectors { #expect(projector.frames == Array(0..<12)) }
        let threads = films.reduce(into: Set<UInt64>()) { $0.formUnion($1.threads) }
        #expect((1...2).contains(threads.count))
    }

    @Test("calls from many threads at once are fine, and hooks run one at a time", arguments: [true, false])
    func manyThreads(inPlace: Bool) async throws {
        let film = Film(.init(repeating: .milliseconds(1), count: 7))
        let queue = DispatchQueue(label: "display", attributes: .concurrent)
        let options = AnimationOptions(
            loop: .count(3), bufferCount: 3, delays: .atLeast(.milliseconds(1)),
            callbackQueue: inPlace ? .inPlace : .dispatch(queue))
        let player = AnimatedImage(try film.image(), options: options)
        let isBusy = Atomic(false)
        let calls = Atomic(0)
        let alone: @Sendable () -> Void = {
            let wasBusy = isBusy.exchange(true, ordering: .sequentiallyConsistent)
            #expect(!wasBusy)
            calls.add(1, ordering: .relaxed)
            isBusy.store(false, ordering: .sequentiallyConsistent)
        }
        player.onFrame { _, _ in alone() }.onPrepared(alone).onLoop { _ in alone() }.onFinish { [weak player] in
            alone()
            player?.start()
        }
        .onFail { _ in Issue.record("no frame is broken") }
        DispatchQueue.concurrentPerform(iterations: 6) { thread in
            var random = SteadyNumbers(UInt64(thread))
            for _ in 0..<400 {
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1: player.start()
                case 2: player.pause()
                case 3: player.resume()
                case 4: player.releaseBuffer()
                default: player.stop()
                }
                _ = (player.currentFrame, player.state)
            }
        }
        // It is whole afterwards.
        player.stop()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        player.onLoop { _ in end.yield() }
        player.start()
        for await _ in ends { break }
        player.stop()
        let count = calls.load(ordering: .relaxed)
        #expect(count > 0)
    }
}

/// A processor that counts the processed frames that are still in memory.
private final class Watching: ImageProcessor {
    private struct WeakStorage {
        weak var storage: PixelStorage?
    }

    private let frames = Mutex<(held: [WeakStorage], most: Int)>(([], 0))
    var identifier: String { "test.watching" }
    var mostHeld: Int { frames.withLock { $0.most } }

    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        frames.withLock { frames in
            frames.held.removeAll { $0.storage == nil }
            frames.held.append(WeakStorage(storage: image.storage))
            frames.most = max(frames.most, frames.held.count)
        }
        return image
    }
}
