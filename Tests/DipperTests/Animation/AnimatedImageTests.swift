import DipperTesting
import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

@Suite("Playing a picture that moves", .timeLimit(.minutes(2)))
struct AnimatedImageTests {
    private static let even: [Duration] = .init(repeating: .milliseconds(50), count: 6)

    #if GIF && WebP
        @Test(
            "every frame of a file is shown in order, at its time",
            arguments: ["gif/mixed.gif", "gif/keep.gif", "gif/restore.gif", "webp/moving.webp", "webp/floating.webp"],
            [1, 3, 20])
        func files(path: String, buffer: Int) async throws {
            let image = try CodecRegistry.standard.decode(Pictures.data(path))
            let frames = try #require(image.animation).makeFrameDecoder().rest()
            let shown = Box<[[UInt8]]>([])
            let projector = Projector(image, AnimationOptions(loop: .count(2), bufferCount: buffer))
            projector.player.onFrame { image, _ in shown.update { $0.append(image.pixels) } }
            try await projector.play()
            #expect(shown.value == (frames + frames).map(\.image.pixels))
            var time = 0
            for (frame, shownAt) in zip(frames + frames, projector.times) {
                #expect(shownAt == time)
                time += max(0, Int(FrameDelays.browsers.delay(of: frame.duration) / .milliseconds(1)))
            }
            #expect(projector.others == [.prepared, .looped(1), .looped(2), .finished])
            #expect(projector.told.withLock { $0.last?.time } == time)
        }
    #endif

    @Test(
        "it loops as often as wanted and finishes once",
        arguments: [
            (AnimationOptions.LoopMode.asInFile, 1, 1), (.asInFile, 3, 3), (.never, 0, 1), (.never, 3, 1),
            (.count(2), 0, 2), (.count(4), 1, 4), (.count(0), 0, 1),
        ])
    func loops(loop: AnimationOptions.LoopMode, inFile: Int, passes: Int) async throws {
        let film = Film([.milliseconds(20), .milliseconds(30), .milliseconds(40)], loopCount: inFile)
        let projector = Projector(try film.image(), AnimationOptions(loop: loop, bufferCount: 2))
        try await projector.play()
        #expect(projector.frames == (0..<passes).flatMap { _ in [0, 1, 2] })
        let times = (0..<passes).flatMap { pass in [0, 20, 50].map { pass * 90 + $0 } }
        #expect(projector.times == times)
        let loops = (1...passes).map { Projector.Event.looped($0) }
        #expect(projector.others == [.prepared] + loops + [.finished])
        #expect(projector.player.state == .finished && projector.player.currentIndex == 2)
        #expect(film.rewinds == passes - 1)
        // Nothing is held but the one that is shown.
        #expect(projector.clock.sleeperCount == 0)
    }

    @Test("for ever, or as a file says that loops for ever, it goes on", arguments: [(true, 5), (false, 0)])
    func forever(isForced: Bool, inFile: Int) async throws {
        let film = Film([.milliseconds(20), .milliseconds(30), .milliseconds(40)], loopCount: inFile)
        let options = AnimationOptions(loop: isForced ? .forever : .asInFile)
        let projector = Projector(try film.image(), options)
        try await projector.play(frames: 40)
        #expect(projector.frames == (0..<40).map { $0 % 3 } && projector.times.last == 13 * 90)
        #expect(!projector.others.contains(.finished))
        // They fit into the buffer.
        #expect(film.decoded == [0, 1, 2])
        projector.player.stop()
        #expect(projector.player.state == .stopped)
    }

    @Test("frames without a time are shown for 100 ms, decoded ahead or not", arguments: [false, true])
    func delays(preloaded: Bool) async throws {
        let film = Film([.zero, .milliseconds(10), .milliseconds(100), .milliseconds(20)], loopCount: 1)
        let projector = Projector(try film.image(preloaded: preloaded))
        try await projector.play()
        #expect(projector.times == [0, 100, 200, 300])
        #expect(film.decoders == (preloaded ? 0 : 1))
    }

