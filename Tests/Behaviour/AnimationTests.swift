#if GIF && WebP
    import Dispatch
    import Synchronization
    import TestSupport
    import Testing

    @Suite("A player of an animation", .timeLimit(.minutes(2)))
    struct AnimationTests {
        private static let even = [Int](repeating: 50, count: 6)

        @Test(
            "shows each frame at its time, all as often as wanted, and finishes once",
            arguments: [
                (AnimationOptions.LoopMode.asInFile, 1, 1), (.asInFile, 3, 3), (.never, 0, 1), (.never, 3, 1),
                (.count(2), 0, 2), (.count(4), 1, 4), (.count(0), 0, 1),
            ], [1, 2, 20])
        func loops(_ mode: (loop: AnimationOptions.LoopMode, inFile: Int, passes: Int), buffer: Int) async throws {
            let watch = FrameWatch()
            let image = try Film.image([20, 30, 40], loopCount: mode.inFile)
            let options = AnimationOptions(loop: mode.loop, bufferCount: buffer, processors: [watch])
            let projector = Projector(image, options)
            #expect(projector.player.state == .stopped && projector.player.frameCount == 3)
            try await projector.play()
            let all = (0..<mode.passes).flatMap { _ in [0, 1, 2] }
            #expect(projector.frames == all && projector.pictures == all)
            let times: [Int] = (0..<mode.passes).flatMap { pass in [0, 20, 50].map { pass * 90 + $0 } }
            let loops = (1...mode.passes).map { Projector.Event.looped($0) }
            #expect(projector.times == times && projector.others == [.prepared] + loops + [.finished])
            #expect(projector.told.value.last?.time == mode.passes * 90)
            #expect(projector.player.state == .finished && projector.player.currentIndex == 2)
            // Frames that all fit into the buffer are decoded once.
            #expect(watch.decoded == (buffer < 3 ? all : [0, 1, 2]))
        }

        @Test("loops until it is stopped where the file or the caller wants that", arguments: [(true, 5), (false, 0)])
        func forever(isForced: Bool, inFile: Int) async throws {
            let options = AnimationOptions(loop: isForced ? .forever : .asInFile)
            let projector = Projector(try Film.image([20, 30, 40], loopCount: inFile), options)
            try await projector.play(frames: 40)
            #expect(projector.frames == (0..<40).map { $0 % 3 } && projector.times.last == 13 * 90)
            #expect(!projector.others.contains(.finished))
            projector.player.stop()
            #expect(projector.player.state == .stopped)
        }

        @Test(
            "shows frames of 10 ms or less for 100 ms, as browsers do, or for the least duration that was set",
            arguments: [
                (FrameDelays.browsers, [0, 10, 11, 20, 100], [100, 100, 11, 20, 100]),
                (.atLeast(.milliseconds(20)), [0, 10, 11, 20, 100], [20, 20, 20, 20, 100]),
                (.atLeast(.zero), [0, 1, 10, 11], [1, 1, 10, 11]),
            ], [false, true])
        func delays(_ rule: (delays: FrameDelays, inFile: [Int], shown: [Int]), preloaded: Bool) async throws {
            let image = try Film.image(rule.inFile, loopCount: 1, as: .webp, preloaded: preloaded)
            let projector = Projector(image, AnimationOptions(delays: rule.delays))
            try await projector.play()
            let starts = rule.shown.indices.map { rule.shown[..<$0].reduce(0, +) }
            #expect(projector.times == starts)
            #expect(projector.told.value.last?.time == rule.shown.reduce(0, +))
        }

        @Test("shows frames that were decoded ahead themselves")
        func preloaded() async throws {
            let image = try Film.image(Self.even, loopCount: 2, preloaded: true)
            let shown = Box<[ObjectIdentifier]>([])
            let projector = Projector(image)
            projector.player.onFrame { image, _ in shown.update { $0.append(ObjectIdentifier(image.storage)) } }
            try await projector.play()
            let frames = try #require(image.animation?.preloaded).map { ObjectIdentifier($0.image.storage) }
            #expect(shown.value == frames + frames)
        }

        @Test("shows a picture that is not animated as one frame, and finishes", arguments: [false, true])
        func still(isProcessed: Bool) async throws {
            let image = Image.sample()
            let processors: [any ImageProcessor] = isProcessed ? [Inverting()] : []
            let projector = Projector(image, AnimationOptions(loop: .forever, processors: processors))
            #expect(projector.player.frameCount == 1 && projector.player.currentFrame.pixels == image.pixels)
            try await projector.play()
            #expect(projector.frames == [0] && projector.others == [.prepared, .looped(1), .finished])
            #expect((projector.player.currentFrame.pixels == image.pixels) == !isProcessed)
        }

        @Test(
            "gives its frames and its processors the scale and the limits of the picture", arguments: [false, true],
            [false, true])
        func scale(preloaded: Bool, isProcessed: Bool) async throws {
            var options = DecodeOptions()
            options.preloadsFrames = preloaded
            options.limits.frames = 77
            var image = try CodecRegistry.standard.decode(Film.file([50, 50, 50], loopCount: 1), options)
            image.scale = 2
            let corners = ImageProcessors.RoundedCorners(radius: .points(0.8))
            let watch = FrameWatch()
            let shown = Box<[Image]>([])
            let projector = Projector(image, AnimationOptions(processors: isProcessed ? [watch, corners] : []))
            projector.player.onFrame { image, _ in shown.update { $0.append(image) } }
            try await projector.play()
            #expect(shown.value.map(\.scale) == [2, 2, 2])
            #expect(watch.limits == (isProcessed ? [options.limits, options.limits, options.limits] : []))
            let first = isProcessed ? try corners.process(image, .init()).pixels : image.pixels
            #expect(shown.value.first?.pixels == first)
        }

        @Test(
            "keeps the frame before one that fails, for its duration, and reports the failure once",
            arguments: [0, 1, 3, 6, 11])
        func broken(call: Int) async throws {
            let watch = FrameWatch(failsAt: call)
            let options = AnimationOptions(loop: .forever, bufferCount: 2, processors: [watch])
            let projector = Projector(try Film.image(Self.even), options)
            try await projector.play()
            #expect(projector.frames == (0..<call).map { $0 % 6 })
            let loops = (0..<call / 6).map { Projector.Event.looped($0 + 1) }
            let prepared = call > 0 ? [Projector.Event.prepared] : []
            #expect(projector.others == prepared + loops + [.failed(.processingFailed)])
            #expect(projector.player.state == .failed(.processingFailed))
            #expect(projector.player.currentIndex == (call == 0 ? 0 : (call - 1) % 6))
            #expect(projector.told.value.last?.time == call * 50)
        }

        @Test("plays the frames before one that is broken in the file, as if it ended there")
        func brokenFile() async throws {
            let frames = (0..<4).map { number in
                AnimationFrame(image: .sample(64, 48, seed: UInt8(number)), duration: .milliseconds(50))
            }
            var options = EncodeOptions()
            options.isLossless = true
            var file = try CodecRegistry.standard.encoder(for: .webp).encode(frames, loopCount: 1, options)
            // The pixels of the last frame, behind their length and header.
            let pixels = try #require(file.range(of: Data("VP8L".utf8), options: .backwards)).upperBound + 9
            file.replaceSubrange(pixels..<file.endIndex, with: Data(repeating: 0xFF, count: file.endIndex - pixels))
            let projector = Projector(try CodecRegistry.standard.decode(file))
            try await projector.play()
            #expect(projector.frames == [0, 1, 2])
            #expect(projector.others == [.prepared, .looped(1), .finished])
        }

        @Test(
            "holds its frame while it is paused, and then shows it for the rest of its duration",
            arguments: [false, true])
        func pausing(releases: Bool) async throws {
            let watch = FrameWatch()
            let image = try Film.image(Self.even, loopCount: 1)
            let projector = Projector(image, AnimationOptions(bufferCount: 2, processors: [watch]))
            let (clock, player) = (projector.clock, projector.player)
            try await projector.play(frames: 3)
            try await watch.waitForDecoded(5)
            try await clock.wake(after: .milliseconds(20))
            player.pause()
            #expect(player.state == .paused)
            clock.advance(by: .seconds(100))
            if releases {
                player.releaseBuffer()
                // The one that is shown, and the last decoded, which a thread may still have in its hands.
                #expect(watch.held <= 2)
            }
            #expect(projector.frames == [0, 1, 2] && player.currentIndex == 2)
            player.resume()
            #expect(player.state == .playing)
            try await clock.wake()
            try await projector.run()
            #expect(projector.frames == [0, 1, 2, 3, 4, 5])
            #expect(projector.times == [0, 50, 100, 100_150, 100_200, 100_250])
            // Frames before the one that is shown are decoded again, but not processed.
            #expect(watch.decoded == (releases ? [0, 1, 2, 3, 4, 3, 4, 5] : [0, 1, 2, 3, 4, 5]))
        }

        @Test("waits to be resumed if it was paused before it was started")
        func startingPaused() async throws {
            let projector = Projector(try Film.image(Self.even, loopCount: 1))
            projector.player.pause()
            projector.player.start()
            #expect(projector.player.state == .paused && projector.frames.isEmpty)
            projector.clock.advance(by: .seconds(1))
            projector.player.resume()
            try await projector.run()
            #expect(projector.times == [1_000, 1_050, 1_100, 1_150, 1_200, 1_250])
        }

        @Test(
            "shows the newest of the frames that are due, and keeps to the timetable; after a sleep, the next frame",
            arguments: [
                (Duration.milliseconds(220), [5, 6, 7], [270, 300, 350]),
                (.seconds(3_600), [2, 3, 4], [3_600_050, 3_600_100, 3_600_150]),
            ])
        func late(by time: Duration, frames: [Int], times: [Int]) async throws {
            let watch = FrameWatch()
            let image = try Film.image(.init(repeating: 50, count: 20))
            let projector = Projector(image, AnimationOptions(loop: .never, bufferCount: 8, processors: [watch]))
            try await projector.play(frames: 2)
            try await watch.waitForDecoded(10)
            try await projector.clock.wake(after: time)
            try await projector.run(frames: 3)
            #expect(projector.frames == [0, 1] + frames && projector.times == [0, 50] + times)
        }

        @Test(
            "calls no hook after a stop in a hook",
            arguments: [Projector.Event.prepared, .frame(2, picture: 2), .looped(1)])
        func stoppingInside(event: Projector.Event) async throws {
            let image = try Film.image([50, 50, 50])
            let stopped = AsyncStream.makeStream(of: Void.self)
            let projector = Projector(image, AnimationOptions(loop: .forever, bufferCount: 2)) { told, player in
                guard told == event else { return }
                player.stop()
                stopped.continuation.finish()
            }
            let playing = Task { try await projector.play() }
            for await _ in stopped.stream {}
            let count = projector.told.value.count
            #expect(projector.told.value.last?.event == event && projector.player.state == .stopped)
            projector.clock.advance(by: .seconds(10))
            // A player that went on would not restart.
            projector.player.start()
            try await projector.told.wait { $0.count > count }
            #expect(projector.told.value[count].event == .prepared)
            projector.player.stop()
            playing.cancel()
        }

        @Test("calls no hook after a stop on the callback queue, even one that was on its way")
        func stoppingOnQueue() async throws {
            let queue = DispatchQueue(label: "display")
            let seen = Box(0)
            for _ in 0..<10 {
                let options = AnimationOptions(delays: .atLeast(.milliseconds(1)), callbackQueue: .dispatch(queue))
                let (frames, frame) = AsyncStream.makeStream(of: Void.self)
                let player = AnimationPlayer(try Film.image([0, 0, 0]), options: options)
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
                #expect(queue.sync { seen.value } == count)
            }
        }

        @Test("can be started again when it has finished, also in a hook")
        func again() async throws {
            let rounds = Box(0)
            let projector = Projector(try Film.image(Self.even, loopCount: 1)) { told, player in
                guard told == .finished else { return }
                rounds.update { $0 += 1 }
                if rounds.value < 3 { player.start() }
            }
            for _ in 0..<2 { try await projector.play() }
            try await projector.run()
            #expect(projector.frames == (0..<18).map { $0 % 6 })
            #expect(projector.others.count { $0 == .prepared } == 3)
        }

        @Test("tells a callback queue that was blocked the newest frame and count of loops, not a row of them")
        func blocked() async throws {
            let clock = ManualClock()
            let queue = DispatchQueue(label: "display")
            let gate = DispatchSemaphore(value: 0)
            let (seen, loops) = (Box<[Int]>([]), Box<[Int]>([]))
            let options = AnimationOptions(bufferCount: 6, clock: clock, callbackQueue: .dispatch(queue))
            let player = AnimationPlayer(try Film.image(Self.even), options: options)
            player.onFrame { _, index in
                seen.update { $0.append(index) }
                if index == 0 { gate.wait() }
            }
            .onLoop { count in loops.update { $0.append(count) } }.start()
            try await seen.wait { $0 == [0] }
            for _ in 0..<15 {
                try await clock.wake()
            }
            // The timetable went on: the last wake has been handled when there is a new one.
            try await clock.waitForSleepers(1)
            #expect(player.currentIndex == 3 && seen.value == [0])
            gate.signal()
            try await loops.wait { !$0.isEmpty }
            queue.sync {}
            #expect(seen.value == [0, 3] && loops.value == [2])
            player.stop()
        }

        @Test("ends its streams and its work when it is released")
        func letGo() async throws {
            let options = AnimationOptions(bufferCount: 2, clock: ManualClock(), callbackQueue: .inPlace)
            var player: AnimationPlayer? = AnimationPlayer(try Film.image(Self.even), options: options)
            let frames = try #require(player?.frames)
            player?.start()
            var iterator = frames.makeAsyncIterator()
            #expect(await iterator.next() != nil)
            weak let released = player
            player = nil
            while await iterator.next() != nil {}
            #expect(released == nil)
        }

        @Test("delivers its frames as a stream, which ends with the animation", arguments: [false, true])
        func stream(isBroken: Bool) async throws {
            let options = AnimationOptions(processors: [FrameWatch(failsAt: isBroken ? 5 : .max)])
            let projector = Projector(try Film.image(Self.even, loopCount: 1), options)
            let frames = projector.player.frames
            let reading = Task {
                var last: Image?
                for await frame in frames { last = frame }
                return last
            }
            try await projector.play()
            #expect(await reading.value.map(Film.number) == (isBroken ? 4 : 5))
            // A stream of a player that has ended has its last frame alone.
            var count = 0
            for await _ in projector.player.frames { count += 1 }
            #expect(count == 1)
        }

        @Test(
            "holds no more frames than are decoded ahead and shown, however many there are",
            arguments: [1, 3, 8], [ImageFormat.gif, .png])
        func memory(buffer: Int, _ format: ImageFormat) async throws {
            let watch = FrameWatch()
            let image = try Film.image(.init(repeating: 30, count: 300), as: format)
            let projector = Projector(image, AnimationOptions(loop: .never, bufferCount: buffer, processors: [watch]))
            try await projector.play()
            #expect(projector.frames == Array(0..<300) && projector.pictures == Array(0..<300))
            #expect(projector.times.last == 299 * 30 && watch.decoded == Array(0..<300))
            // A thread that decodes and one that calls hooks may each still have a frame in its hands.
            #expect(watch.mostHeld <= buffer + 1 + 2)
        }

        @Test("shares two threads with fifty others, and has its turn")
        func threads() async throws {
            let watch = FrameWatch()
            let projectors = try (0..<50).map { number in
                let image = try Film.image(.init(repeating: 10 * (2 + number), count: 12), loopCount: 1)
                return Projector(image, AnimationOptions(bufferCount: 2, processors: [watch]))
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for projector in projectors { group.addTask { try await projector.play() } }
                try await group.waitForAll()
            }
            for projector in projectors { #expect(projector.frames == Array(0..<12)) }
            #expect((1...2).contains(watch.threads.count))
        }

        @Test("can be called from many threads at once, and runs its hooks one at a time", arguments: [true, false])
        func manyThreads(inPlace: Bool) async throws {
            let queue = DispatchQueue(label: "display", attributes: .concurrent)
            let options = AnimationOptions(
                loop: .count(3), delays: .atLeast(.milliseconds(1)),
                callbackQueue: inPlace ? .inPlace : .dispatch(queue))
            let player = AnimationPlayer(try Film.image(.init(repeating: 0, count: 7)), options: options)
            let isBusy = Atomic(false)
            let alone: @Sendable () -> Void = {
                let wasBusy = isBusy.exchange(true, ordering: .sequentiallyConsistent)
                #expect(!wasBusy)
                isBusy.store(false, ordering: .sequentiallyConsistent)
            }
            let loops = Box(0)
            player.onFrame { _, _ in alone() }.onPrepared(alone).onFinish { [weak player] in
                alone()
                player?.start()
            }
            .onLoop { _ in
                alone()
                loops.update { $0 += 1 }
            }
            .onFail { _ in Issue.record("no frame is broken") }
            let calls: [@Sendable () -> Void] = [
                { player.start() }, { player.start() }, { player.pause() }, { player.resume() },
                { player.releaseBuffer() }, { player.stop() },
            ]
            DispatchQueue.concurrentPerform(iterations: 6) { thread in
                for step in 0..<300 {
                    calls[(step &* 7 &+ step / 6 &+ thread) % 6]()
                    _ = (player.currentFrame, player.state)
                }
            }
            player.stop()
            let before = loops.value
            player.start()
            try await loops.wait { $0 > before }
            player.stop()
        }

        @Test("frames come on a clock whose ticks are coarser than their times", arguments: [false, true])
        func coarseClock(preloaded: Bool) async throws {
            let options = AnimationOptions(clock: TickingClock(), callbackQueue: .inPlace)
            let player = AnimationPlayer(try Film.image([25, 25, 25], preloaded: preloaded), options: options)
            let told = Box<[Int]>([])
            player.onFrame { _, index in told.update { $0.append(index) } }.start()
            try await told.wait { $0.contains(2) }
            player.stop()
        }
    }

    /// A clock that knows the time to 16 milliseconds.
    private struct TickingClock: Clock {
        struct Instant: InstantProtocol {
            var tick: Int

            func advanced(by duration: Duration) -> Instant { Instant(tick: tick + Int(duration / .milliseconds(16))) }
            func duration(to other: Instant) -> Duration { .milliseconds(16) * (other.tick - tick) }
            static func < (a: Self, b: Self) -> Bool { a.tick < b.tick }
        }

        private let start = ContinuousClock.now

        var now: Instant { Instant(tick: Int((ContinuousClock.now - start) / .milliseconds(16))) }
        var minimumResolution: Duration { .milliseconds(16) }

        func sleep(until deadline: Instant, tolerance: Duration?) async throws {
            try await Task.sleep(until: start + .milliseconds(16) * deadline.tick, clock: .continuous)
        }
    }
#endif
