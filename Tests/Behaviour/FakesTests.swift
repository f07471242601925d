import TestSupport
import Testing

@Suite("The fakes for pictures", .timeLimit(.minutes(2)))
struct FakesTests {
    private let test = TestImageCache()
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let small = Image.sample(3, 2)

    // MARK: Pictures

    @Test("a filled picture has one colour; samples are equal if their arguments are, and the seed is their blue")
    func samples() throws {
        let color = Color(hex: 0xff8000, alpha: 0.5)
        let image = Image.filled(with: color, 5, 3)
        let pixel = color.premultiplied
        #expect(image.size == PixelSize(width: 5, height: 3) && !image.isOpaque && Image.filled(with: .white).isOpaque)
        let pixels: [UInt8] = (0..<15).flatMap { _ in [pixel.x, pixel.y, pixel.z, pixel.w] }
        #expect(image.pixels == pixels)
        let sample = Image.sample(7, 5, seed: 3)
        #expect(sample.pixels == Image.sample(7, 5, seed: 3).pixels && sample.pixels != Image.sample(7, 5).pixels)
        let blues = stride(from: 2, to: sample.pixels.count, by: 4).map { sample.pixels[$0] }
        #expect(Set(blues) == [3])
        #expect(sample.isOpaque && sample[0, 0] != sample[1, 0] && Image.sample(alpha: 90)[3, 2].w == 90)
        #expect(try CodecRegistry.standard.decode(picture.png).pixels == picture.pixels)
        #expect(try ImageInfo(picture.jpeg).format == .jpeg)
    }

    @Test(
        "the cache gets the picture that was scripted, and the media type of its format",
        arguments: [ImageFormat.png, .jpeg])
    func scripted(format: ImageFormat) async throws {
        let plain = Image.filled(with: Color(hex: 0x4080c0), 20, 10)
        test.transport.script(a, [try .image(plain, as: format, headers: ["ETag": "\"1\""])])
        let image = try await test.cache.getImage(a).value
        let difference = zip(image.pixels, plain.pixels).map { abs(Int($0) - Int($1)) }.max() ?? 255
        #expect(image.size == plain.size && difference <= (format == .png ? 0 : 3))
        let headers = try await test.cache.data.getData(a).response.headers
        #expect(headers["Content-Type"] == "image/\(format)" && headers["ETag"] == "\"1\"")
    }

    @Test("a media type that is given stays; a format that cannot be written is an error")
    func mediaType() throws {
        let step = try ScriptedTransport.Step.image(picture, headers: ["content-type": "a/b"])
        let headers: HTTPHeaders? = if case .response(let response) = step { response.headers } else { nil }
        #expect(headers?.fields.map(\.value) == ["a/b"])
        #expect(throws: DipperError.unsupportedFormat) { try ScriptedTransport.Step.image(picture, as: .heic) }
        let frame = AnimationFrame(image: picture, duration: .milliseconds(40))
        #expect(throws: DipperError.unencodable) { try ScriptedTransport.Step.animation([frame], as: .jpeg) }
    }

    #if GIF
        @Test("the cache gets the animation that was scripted, through a decoder that counts")
        func animation() async throws {
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
            let test = TestImageCache(decoder: CountingDecoder(GIFDecoder()))
            try test.transport.script(a, [.animation(frames, loopCount: 2)])
            let animation = try #require(try await test.cache.getImage(a).value.animation)
            #expect(animation.frameCount == 3 && animation.loopCount == 2 && test.decoder.decodes == 1)
            let decoder = try animation.makeFrameDecoder()
            for frame in frames {
                let shown = try #require(try decoder.next())
                #expect(shown.image.pixels == frame.image.pixels && shown.duration == frame.duration)
            }
            #expect(try decoder.next() == nil)
        }
    #endif

    // MARK: A decoder that counts

