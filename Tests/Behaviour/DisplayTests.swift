import TestSupport
import Testing

@Suite("A display and its binding", .timeLimit(.minutes(2)))
struct DisplayTests {
    private let test = TestImageCache { $0.data.progressInterval = .zero }
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let small = Image.sample(3, 2)
    private let fade = DisplayOptions().with(\.transition, .fade(.milliseconds(200)))

    /// Returns a screen that loads a picture, and the transfer.
    private func loading(
        _ options: DisplayOptions = DisplayOptions()
    ) async throws -> (Screen, ScriptedTransfer) {
        let screen = Screen(test.cache, options: options)
        screen.set(ImageRequest(a))
        return (screen, try await test.transport.nextTransfer())
    }

    // MARK: What is shown

    @Test("placeholder and activity come first, the picture with its transition; the end is told once")
    func load() async throws {
        let (screen, transfer) = try await loading(fade)
        #expect(screen.told == ["placeholder 000000ff", "activity"] && transfer.queue == .fast)
        transfer.finish(with: try picture.png)
        try await screen.waits(forEnds: 1)
        let told = screen.told.filter { !$0.hasSuffix("%") }
        #expect(told == ["placeholder 000000ff", "activity", "no activity", "image 16x12, fade"])
        await test.cache.idle()
        #expect(screen.ends.value == ["16x12"])
    }