    @Test(
        "frames have the scale of the picture, before they are processed and when they are shown",
        arguments: [false, true], [false, true])
    func scale(preloaded: Bool, isProcessed: Bool) async throws {
        let film = Film(Array(Self.even.prefix(3)), loopCount: 1)
        var image = try film.image(preloaded: preloaded)
        image.scale = 2
        let corners = ImageProcessors.RoundedCorners(radius: .points(0.8))
        let shown = Box<[Image]>([])
        let projector = Projector(image, AnimationOptions(processors: isProcessed ? [corners] : []))
        projector.player.onFrame { image, _ in shown.update { $0.append(image) } }
        try await projector.play()
        #expect(shown.value.map(\.scale) == [2, 2, 2])
        let first = isProcessed ? try corners.process(image, .init()).pixels : image.pixels
        #expect(shown.value.first?.pixels == first)
    }

    @Test("processors of a player have the limits of the picture")
    func limits() async throws {
        var options = DecodeOptions()
        options.limits.frames = 77
        let image = try Film(Array(Self.even.prefix(2)), loopCount: 1).decode(Data(), options)
        let seen = Box<[Int]>([])
        let noting = ImageProcessors.Custom("noting") { image, context throws(DipperError) in
            seen.update { $0.append(context.limits.frames) }
            return image
        }
        try await Projector(image, AnimationOptions(processors: [noting])).play()
        #expect(seen.value == [77, 77])
    }

    @Test("frames that were decoded ahead are shown themselves")
    func preloaded() async throws {
        let film = Film(Self.even, loopCount: 2)
        let image = try film.image(preloaded: true)
        let shown = Box<[ObjectIdentifier]>([])
        let projector = Projector(image)
        projector.player.onFrame { image, _ in shown.update { $0.append(ObjectIdentifier(image.storage)) } }
        try await projector.play()
        let frames = try #require(image.animation?.preloaded).map { ObjectIdentifier($0.image.storage) }
        #expect(shown.value == frames + frames && film.decoders == 0)
    }

    @Test("a picture that does not move is one frame, and ends", arguments: [false, true])
    func still(isProcessed: Bool) async throws {
        let image = Image.sample()
        let options = AnimationOptions(loop: .forever, processors: isProcessed ? [Shading()] : [])
        let projector = Projector(image, options)
        #expect(projector.player.frameCount == 1 && projector.player.currentFrame.pixels == image.pixels)
        try await projector.play()
        #expect(projector.frames == [0] && projector.others == [.prepared, .looped(1), .finished])
        #expect((projector.player.currentFrame.pixels == image.pixels) == !isProcessed)
    }

    @Test("a processor sees every frame once; one that fails ends it", arguments: [Int.max, 4])
    func processors(failsAt: Int) async throws {
        let film = Film(Self.even, loopCount: 2)
        let shading = Shading(failsAt: failsAt)
        let projector = Projector(try film.image(), AnimationOptions(bufferCount: 2, processors: [shading]))
        try await projector.play()
        let shades = projector.told.withLock { told in
            told.compactMap { if case .frame(_, let shade) = $0.event { Int(shade) } else { nil } }
        }
        let all = [100, 101, 102, 103, 104, 105]
        #expect(shades == (failsAt == .max ? all + all : Array(all.prefix(4))))
        #expect(projector.others.last == (failsAt == .max ? .finished : .failed(.processingFailed)))
    }

