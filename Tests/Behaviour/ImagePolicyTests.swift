import TestSupport
import Testing

@Suite("Policies, expirations and HTTP caching, for pictures", .timeLimit(.minutes(2)))
struct ImagePolicyTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 66)
    private let test = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }

    @Test("remote asks the network, anew for every processor; cache only never does; memory only writes no disk")
    func policies() async throws {
        try test.script(a, picture, newer)
        let cacheOnly = ImageRequest(a).with(\.cachePolicy, .cacheOnly)
        #expect(await test.error(cacheOnly) == .notCached)
        try await test.load(ImageRequest(a).with(\.cachePolicy, .memoryOnly))
        #expect(test.cache.data.diskCount == 0 && test.cache.cachedSource(for: a) == .memory)
        #expect(try await test.source(cacheOnly) == .memory)
        #expect(try await test.pixels(processed) == picture.inverted)
        let remote = try await test.cache.getRemoteImage(a).response
        #expect(remote.source == .network && remote.image.pixels == newer.pixels)
        #expect(test.cache.readImage(for: a)?.pixels == newer.pixels, "the newer one is in memory")
        #expect(try await test.pixels(processed) == newer.inverted)
    }

    @Test("what is asked for past the cache is not kept, and takes nothing from the cache if it is no picture")
    func bypass() async throws {
        let good = try ScriptedTransport.Step.image(picture)
        test.transport.script(a, [good, good, good, .body(Data("rubbish".utf8))])
        let request = ImageRequest(a).with(\.cachePolicy, .bypass)
        for _ in 0..<2 { #expect(try await test.pixels(request) == picture.pixels) }
        await test.expectEmpty()
        #expect(test.transport.transfers.count == 2)
        try await test.load(a)
        #expect(await test.error(request) == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.readImage(for: a)?.pixels == picture.pixels)
    }

    @Test("a call past memory takes no picture from a call that shares its fetch", arguments: [true, false])
    func sharedPastMemory(isFirst: Bool) async throws {
        let policies: [DataRequest.CachePolicy] = isFirst ? [.diskOnly, .useCache] : [.useCache, .diskOnly]
        let tasks = policies.map { test.cache.getImage(ImageRequest(a).with(\.cachePolicy, $0)) }
        try await test.transport.nextTransfer().finish(with: try picture.png)
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.idle()
        #expect(test.cache.cachedSource(for: a) == .memory && test.transport.transfers.count == 1)
    }

    @Test(
        "cache only: a picture that is out of date answers, also without its original, and is not revalidated",
        arguments: [false, true], ["max-age=60", "max-age=60, stale-while-revalidate=600"])
    func cacheOnly(isProcessed: Bool, directives: String) async throws {
        try test.script(a, picture, headers: ["ETag": "\"1\"", "Cache-Control": directives])
        let request = isProcessed ? processed.with(\.keepsOriginal, false) : ImageRequest(a)
        try await test.load(request)
        test.date.advance(by: 100)
        for _ in ["memory", "disk"] {
            #expect(test.cache.hasImage(for: request))
            let response = try await test.cache.getImage(request.with(\.cachePolicy, .cacheOnly)).response
            #expect(response.revalidation == nil)
            await test.forgetMemory()
        }
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "pictures stay in memory as long as they are told to; untold, as long as their files on disk",
        arguments: [(1_000, 10, .memory), (10, 1_000, .disk), (nil, 10, nil), (nil, 1_000, .memory)]
            as [(TimeInterval?, TimeInterval, ResponseSource?)], [true, false])
    func memoryExpiration(
        _ expirations: (memory: TimeInterval?, disk: TimeInterval, later: ResponseSource?), isAdded: Bool
    ) async throws {
        try test.script(a, picture)
        var request = ImageRequest(a).with(\.diskExpiration, .after(.seconds(expirations.disk)))
        request.memoryExpiration = expirations.memory.map { .after(.seconds($0)) }
        if isAdded { try test.cache.addImage(picture, for: request) } else { try await test.load(request) }
        await test.cache.idle()
        test.date.advance(by: 20)
        #expect(test.cache.cachedSource(for: a) == expirations.later)
    }

    @Test("no tier keeps a picture longer than its expiration says, however late it is decoded or processed")
    func diskExpiration() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.diskExpiration = .after(.seconds(100)) }
        try test.script(a, picture)
        try await test.load(a)
        test.cache.clearMemory()
        test.date.advance(by: 90)
        #expect(try await test.source(a) == .disk)
        #expect(try await test.source(processed) == .memory)
        await test.cache.idle()
        test.date.advance(by: 20)
        #expect(!test.cache.hasImage(for: a) && !test.cache.hasProcessedImage(for: processed))
        test.cache.clearMemory()
        #expect(try await test.source(processed) == .network)
    }

    @Test("what must not be stored is kept neither as picture nor as processed picture, and takes an older one away")
    func noStore() async throws {
        let b = url("b.png")
        let noStore = try ScriptedTransport.Step.image(newer, headers: ["Cache-Control": "no-store"])
        test.transport.script(a, [noStore])
        test.transport.script(b, [try .image(picture, headers: ["Cache-Control": "max-age=60"]), noStore])
        try await test.load(processed)
        await test.expectEmpty()
        try await test.load(b)
        test.date.advance(by: 100)
        try await test.load(b)
        #expect(!test.cache.data.hasData(for: b) && test.cache.readImage(for: b) == nil)
    }

    // MARK: Confirmed

    private let tagged: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=60"]
    private let stale: HTTPHeaders = ["Cache-Control": "max-age=60, stale-while-revalidate=600"]

    private var confirmation: ScriptedTransport.Step { .status(304, tagged) }

    @Test(
        "a processed picture whose original is confirmed is as fresh as that, and neither processed nor encoded again")
    func confirmed() async throws {
        let invert = Inverting()
        let encoded = Box(0)
        let counting = ImageSerializer { image, _, codecs throws(DipperError) in
            encoded.update { $0 += 1 }
            return try codecs.encode(image, as: .png)
        }
        let request = ImageRequest(a).processed(by: invert).with(\.serializer, counting)
        test.transport.script(
            a,
            [
                try .image(picture, headers: tagged), confirmation, confirmation,
                try .image(newer, headers: ["ETag": "\"2\""]),
            ])
        try await test.load(request)
        _ = try await test.cache.getImage(request).value
        #expect(test.transport.transfers.count == 1, "it is fresh")
        for round in 1...2 {
            test.date.advance(by: 100)
            test.cache.clearMemory()
            let response = try await test.cache.getImage(request).response
            #expect(try response.source == .revalidated && response.image.pixels == picture.inverted)
            await test.forgetMemory()
            #expect(try await test.source(request) == .disk, "fresh on disk as well")
            let file = test.cache.data.readResponse(for: test.cache.imageKey(for: request))
            let until = try #require(file?.freshUntil)
            #expect(until > test.date.now, "its file needs no look at the original")
            #expect(test.transport.transfers.count == 1 + round && invert.count.value == 1 && encoded.value == 1)
        }
        test.date.advance(by: 100)
        let replaced = try await test.cache.getImage(request).response
        #expect(try replaced.source == .network && replaced.image.pixels == newer.inverted)
        await test.cache.idle()
        #expect(invert.count.value == 2 && encoded.value == 2)
    }

    @Test("a picture in memory that is out of date is asked about, and not decoded again if it still holds")
    func inMemory() async throws {
        test.transport.script(a, [try .image(picture, headers: tagged), confirmation])
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
        try await test.transport.nextTransfer().finish(with: try picture.png, headers: stale)
        test.decoder.release()
        _ = try await first.value
        await test.cache.idle()
        test.date.advance(by: 100)
        return test
    }

    private func answer(_ test: TestImageCache) async throws {
        try await test.transport.nextTransfer().finish(with: try newer.png, headers: stale)
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
        #expect(responses.allSatisfy { $0.source == .stale && $0.image.pixels == picture.pixels })
        let first = try #require(responses[0].revalidation)
        #expect(first === responses[0].revalidation)
        try await answer(test)
        try await test.decoder.waitForDecodes(2)
        for _ in 0..<10 { #expect(try await test.source(request) == .stale, "while it is being decoded") }
        test.decoder.releaseAll()
        for response in responses { #expect(try await response.revalidation?.value.pixels == newer.pixels) }
        await test.cache.idle()
        #expect(told.value.count == 50 && told.value.allSatisfy { $0 == newer.pixels })
        let again = try await test.cache.getImage(request).response
        #expect(again.source == .memory && again.image.pixels == newer.pixels)
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
        transfer.finish(with: try newer.png, headers: stale)
        #expect(try await revalidation.value.pixels == newer.pixels)
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
            try test.script(a, picture, headers: stale)
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
