import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures that are confirmed, replaced, or shown while they are revalidated", .timeLimit(.minutes(2)))
struct RevalidatedImageTests {
    private let a = url("a")
    private let old = Image.sample(40, 30)
    private let new = Image.sample(40, 30, seed: 77)
    private let tagged: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
    private let stale: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]
    private let test = TestImageCache(folder: TemporaryFolder())

    private var confirmation: ScriptedTransport.Step { .status(304, tagged) }

    // MARK: Confirmed

    @Test("a processed picture whose original is confirmed is neither processed nor written again; of a new one it is")
    func processed() async throws {
        let invert = Inverting()
        let encoded = Box(0)
        let counting = ImageSerializer { image, _, codecs throws(DipperError) in
            encoded.update { $0 += 1 }
            return try codecs.encode(image, as: .png)
        }
        let request = ImageRequest(a).processed(by: invert).with(\.serializer, counting)
        test.transport.script(
            a,
            [try .image(old, headers: tagged), confirmation, confirmation, try .image(new, headers: ["ETag": "\"2\""])])
        try await test.load(request)
        _ = try await test.cache.getImage(request).value
        #expect(test.transport.transfers.count == 1, "it is fresh")
        for round in 1...2 {
            test.date.advance(by: 100)
            test.cache.clearMemory()
            let response = try await test.cache.getImage(request).response
            #expect(try response.source == .revalidated && response.image.pixels == old.inverted)
            await test.forgetMemory()
            #expect(try await test.source(request) == .disk, "fresh on disk as well")
            #expect(test.transport.transfers.count == 1 + round && invert.count.value == 1 && encoded.value == 1)
        }
        test.date.advance(by: 100)
        let replaced = try await test.cache.getImage(request).response
        #expect(try replaced.source == .network && replaced.image.pixels == new.inverted)
        await test.cache.idle()
        #expect(invert.count.value == 2 && encoded.value == 2)
    }

    @Test("a picture in memory that is out of date is asked about, and not decoded again if it still holds")
    func inMemory() async throws {
        test.transport.script(a, [try .image(old, headers: tagged), confirmation])
        let first = try await test.cache.getImage(a).value
        test.date.advance(by: 100)
        let second = try await test.cache.getImage(a).response
        #expect(second.source == .revalidated && second.image.storage === first.storage)
        #expect(test.decoder.decodes == 1)
        #expect(try await test.source(a) == .memory)
    }

    // MARK: Shown meanwhile

    private func outdated(isHeld: Bool = false, folder: TemporaryFolder? = nil) async throws -> TestImageCache {
        let test = TestImageCache(folder: folder, decoder: CountingDecoder(isHeld: isHeld))
        let first = test.cache.getImage(a)
        try await test.transport.nextTransfer().finish(with: try old.png, headers: stale)
        test.decoder.release()
        _ = try await first.value
        await test.cache.idle()
        test.date.advance(by: 100)
        return test
    }

    private func answer(_ test: TestImageCache) async throws {
        try await test.transport.nextTransfer().finish(with: try new.png, headers: stale)
    }

    @Test(
        "the old picture at once, the new one by one revalidation that all can follow, and from then on",
        arguments: [true, false])
    func shown(prefetchesToMemory: Bool) async throws {
        let test = try await outdated(isHeld: true)
        let request = ImageRequest(a).with(\.prefetchesToMemory, prefetchesToMemory)
        let told = Box<[[UInt8]]>([])
        var responses: [ImageResponse] = []
        for _ in 0..<50 {
            let task = test.cache.getImage(request)
            task.onRevalidate { result in told.update { $0.append((try? result.get())?.image.pixels ?? []) } }
            responses.append(try await task.response)
        }
        #expect(responses.allSatisfy { $0.source == .stale && $0.image.pixels == old.pixels })
        let first = try #require(responses[0].revalidation)
        #expect(first === responses[0].revalidation)
        try await answer(test)
        try await test.decoder.waitForDecodes(2)
        for _ in 0..<10 { #expect(try await test.source(request) == .stale, "while it is being decoded") }
        test.decoder.releaseAll()
        for response in responses { #expect(try await response.revalidation?.value.pixels == new.pixels) }
        await test.cache.idle()
        #expect(told.value.count == 50 && told.value.allSatisfy { $0 == new.pixels })
        let again = try await test.cache.getImage(request).response
        #expect(again.source == .memory && again.image.pixels == new.pixels)
        #expect(test.transport.transfers.count == 2)
    }

    @Test("cancelling one call's revalidation leaves another's; cancelling all ends both", arguments: [false, true])
    func cancelled(isAll: Bool) async throws {
        let test = try await outdated()
        let responses = [try await test.cache.getImage(a).response, try await test.cache.getImage(a).response]
        let mine = try #require(responses[0].revalidation), yours = try #require(responses[1].revalidation)
        if isAll { test.cache.cancelAll() } else { mine.cancel() }
        #expect(await mine.error == .cancelled)
        try await answer(test)
        #expect(await yours.error == (isAll ? .cancelled : nil))
    }

    @Test("a revalidation takes a priority as soon as it is handed out")
    func reordered() async throws {
        let test = try await outdated()
        test.cache.data.slowQueue.isSuspended = true
        let prefetch = test.cache.data.slowGetData(url("b"))
        let revalidation = try #require(try await test.cache.getImage(a).response.revalidation)
        revalidation.priority = .high
        // Another that follows the same fetch does not take it back.
        let other = try await test.cache.getImage(ImageRequest(a).with(\.timeout, .seconds(500))).response.revalidation
        other?.priority = .low
        test.cache.data.slowQueue.isSuspended = false
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == a && transfer.request.queue == .slow)
        prefetch.cancel()
        transfer.finish(with: try new.png, headers: stale)
        #expect(try await revalidation.value.pixels == new.pixels)
    }

    @Test("what a revalidation has brought does not come back after a removal, however late it is asked for")
    func removedAfterwards() async throws {
        let test = try await outdated()
        let response = try await test.cache.getImage(a).response
        try await answer(test)
        await test.cache.idle()
        test.cache.removeImage(for: a)
        _ = try await response.revalidation?.value
        await test.cache.idle()
        #expect(!test.cache.hasImage(for: a))
    }

    @Test("an answer that is out of date does not keep the caches alive", arguments: [false, true])
    func released(isOnDisk: Bool) async throws {
        let held = try await TestImageCache.released(isOnDisk ? TemporaryFolder() : nil) { test in
            try test.script(a, old, headers: stale)
            try await test.load(a)
            if isOnDisk { test.cache.clearMemory() }
            test.date.advance(by: 100)
            return try await test.cache.getImage(a).response
        }
        #expect(held.source == .stale)
        // The newer picture was there before, or the cache has cancelled its call.
        let end = await held.revalidation?.error
        #expect(end == nil || end == .cancelled)
    }
}