    @Test("holds each decode until the test releases it, or all, also those that come later")
    func holds() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        let urls = (0..<20).map { url("\($0).png") }
        for url in urls { try test.script(url, picture) }
        let ends = Box(0)
        let task = test.cache.getImage(urls[0]).onEnd { _ in ends.update { $0 += 1 } }
        try await test.decoder.waitForDecodes(1)
        #expect(ends.value == 0 && test.decoder.decodes == 1)
        test.decoder.release()
        #expect(try await task.value.pixels == picture.pixels)
        // Released before it begins.
        test.decoder.release()
        _ = try await test.cache.getImage(urls[1]).value
        let tasks = urls[2..<10].map { test.cache.getImage($0) }
        try await test.decoder.waitForDecodes(3)
        test.decoder.releaseAll()
        for task in tasks + urls[10...].map({ test.cache.getImage($0) }) { _ = try await task.value }
        #expect(test.decoder.decodes == 20)
    }

    @Test("counts the decodes, and fails as often as the test asks for, with the error that it asks for")
    func fails() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let held = test.cache.getImage(a)
        try await test.decoder.waitForDecodes(1)
        test.decoder.failNext()
        test.decoder.failNext(with: .imageTooLarge)
        test.decoder.releaseAll()
        #expect(await held.error == .undecodable)
        // Until then, the cache does not try the same bytes again.
        test.clock.advance(by: .seconds(5))
        #expect(await test.cache.getImage(a).error == .imageTooLarge)
        for _ in 0..<2 { #expect(try await test.cache.getImage(a).value.pixels == picture.pixels) }
        #expect(test.decoder.decodes == 3, "the last one came from memory")
    }

    @Test("makes pictures of a size of any bytes, in the size that the request asks for, within the limits")
    func makes() async throws {
        let decoder = CountingDecoder(making: PixelSize(width: 40, height: 30))
        let test = TestImageCache(decoder: decoder)
        test.transport.script(a, [.body(Data("a photograph".utf8))])
        #expect(try await test.cache.getImage(a).value.pixels == Image.filled(with: .white, 40, 30).pixels)
        let thumbnail = ImageRequest(a).processed(by: .downsample(width: 20, height: 20))
        #expect(try await test.cache.getImage(thumbnail).value.size == PixelSize(width: 20, height: 15))
        // Files that other decoders read are left to them.
        #expect(try !decoder.recognizes(picture.png) && decoder.recognizes(Data()))
        var options = DecodeOptions()
        options.limits.pixels = 1_199
        let limited = options
        #expect(throws: DipperError.imageTooLarge) { try decoder.decode(Data(), limited) }
    }

    // MARK: A display that records

    @Test("records its calls in order, knows what it shows, and calls a closure with each content, in place")
    func record() {
        let display = RecordingDisplay()
        let reacted = Box(0)
        display.onShow { [weak display] content in
            reacted.update { $0 += 1 }
            if case .nothing = content {
                display?.showActivity(DisplayActivity(progress: TaskProgress(received: 1, expected: 1)))
            }
        }
        display.show(.placeholder(.color(.black)), .none)
        display.showActivity(DisplayActivity())
        display.showActivity(DisplayActivity(progress: TaskProgress(received: 1, expected: 4), isWaiting: true))
        display.show(.preview(small), .none)
        display.showActivity(nil)
        display.show(.image(picture), .fade(.milliseconds(200)))
        display.show(.frame(small), .slide(from: .left, .seconds(1)))
        display.show(.failure(.object("a broken frame")), .flip(from: .top, .seconds(1)))
        display.show(.nothing, .custom("curtain", .seconds(1)))
        display.show(.placeholder(.image(small)), .none)
        #expect(
            display.descriptions == [
                "placeholder 000000ff", "activity", "activity 25 % waiting", "preview 3x2", "no activity",
                "image 16x12, fade", "frame 3x2, slide from left", "failure a broken frame, flip from top",
                "nothing, curtain", "activity 100 %", "placeholder 3x2",
            ])
        var shown: Image?
        if case .content(.image(let image), .fade(.milliseconds(200))) = display.events[5] { shown = image }
        #expect(shown?.storage === picture.storage && reacted.value == 7)
        display.forget()
        #expect(display.events.isEmpty && display.content.image?.size == small.size)
    }

    @Test("returns its pictures and events one after the other, those that were shown before and those that come later")
    func waits() async throws {
        let display = RecordingDisplay()
        display.show(.image(picture), .none)
        display.show(.preview(picture), .none)
        display.show(.image(small), .none)
        #expect(try await display.nextImage().size == picture.size)
        #expect(try await display.nextImage().size == small.size)
        async let next = display.nextImage()
        display.show(.frame(small), .none)
        display.show(.image(picture), .none)
        #expect(try await next.size == picture.size)
        for received in [1, 2, 3] {
            display.showActivity(DisplayActivity(progress: TaskProgress(received: received, expected: 5)))
        }
        #expect(try await display.nextEvent { "\($0)".contains("40") }.description == "activity 40 %")
        #expect(try await display.nextEvent().description == "activity 60 %")
        display.showActivity(nil)
        display.forget()
        display.show(.nothing, .none)
        #expect(try await display.nextEvent().description == "nothing")
        let task = Task { try await display.nextImage() }
        task.cancel()
        await #expect(throws: WaitTimeout.self) { try await task.value }
    }

    // MARK: Calls and their hooks

    @MainActor final class Model {
        var texts: [String] = []

        func load(_ url: URL, _ cache: DataCache) -> DataTask {
            cache.getData(url)
                .onFail { error, isFatal in self.texts.append(isFatal ? "failed" : "waits") }
                .then { data in self.texts.append("\(data.count) bytes") }
        }
    }

    @Test("a wait for parked calls or for an end includes the hooks, also those of the main actor")
    func parked() async throws {
        let test = TestCache { $0.callbackQueue = .serial() }
        test.network.isUp = false
        let model = await Model()
        let task = await model.load(a, test.cache)
        try await test.cache.waitForParked()
        #expect(await model.texts == ["waits"] && task.state == .parked)
        test.network.isUp = true
        try await test.clock.waitForSleepers(1, dueWithin: .seconds(5))
        test.clock.advance(by: .seconds(5))
        try await test.transport.nextTransfer().finish(with: Data("here".utf8))
        #expect(try await task.value(within: .seconds(30)) == Data("here".utf8))
        #expect(await model.texts == ["waits", "4 bytes"])
        test.transport.script(b, [.status(404)])
        let missing = await model.load(b, test.cache)
        await #expect(throws: DipperError.status(404)) { try await missing.value(within: .seconds(30)) }
        #expect(await model.texts.last == "failed")
    }

    @Test("a parked call with header fields counts once")
    func parkedOnce() async throws {
        let test = TestCache()
        test.network.isUp = false
        let task = test.cache.getData(DataRequest(a).with(\.headers, ["Accept-Language": "de"]))
        try await test.cache.waitForParked(1)
        await #expect(throws: WaitTimeout.self) {
            try await test.cache.waitForParked(2, within: .milliseconds(20))
        }
        task.cancel()
        await test.cache.idle()
    }

    @Test("a wait for parked calls goes on while their retry rule is asked, until the hooks have heard of the failure")
    func askedRule() async throws {
        let (test, answer) = (TestCache(), Gate())
        test.transport.script(a, [.failure(.connectionLost), .silence])
        let rule = RetryPolicy.custom { _ in
            await answer.pass()
            return .seconds(5)
        }
        let failures = Box(0)
        let task = test.cache.getData(DataRequest(a).with(\.retryPolicy, rule))
            .onFail { _, _ in failures.increment() }
        try await answer.waitForArrival()
        let wait = Task {
            try await test.cache.waitForParked()
            return failures.value
        }
        await Task.letOthersRun()
        answer.open()
        #expect(try await wait.value == 1)
        task.cancel()
        await test.cache.idle()
    }

    @Test("a wait for parked calls fails when the cache has shut down, before or meanwhile", arguments: [true, false])
    func shutDownMeanwhile(isBefore: Bool) async throws {
        let test = TestCache()
        if isBefore { await test.cache.shutdown() }
        async let wait: Void = test.cache.waitForParked(within: .seconds(60))
        if !isBefore { await test.cache.shutdown() }
        do {
            try await wait
            Issue.record("nothing was parked")
        } catch {
            #expect("\(error)".contains("shut down"))
        }
    }

    @Test("a wait until an image cache is idle waits for its target cache too")
    func busyTarget() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let target = TestImageCache(decoder: decoder)
        let test = TestImageCache { $0.options.targetCache = target.cache }
        test.transport.script(a, [try .image(.sample(4, 4))])
        let task = test.cache.getImage(a)
        try await decoder.waitForDecodes(1)
        await test.cache.data.idle()
        let wait = Task {
            try await test.cache.idle(within: .seconds(60))
            return task.state
        }
        await Task.letOthersRun()
        decoder.release()
        #expect(try await wait.value == .finished)
    }

    @Test("a wait that fails while a call is parked says that the clock must be advanced")
    func standstill() async throws {
        let moment = Duration.milliseconds(1)
        test.network.isUp = false
        let task = test.cache.getImage(a)
        try await test.cache.waitForParked()
        test.network.isUp = true
        let waits: [@Sendable () async throws -> Void] = [
            { _ = try await task.value(within: moment) }, { try await test.cache.idle(within: moment) },
            { try await test.cache.waitForParked(2, within: moment) },
            { _ = try await test.transport.nextTransfer(within: moment) },
        ]
        for wait in waits {
            let error = await #expect(throws: WaitTimeout.self) { try await wait() }
            let text = error?.description ?? ""
            #expect(text.contains("advance(by:)") && text.contains("ManualClock"), "\(text)")
        }
        task.cancel()
        await test.cache.idle()
    }

    @Test("hooks are waited for while a call goes on")
    func hooks() async throws {
        let test = TestImageCache { $0.data.callbackQueue = .serial() }
        let (task, transfer) = try await test.begin(a)
        let (door, order) = (Door(), WatchedState<[String]>([]))
        task.onProgress { progress in
            door.pass()
            order.update { $0.append("\(progress.fraction)") }
        }
        transfer.send(progress: 2, of: 4)
        let waiting = Task {
            try await test.cache.waitForHooks()
            order.update { $0.append("waited") }
        }
        try await door.waitForArrivals(1)
        door.open()
        try await waiting.value
        #expect(order.value == ["0.5", "waited"] && task.state == .transferring)
        task.cancel()
    }

    // MARK: A state that tests wait for

    @Test("a wait fails when its time is over or the task is cancelled, unless the condition holds, and says what was")
    func timeout() async throws {
        let state = Box(7)
        let error = await #expect(throws: WaitTimeout.self) {
            try await state.wait(within: .milliseconds(1), until: { $0 > 7 }) { "the number stayed \($0)" }
        }
        #expect(error?.description.hasSuffix(": the number stayed 7") == true && WaitTimeout.standard == .seconds(30))
        for (limit, fails) in [(7, true), (6, false)] {
            let task = Task { try await state.wait { $0 > limit } }
            task.cancel()
            if fails {
                await #expect(throws: WaitTimeout.self) { try await task.value }
            } else {
                try await task.value
            }
        }
    }
}