    @Test("a broken frame leaves the one before, and is told once", arguments: [(3, 0), (1, 1), (5, 1), (0, 1)])
    func broken(frame: Int, pass: Int) async throws {
        let film = Film(Self.even, broken: (frame, pass))
        let projector = Projector(try film.image(), AnimationOptions(loop: .forever, bufferCount: 2))
        try await projector.play()
        let count = pass * 6 + frame
        #expect(projector.frames == (0..<count).map { $0 % 6 })
        #expect(projector.others.filter { $0 == .failed(.undecodable) }.count == 1)
        #expect(projector.others.last == .failed(.undecodable) && !projector.others.contains(.finished))
        #expect(projector.player.state == .failed(.undecodable))
        #expect(
            projector.player.currentIndex == (count - 1) % 6 && projector.told.withLock { $0.last?.time } == count * 50)
    }

    @Test("a pause holds the frame; then it has the rest of its time", arguments: [false, true])
    func pausing(releases: Bool) async throws {
        let film = Film(Self.even, loopCount: 1)
        let projector = Projector(try film.image(), AnimationOptions(bufferCount: 2))
        let (clock, player) = (projector.clock, projector.player)
        try await projector.play(frames: 3)
        try await film.wait(forDecoded: 5)
        try await clock.waitForSleepers(1)
        clock.advance(by: .milliseconds(20))
        player.pause()
        #expect(player.state == .paused)
        clock.advance(by: .seconds(100))
        if releases {
            player.releaseBuffer()
            #expect(await settle { film.held <= 2 })
        }
        #expect(projector.frames == [0, 1, 2] && player.currentIndex == 2)
        player.resume()
        #expect(player.state == .playing)
        try await clock.waitForSleepers(1)
        clock.advanceToNextSleeper()
        try await projector.run()
        #expect(projector.frames == [0, 1, 2, 3, 4, 5])
        #expect(projector.times == [0, 50, 100, 100_150, 100_200, 100_250])
        #expect(film.decoded == (releases ? [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5] : [0, 1, 2, 3, 4, 5]))
    }

    @Test("who comes late sees the newest frame that is due, and the timetable stays")
    func late() async throws {
        let film = Film(.init(repeating: .milliseconds(50), count: 20))
        let projector = Projector(try film.image(), AnimationOptions(loop: .never, bufferCount: 8))
        let clock = projector.clock
        try await projector.play(frames: 2)
        try await film.wait(forDecoded: 10)
        try await clock.waitForSleepers(1)
        clock.advance(by: .milliseconds(220))
        try await projector.run(frames: 1)
        #expect(projector.frames == [0, 1, 5] && projector.times == [0, 50, 270])
        try await clock.waitForSleepers(1)
        clock.advanceToNextSleeper()
        try await projector.run(frames: 1)
        #expect(projector.times.last == 300)
    }

    @Test("after the machine slept it goes on where it was")
    func sleeping() async throws {
        let film = Film(.init(repeating: .milliseconds(50), count: 20))
        let projector = Projector(try film.image(), AnimationOptions(loop: .never))
        try await projector.play(frames: 2)
        try await projector.clock.waitForSleepers(1)
        projector.clock.advance(by: .seconds(3_600))
        try await projector.run(frames: 3)
        #expect(projector.frames == [0, 1, 2, 3, 4])
        #expect(projector.times == [0, 50, 3_600_050, 3_600_100, 3_600_150])
    }

    @Test("after a stop in a hook nothing is told", arguments: [Projector.Event.prepared, .frame(2, 2), .looped(1)])
    func stoppingInside(event: Projector.Event) async throws {
        let film = Film(.init(repeating: .milliseconds(50), count: 3))
        let stopped = AsyncStream.makeStream(of: Void.self)
        let projector = Projector(try film.image(), AnimationOptions(loop: .forever, bufferCount: 2)) { told, player in
            guard told == event else { return }
            player.stop()
            stopped.continuation.finish()
        }
        let playing = Task { try await projector.play() }
        for await _ in stopped.stream {}
        let count = projector.told.withLock(\.count)
        #expect(projector.told.withLock { $0.last?.event } == event)
        #expect(projector.player.state == .stopped && projector.clock.sleeperCount <= 1)
        projector.clock.advance(by: .seconds(10))
        #expect(projector.told.withLock(\.count) == count)
        playing.cancel()
    }

    @Test("it can be started again when it has finished, also in a hook")
    func again() async throws {
        let film = Film(Self.even, loopCount: 1)
        let rounds = Box(0)
        let projector = Projector(try film.image(), AnimationOptions(bufferCount: 2)) { told, player in
            guard told == .finished else { return }
            rounds.update { $0 += 1 }
            if rounds.value < 3 { player.start() }
        }
        for _ in 0..<2 { try await projector.play() }
        try await projector.run()
        #expect(projector.frames == (0..<18).map { $0 % 6 })
        #expect(projector.others.count { $0 == .prepared } == 3 && film.decoders == 3)
    }

    @Test("a queue that is blocked finds the newest frame, not a row of them")
    func blocked() async throws {
        let film = Film(Self.even)
        let clock = ManualClock()
        let queue = DispatchQueue(label: "display")
        let gate = DispatchSemaphore(value: 0)
        let seen = Box<[Int]>([])
        let (loops, loop) = AsyncStream.makeStream(of: Int.self)
        let options = AnimationOptions(bufferCount: 6, clock: clock, callbackQueue: .dispatch(queue))
        let player = AnimatedImage(try film.image(), options: options)
        player.onFrame { _, index in
            seen.update { $0.append(index) }
            if seen.value == [0] { gate.wait() }
        }
        .onLoop { loop.yield($0) }.start()
        #expect(await settle { seen.value == [0] })
        for _ in 0..<15 {
            try await clock.waitForSleepers(1)
            clock.advanceToNextSleeper()
        }
        // The timetable went on; the last wake has been handled when there is a new one.
        try await clock.waitForSleepers(1)
        #expect(player.currentIndex == 3 && seen.value == [0])
        gate.signal()
        for await count in loops {
            #expect(count == 2)
            break
        }
        queue.sync {}
        #expect(seen.value == [0, 3])
        player.stop()
    }

    @Test("after a stop on the callback queue nothing comes, not even what was on its way")
    func stoppingOnQueue() async throws {
        let film = Film(Self.even)
        let queue = DispatchQueue(label: "display")
        let seen = Box(0)
        for _ in 0..<20 {
            let options = AnimationOptions(
                delays: .atLeast(.milliseconds(1)), processors: [], callbackQueue: .dispatch(queue))
            let (frames, frame) = AsyncStream.makeStream(of: Void.self)
            let player = AnimatedImage(try film.image(), options: options)
            player.onFrame { _, _ in
                seen.update { $0 += 1 }
                frame.yield()
            }
            .start()
            for await _ in frames { break }
            let count = queue.sync {
                player.stop()
                return seen.value
            }
            queue.sync {}
            #expect(seen.value == count)
        }
    }

    @Test("letting go of a player stops it and ends its streams")
    func letGo() async throws {
        let film = Film(Self.even)
        let clock = ManualClock()
        var player: AnimatedImage? = AnimatedImage(
            try film.image(), options: AnimationOptions(bufferCount: 2, clock: clock, callbackQueue: .inPlace))
        let frames = try #require(player?.frames)
        player?.start()
        var iterator = frames.makeAsyncIterator()
        #expect(await iterator.next() != nil)
        try await clock.waitForSleepers(1)
        player = nil
        while await iterator.next() != nil {}
        #expect(await settle { clock.sleeperCount == 0 })
    }

    @Test("frames come as a stream as well, which ends with the animation", arguments: [false, true])
    func stream(isBroken: Bool) async throws {
        let film = Film(Self.even, loopCount: 1, broken: isBroken ? (5, 0) : nil)
        let projector = Projector(try film.image())
        let frames = projector.player.frames
        let reading = Task {
            var last: Image?
            for await frame in frames { last = frame }
            return last
        }
        try await projector.play()
        #expect(await reading.value?[0, 0].z == (isBroken ? 4 : 5))
    }
}

/// A processor that changes a colour, which shows that a frame was processed.
struct Shading: ImageProcessor {
    var failsAt = Int.max
    var identifier: String { "test.shading" }

    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        var pixels = image.pixels
        if pixels[2] == failsAt { throw .processingFailed }
        for start in stride(from: 2, to: pixels.count, by: 4) { pixels[start] += 100 }
        guard let shaded = Image(size: image.size, premultiplied: pixels) else { throw .processingFailed }
        return shaded
    }
}