    @Test("a binding without a queue calls the display in the loop in which the cache's closures run")
    func queueOfCache() async throws {
        let turns = Box(0)
        let test = TestImageCache {
            $0.data.callbackQueue = .custom { work in
                turns.update { $0 += 1 }
                work()
            }
        }
        try test.script(a, picture)
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: test.cache)
        binding.setImage(a)
        #expect(try await display.nextImage().size == picture.size)
        #expect(turns.value > 0)
        withExtendedLifetime(binding) {}
    }

    @Test("a picture in memory is shown before the call returns, without placeholder or transition")
    func memory() async throws {
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        let (screen, address) = (Screen(test.cache, options: fade), a)
        screen.perform { binding in
            binding.setImage(address)
            #expect(screen.display.descriptions == ["image 16x12"])
        }
        screen.set(ImageRequest(a), options: fade.with(\.transitionsAlways, true))
        #expect(screen.told.last == "image 16x12, fade" && screen.ends.value == ["16x12"])
    }

    @Test("a picture on disk is shown before the call returns, if that is asked for")
    func disk() async throws {
        let first = TestImageCache(folder: TemporaryFolder())
        try first.script(a, picture)
        _ = try await first.cache.getImage(a).value
        let test = await first.reopened()
        let screen = Screen(test.cache)
        screen.set(ImageRequest(a), options: DisplayOptions().with(\.loadsFromDiskAtOnce, true))
        #expect(screen.display.descriptions == ["image 16x12"])
    }

    @Test("a picture on disk that may not enter memory is decoded once, by the call")
    func diskOnly() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).with(\.cachePolicy, .diskOnly)
        try test.script(a, picture)
        try await test.load(request)
        let screen = Screen(test.cache)
        screen.set(request, options: DisplayOptions().with(\.loadsFromDiskAtOnce, true))
        try await screen.waits(forEnds: 1)
        #expect(screen.ends.value == ["16x12"] && test.decoder.decodes == 2 && test.transport.transfers.count == 1)
    }

    @Test("without a request the placeholder is shown; without a placeholder, nothing")
    func noSource() async {
        let screen = Screen(test.cache)
        screen.set(nil)
        screen.set(nil, placeholder: nil)
        #expect(screen.told == ["placeholder 000000ff", "nothing"] && screen.ends.value == ["no source", "no source"])
    }

    @Test("progress is told, and that the call waits for another attempt")
    func activity() async throws {
        let (screen, transfer) = try await loading()
        transfer.send(progress: 25, of: 100)
        try await screen.waits(for: "activity 25 %")
        transfer.fail(with: .connectionLost)
        try await screen.waits(for: "activity 25 % waiting")
        try await test.clock.wake(after: .seconds(60))
        let again = try await test.transport.nextTransfer()
        #expect(try await !screen.display.nextEvent().description.hasSuffix("waiting"))
        again.finish(with: try picture.png)
        for text in ["no activity", "image 16x12"] { try await screen.waits(for: text) }
    }

    @Test("a failure shows its own placeholder; without one, what was shown stays")
    func failure() async throws {
        test.transport.script(a, [.status(404)])
        let screen = Screen(test.cache)
        screen.set(ImageRequest(a), options: DisplayOptions().with(\.failure, .color(.white)))
        try await screen.waits(for: "failure ffffffff")
        screen.set(ImageRequest(b))
        try await test.transport.nextTransfer().finish(with: Data(), status: 404)
        try await screen.waits(forEnds: 2)
        #expect(screen.ends.value == ["status 404", "status 404"])
        #expect(screen.told.suffix(3) == ["placeholder 000000ff", "activity", "no activity"])
        // An end that is known at once.
        screen.set(ImageRequest(string: "no address"))
        #expect(screen.ends.value.last == "invalid URL" && screen.told.last == "placeholder 000000ff")
    }

    @Test("what is shown stays until the next picture is there, if that is asked for")
    func keepsCurrent() async throws {
        let (screen, first) = try await loading(DisplayOptions().with(\.keepsCurrentImage, true))
        first.finish(with: try picture.png)
        try await screen.waits(forEnds: 1)
        screen.display.forget()
        screen.set(ImageRequest(b))
        #expect(screen.told == ["activity"])
        try await test.transport.nextTransfer().finish(with: try small.png)
        try await screen.waits(for: "image 3x2")
        #expect(!screen.told.contains { $0.hasPrefix("placeholder") })
    }

    @Test("previews are shown while the bytes arrive")
    func previews() async throws {
        let screen = Screen(test.cache)
        screen.set(ImageRequest(a).with(\.showsPreviews, true))
        let transfer = try await test.transport.nextTransfer()
        let length = ProgressivePhoto.previewLengths[0]
        transfer.hold(TransferResponse(body: ProgressivePhoto.file.prefix(length)))
        transfer.send(progress: length, of: ProgressivePhoto.file.count)
        try await screen.waits(for: "preview")
        transfer.finish(with: ProgressivePhoto.file)
        try await screen.waits(for: "image")
    }

    #if GIF
        @Test("a picture that moves is played while it is on screen, frame by frame when they are due")
        func animation() async throws {
            let test = TestImageCache()
            let clock = ManualClock()
            var options = DisplayOptions()
            options.animation.clock = clock
            let screen = Screen(test.cache, options: options)
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(100)) }
            try test.transport.script(a, [.animation(frames)])
            screen.set(ImageRequest(a))
            try await screen.waits(for: "image")
            // The picture is shown before it is played.
            screen.perform { _ in }
            let player = try #require(screen.binding.player)
            for _ in 0..<3 {
                try await clock.wake(after: .milliseconds(100))
                try await screen.waits(for: "frame")
            }
            screen.perform { $0.didDisappear() }
            #expect(player.state == .paused)
            screen.perform { $0.willAppear() }
            #expect(player.state == .playing)
            screen.set(nil)
            #expect(player.state == .stopped && screen.binding.player == nil)
            clock.advance(by: .seconds(10))
            #expect(screen.told.last == "placeholder 000000ff")
            screen.set(ImageRequest(a), options: options.with(\.playsAnimations, false))
            try await screen.waits(for: "image")
            #expect(screen.binding.player == nil)
        }

        @Test("a placeholder that moves is played until the picture comes, and so is what is shown after a failure")
        func movingPlaceholder() async throws {
            let (test, clock, film) = (TestImageCache(), ManualClock(), try Film.image([100, 100]))
            var options = DisplayOptions().with(\.failure, .image(film))
            options.animation.clock = clock
            let screen = Screen(test.cache, options: options)
            func plays() async throws -> AnimationPlayer {
                // A player that has just been stopped may still be asleep, and be woken in the new one's place.
                let stepping = Task { while !Task.isCancelled { try await clock.wake(after: .milliseconds(100)) } }
                defer { stepping.cancel() }
                try await screen.waits(for: "frame")
                return try #require(screen.binding.player)
            }
            screen.set(ImageRequest(a), placeholder: .image(film))
            let transfer = try await test.transport.nextTransfer()
            let first = try await plays()
            screen.perform { $0.didDisappear() }
            #expect(first.state == .paused)
            screen.perform { $0.willAppear() }
            #expect(first.state == .playing)
            transfer.finish(with: Data(), status: 404)
            try await screen.waits(for: "failure")
            let second = try await plays()
            #expect(first.state == .stopped && second !== first)
            try test.script(b, .sample())
            screen.set(ImageRequest(b), placeholder: .image(film), options: options.with(\.playsAnimations, false))
            #expect(second.state == .stopped && screen.binding.player == nil)
            try await screen.waits(for: "image")
        }
    #endif

    // MARK: Another picture

    @Test("the newest picture wins, whichever comes first; the older call goes on as a prefetch")
    func newest() async throws {
        let (screen, first) = try await loading()
        screen.set(ImageRequest(b))
        let second = try await test.transport.nextTransfer()
        #expect(screen.ends.value == ["replaced"])
        try await first.wait { $0.queue == .slow }
        #expect(!first.isCancelled && second.queue == .fast)
        second.finish(with: try small.png)
        try await screen.waits(forEnds: 2)
        first.finish(with: try picture.png)
        await test.cache.idle()
        #expect(test.cache.hasImage(for: a))
        #expect(screen.told.last == "image 3x2" && screen.ends.value == ["replaced", "3x2"])
    }

    @Test("what is replaced is cancelled, if that is asked for; the same picture set again is not fetched anew")
    func abandonment() async throws {
        let (screen, first) = try await loading(DisplayOptions().with(\.abandonment, .cancel))
        screen.set(ImageRequest(a))
        screen.set(ImageRequest(b))
        try await first.wait { $0.isCancelled }
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == b)
        screen.set(nil, placeholder: .object("an empty frame"))
        try await second.wait { $0.isCancelled }
        #expect(screen.ends.value == ["replaced", "replaced", "replaced", "no source"])
        #expect(screen.told.last == "placeholder an empty frame")
        await test.cache.idle()
        #expect(test.transport.transfers.count == 2)
    }

    @Test("an answer that comes while another picture is being set is not taken for that picture's")
    func lateAnswer() async throws {
        let display = RecordingDisplay(), ends = Box<[String]>([])
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace)
        let (old, new) = (a, b)
        binding.setImage(old, placeholder: .color(.white))
        let transfer = try await test.transport.nextTransfer()
        display.onShow { content in
            // The new call is made when the display has returned; the old one ends before.
            guard case .placeholder(.color(.black)) = content else { return }
            transfer.finish(with: Data(), status: 404)
        }
        binding.setImage(new, placeholder: .color(.black)) { result in ends.update { $0.append(result.text) } }
        try await test.transport.nextTransfer().finish(with: try small.png)
        #expect(try await display.nextImage().size == small.size)
        await test.cache.idle()
        #expect(ends.value == ["3x2"])
        withExtendedLifetime(binding) {}
    }

    @Test("a display that sets another picture as it is shown one gets that one, and each call ends once")
    func reentrantSet() async throws {
        try test.script(a, picture)
        try test.cache.addImage(small, for: b)
        let screen = Screen(test.cache)
        let (binding, other) = (screen.binding, b)
        screen.display.onShow { content in
            guard case .image(let image) = content, image.width != 3 else { return }
            binding.setImage(other)
        }
        screen.set(ImageRequest(a))
        try await screen.waits(for: "image 3x2")
        await test.cache.idle()
        #expect(screen.told.last == "image 3x2" && screen.ends.value == ["replaced"])
    }

    // MARK: On screen and off

    @Test("off screen, what is waited for goes on as a prefetch; back on screen it is urgent again, in one transfer")
    func presence() async throws {
        let (screen, transfer) = try await loading()
        screen.perform { $0.didDisappear() }
        try await transfer.wait { $0.queue == .slow }
        #expect(!screen.binding.isOnScreen)
        let (urgent, other) = try await test.begin(b)
        try await transfer.wait { $0.isThrottled }
        screen.perform { $0.willAppear() }
        try await transfer.wait { $0.queue == .fast && !$0.isThrottled }
        transfer.finish(with: try picture.png)
        other.finish(with: try small.png)
        _ = try await urgent.value
        try await screen.waits(forEnds: 1)
        #expect(screen.ends.value == ["16x12"] && test.transport.transfers.count == 2)
    }

    @Test("what is set off screen is prefetched, or left until the display appears")
    func setOffScreen() async throws {
        let screen = Screen(test.cache)
        screen.perform { $0.didDisappear() }
        screen.set(ImageRequest(a))
        #expect(try await test.transport.nextTransfer().queue == .slow)
        screen.set(
            ImageRequest(b), options: DisplayOptions().with(\.loadsOffScreen, false).with(\.abandonment, .cancel))
        try await test.passThrough()
        #expect(test.transport.transfers(of: b).isEmpty)
        screen.perform { $0.willAppear() }
        let wanted = try await test.transport.nextTransfer()
        #expect(wanted.request.url == b && wanted.queue == .fast)
    }

    @Test("short of memory, a display that nobody sees lets go of its picture, and gets it back from where it is kept")
    func pressure() async throws {
        let pressure = ManualMemoryPressure()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryPressure = pressure }
        try test.script(a, picture)
        let screen = Screen(test.cache)
        screen.set(ImageRequest(a).with(\.waitsForDiskWrite, true))
        try await screen.waits(forEnds: 1)
        await test.cache.idle()
        weak var pixels: PixelStorage?
        pixels = screen.display.content.image?.storage
        screen.display.forget()
        screen.perform { $0.didDisappear() }
        #expect(pixels != nil)
        pressure.level = .severe
        try await screen.waits(for: "placeholder")
        screen.perform { _ in }
        #expect(pixels == nil && test.cache.memoryCount == 0)
        pressure.level = .normal
        screen.perform { $0.willAppear() }
        try await screen.waits(for: "image")
        #expect(test.transport.transfers.count == 1 && screen.ends.value.count == 1)
        pressure.level = .severe
        #expect(screen.told.last == "image 16x12", "what is on screen stays")
    }

    // MARK: Ends

    @Test("cancelling leaves what is shown, and later appearances alone")
    func cancel() async throws {
        let (screen, transfer) = try await loading()
        screen.perform { $0.cancel() }
        try await transfer.wait { $0.isCancelled }
        #expect(screen.ends.value == ["cancelled"] && screen.told.last == "no activity")
        screen.perform {
            $0.didDisappear()
            $0.willAppear()
            $0.cancel()
        }
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1 && screen.ends.value == ["cancelled"])
        // A display that cancels as it is shown something is left in order.
        let binding = screen.binding
        screen.display.onShow { content in if case .placeholder = content { binding.cancel() } }
        screen.set(ImageRequest(b))
        #expect(screen.told.last == "no activity" && screen.ends.value == ["cancelled", "cancelled"])
    }

    @Test("setting and waiting from a task gives the picture, or says that another was set or the task cancelled")
    func wait() async throws {
        try test.script(a, picture)
        let screen = Screen(test.cache, options: DisplayOptions().with(\.loadsOffScreen, false))
        let response = try await screen.binding.setImageAndWait(ImageRequest(a))
        #expect(response.image.size == picture.size && screen.told.last == "image 16x12")
        let (binding, address) = (screen.binding, b)
        func waiting() -> Task<Void, any Error> {
            Task { _ = try await binding.setImageAndWait(ImageRequest(address)) }
        }
        let replaced = waiting()
        _ = try await test.transport.nextTransfer()
        screen.set(nil)
        await #expect(throws: DipperError.replaced) { try await replaced.value }
        screen.perform { $0.didDisappear() }
        let cancelled = waiting()
        try await screen.waits(for: "nothing")
        cancelled.cancel()
        await #expect(throws: DipperError.cancelled) { try await cancelled.value }
    }

    @Test("a wait that is cancelled before the display's queue gets to it leaves the picture that was set before it")
    func cancelledInQueue() async throws {
        try test.script(b, picture)
        let screen = Screen(test.cache)
        let (binding, isFree) = (screen.binding, DispatchSemaphore(value: 0))
        screen.queue.async {
            isFree.wait()
            binding.setImage(b) { [ends = screen.ends] result in ends.update { $0.append(result.text) } }
        }
        let waiting = Task { _ = try await binding.setImageAndWait(ImageRequest(a)) }
        // The closure of the wait stands in the queue soon.
        try await Task.sleep(for: .milliseconds(50))
        waiting.cancel()
        isFree.signal()
        await #expect(throws: DipperError.cancelled) { try await waiting.value }
        try await screen.waits(forEnds: 1)
        #expect(screen.ends.value == ["16x12"] && test.transport.transfers.count == 1)
    }

    @Test("letting go of the binding ends what it waits for; letting go of the display, too")
    func release() async throws {
        let ends = Box<[String]>([])
        let note: ImageBinding.Completion = { result in ends.update { $0.append(result.text) } }
        var display: RecordingDisplay? = RecordingDisplay()
        var binding: ImageBinding? = ImageBinding(try #require(display), cache: test.cache, queue: .inPlace)
        binding?.setImage(a, then: note)
        let transfer = try await test.transport.nextTransfer()
        binding = nil
        try await transfer.wait { $0.isCancelled }
        try await ends.wait { $0 == ["cancelled"] }
        binding = ImageBinding(try #require(display), cache: test.cache, queue: .inPlace)
        binding?.setImage(b, then: note)
        let next = try await test.transport.nextTransfer()
        display = nil
        next.finish(with: try picture.png)
        try await ends.wait { $0 == ["cancelled", "cancelled"] }
        withExtendedLifetime(binding) {}
    }
}
