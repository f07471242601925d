@testable import Dipper
import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("A display and its binding", .timeLimit(.minutes(5)))
struct ImageBindingTests {
    let a = url("a.png"), b = url("b.png")
    let picture = Image.sample()
    let small = Image.sample(3, 2)

    @Test("placeholder and activity come first, the picture with its transition; the end is told once")
    func load() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache, options: DisplayOptions().with(\.transition, .fade(.milliseconds(200))))
        shown.set(ImageRequest(a))
        #expect(shown.told == ["placeholder 000000ff", "activity"])
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .fast)
        transfer.finish(with: try picture.png)
        #expect(await settle { shown.told.last == "image \(picture.size), fade" })
        #expect(
            shown.told.filter { !$0.hasSuffix("%") } == [
                "placeholder 000000ff", "activity", "no activity", "image \(picture.size), fade",
            ])
        #expect(await settle { shown.ends.value == ["\(picture.size)"] })
        await test.cache.shutdown()
    }

    @Test("a picture in memory is shown before the call returns, without placeholder or transition")
    func memory() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        _ = try await test.cache.getImage(a).value
        let fade = DisplayOptions().with(\.transition, .fade(.milliseconds(200)))
        let shown = TestDisplay(test.cache, options: fade)
        let address = a
        shown.queue.sync {
            shown.binding.setImage(address)
            #expect(shown.display.descriptions == ["image \(picture.size)"])
        }
        shown.set(ImageRequest(a), options: fade.with(\.transitionsAlways, true))
        #expect(shown.told.last == "image \(picture.size), fade")
        #expect(shown.ends.value == ["\(picture.size)"])
        await test.cache.shutdown()
    }

    @Test("a picture on disk is shown before the call returns, if that is asked for")
    func disk() async throws {
        let folder = TemporaryFolder()
        do {
            let test = TestImageCache(folder: folder)
            test.transport.script(a, [.body(try picture.png)])
            _ = try await test.cache.getImage(ImageRequest(a).with(\.waitsForDiskWrite, true)).value
            await test.cache.shutdown()
        }
        let test = TestImageCache(folder: folder)
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a), options: DisplayOptions().with(\.loadsFromDiskAtOnce, true))
        #expect(shown.display.descriptions == ["image \(picture.size)"])
        await test.cache.shutdown()
    }

    @Test("the newest picture wins, whichever comes first; the older call is told that it was replaced")
    func newest() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a))
        let first = try await test.transport.nextTransfer()
        shown.set(ImageRequest(b))
        let second = try await test.transport.nextTransfer()
        #expect(shown.ends.value == ["replaced"])
        // The one before goes on as a prefetch.
        #expect(await settle { first.queue == .slow })
        #expect(!first.isCancelled && second.queue == .fast)
        second.finish(with: try small.png)
        #expect(await settle { shown.ends.value == ["replaced", "\(small.size)"] })
        first.finish(with: try picture.png)
        #expect(await settle { test.cache.memory.contains(CacheKey(a)) })
        #expect(shown.told.last == "image \(small.size)")
        await test.cache.shutdown()
    }

    @Test("what is replaced is cancelled, if that is asked for; the same picture set again is not fetched anew")
    func abandonment() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache, options: DisplayOptions().with(\.abandonment, .cancel))
        shown.set(ImageRequest(a))
        let first = try await test.transport.nextTransfer()
        shown.set(ImageRequest(a))
        #expect(!first.isCancelled && test.transport.transfers.count == 1)
        shown.set(ImageRequest(b))
        #expect(await settle { first.isCancelled })
        shown.set(nil, placeholder: .object("an empty frame"))
        #expect(await settle { test.transport.transfers(of: b).allSatisfy(\.isCancelled) })
        #expect(shown.ends.value == ["replaced", "replaced", "replaced", "no source"])
        #expect(shown.told.last == "placeholder an empty frame")
        await test.cache.shutdown()
    }

    @Test("without a request the placeholder is shown; without a placeholder, nothing")
    func noSource() async {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.set(nil)
        shown.set(nil, placeholder: nil)
        #expect(shown.told == ["placeholder 000000ff", "nothing"])
        #expect(shown.ends.value == ["no source", "no source"])
        await test.cache.shutdown()
    }

    @Test("off screen, what is waited for goes on as a prefetch; back on screen it is urgent again, in one transfer")
    func presence() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a))
        let transfer = try await test.transport.nextTransfer()
        shown.perform { $0.didDisappear() }
        #expect(await settle { transfer.queue == .slow && !transfer.isCancelled && !shown.binding.isOnScreen })
        let urgent = test.cache.getImage(b)
        let other = try await test.transport.nextTransfer()
        #expect(await settle { transfer.isThrottled })
        shown.perform { $0.willAppear() }
        #expect(await settle { transfer.queue == .fast && !transfer.isThrottled } && !transfer.isCancelled)
        transfer.finish(with: try picture.png)
        other.finish(with: try small.png)
        _ = try await urgent.value
        #expect(await settle { shown.ends.value == ["\(picture.size)"] })
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("what is set off screen is prefetched, or left until the display appears")
    func setOffScreen() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.perform { $0.didDisappear() }
        shown.set(ImageRequest(a))
        let transfer = try await test.transport.nextTransfer()
        #expect(await settle { transfer.queue == .slow })
        shown.set(ImageRequest(b), options: DisplayOptions().with(\.loadsOffScreen, false).with(\.abandonment, .cancel))
        #expect(test.transport.transfers(of: b).isEmpty)
        shown.perform { $0.willAppear() }
        let wanted = try await test.transport.nextTransfer()
        #expect(wanted.request.url == b && wanted.queue == .fast)
        await test.cache.shutdown()
    }

    @Test("progress is told, and that the call waits for another attempt")
    func activity() async throws {
        let test = TestImageCache { $0.data.progressInterval = .zero }
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a))
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 25, of: 100)
        #expect(await settle { shown.told.last == "activity 25 %" })
        transfer.fail(with: .connectionLost)
        #expect(await settle { shown.told.last?.hasSuffix("waiting") == true })
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(60))
        let again = try await test.transport.nextTransfer()
        #expect(await settle { shown.told.last?.hasSuffix("waiting") == false })
        again.finish(with: try picture.png)
        #expect(await settle { shown.told.last == "image \(picture.size)" })
        #expect(shown.told.contains("no activity"))
        await test.cache.shutdown()
    }

    @Test("a failure shows its own placeholder; without one, what was shown stays")
    func failure() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a), options: DisplayOptions().with(\.failure, .color(.white)))
        (try await test.transport.nextTransfer()).finish(with: Data(), status: 404)
        #expect(await settle { shown.told.last == "failure ffffffff" })
        shown.set(ImageRequest(a))
        (try await test.transport.nextTransfer()).finish(with: Data(), status: 404)
        #expect(await settle { shown.ends.value == ["status 404", "status 404"] })
        #expect(shown.told.last == "no activity" && shown.told.dropLast().contains("placeholder 000000ff"))
        // An end that is known at once.
        shown.set(ImageRequest(string: "no address"))
        #expect(shown.ends.value.last == "invalid URL" && shown.told.last == "placeholder 000000ff")
        await test.cache.shutdown()
    }

    @Test("what is shown stays until the next picture is there, if that is asked for")
    func keepsCurrent() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache, options: DisplayOptions().with(\.keepsCurrentImage, true))
        test.transport.script(a, [.body(try picture.png)])
        shown.set(ImageRequest(a))
        #expect(await settle { shown.ends.value.count == 1 })
        shown.display.forget()
        shown.set(ImageRequest(b))
        #expect(shown.told == ["activity"])
        (try await test.transport.nextTransfer()).finish(with: try small.png)
        #expect(await settle { shown.told.last == "image \(small.size)" })
        #expect(!shown.told.contains { $0.hasPrefix("placeholder") })
        await test.cache.shutdown()
    }

    @Test("cancelling leaves what is shown, and later appearances alone")
    func cancel() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a))
        let transfer = try await test.transport.nextTransfer()
        shown.perform { $0.cancel() }
        #expect(await settle { transfer.isCancelled })
        #expect(shown.ends.value == ["cancelled"] && shown.told.last == "no activity")
        shown.perform {
            $0.didDisappear()
            $0.willAppear()
            $0.cancel()
        }
        #expect(test.transport.transfers.count == 1 && shown.ends.value == ["cancelled"])
        await test.cache.shutdown()
    }

    @Test("previews are shown while the bytes arrive")
    func previews() async throws {
        let test = TestImageCache { $0.data.progressInterval = .zero }
        let shown = TestDisplay(test.cache)
        let file = try Pictures.data("jpeg/progressive.jpg")
        shown.set(ImageRequest(a).with(\.showsPreviews, true))
        let transfer = try await test.transport.nextTransfer()
        transfer.hold(TransferResponse(body: file.prefix(file.count * 3 / 4)))
        transfer.send(progress: file.count * 3 / 4, of: file.count)
        test.clock.advance(by: .seconds(1))
        #expect(await settle { shown.told.contains { $0.hasPrefix("preview") } })
        transfer.finish(with: file)
        #expect(await settle { shown.ends.value.count == 1 })
        #expect(shown.told.last?.hasPrefix("image") == true)
        await test.cache.shutdown()
    }

    @Test("a display that sets another picture as it is shown one gets that one, and each call ends once")
    func reentrancy() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        test.transport.script(b, [.body(try small.png)])
        _ = try await test.cache.getImage(b).value
        let shown = TestDisplay(test.cache)
        let other = b
        let binding = shown.binding
        shown.display.onShow { content in
            guard case .image(let image) = content, image.size != PixelSize(width: 3, height: 2) else { return }
            binding.setImage(other)
        }
        shown.set(ImageRequest(a))
        #expect(await settle { shown.ends.value.count == 1 })
        #expect(shown.told.last == "image \(small.size)")
        #expect(shown.ends.value == ["replaced"])
        await test.cache.shutdown()
    }

    #if GIF
        @Test("a picture that moves is played while it is on screen, frame by frame when they are due")
        func animation() async throws {
            let test = TestImageCache()
            let clock = ManualClock()
            var options = DisplayOptions()
            options.animation.clock = clock
            let shown = TestDisplay(test.cache, options: options)
            test.transport.script(a, [.body(try Pictures.data("gif/keep.gif"))])
            shown.set(ImageRequest(a))
            #expect(await settle { shown.told.contains { $0.hasPrefix("image") } })
            let player = try #require(shown.binding.animatedImage)
            @Sendable func frames() -> Int { shown.told.count { $0.hasPrefix("frame") } }
            let first = frames()
            try await clock.waitForSleepers(1)
            clock.advance(by: .seconds(1))
            #expect(await settle { frames() > first })
            shown.perform { $0.didDisappear() }
            #expect(player.state == .paused)
            shown.perform { $0.willAppear() }
            #expect(player.state == .playing)
            shown.set(nil)
            #expect(player.state == .stopped && shown.binding.animatedImage == nil)
            let last = frames()
            clock.advance(by: .seconds(10))
            #expect(frames() == last && shown.told.last == "placeholder 000000ff")
            shown.set(ImageRequest(a), options: options.with(\.playsAnimations, false))
            #expect(await settle { shown.told.last?.hasPrefix("image") == true })
            #expect(shown.binding.animatedImage == nil)
            await test.cache.shutdown()
        }
    #endif
}
