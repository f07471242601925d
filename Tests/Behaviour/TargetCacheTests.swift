import TestSupport
import Testing

@Suite("Pictures of several caches", .timeLimit(.minutes(2)))
struct TargetCacheTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())
    private let target = TestImageCache(folder: TemporaryFolder())
    private var processed: ImageRequest { ImageRequest(a).inverted }
    private var request: ImageRequest { processed.with(\.targetCache, target.cache) }

    private func idle() async {
        await test.cache.idle()
        await target.cache.idle()
    }

    @Test("the original stays with the cache that is asked; the target has the picture in memory and on disk")
    func kept() async throws {
        try test.script(a, picture)
        #expect(try await test.source(request) == .network)
        await idle()
        #expect(test.cache.data.hasData(for: a) && !target.cache.data.hasData(for: a))
        #expect(test.cache.memoryCount == 0 && !test.cache.hasProcessedImage(for: processed))
        #expect(test.cache.data.diskCount == 1 && target.cache.data.diskCount == 1)
        #expect(try await test.source(request) == .memory)
        for _ in 0..<2 {
            #expect(try test.cache.readImage(for: request)?.pixels == picture.inverted)
            #expect(try target.cache.readImage(for: processed)?.pixels == picture.inverted)
            target.cache.clearMemory()
            #expect(test.cache.hasProcessedImage(for: request))
        }
        #expect(try await test.source(request) == .disk)
        #expect(test.transport.transfers.count == 1 && target.transport.transfers.isEmpty)
    }

    @Test("a picture that the target lacks is made of the original that is there, and goes when it is removed")
    func removed() async throws {
        try test.script(a, picture)
        try await test.load(a)
        #expect(try await test.pixels(request) == picture.inverted)
        await idle()
        test.cache.removeVariant(for: request)
        #expect(!target.cache.hasImage(for: processed) && test.cache.hasImage(for: request))
        test.cache.clearMemory()
        #expect(try await test.source(request) == .disk)
        await idle()
        #expect(target.cache.hasProcessedImage(for: processed) && test.transport.transfers.count == 1)
        test.cache.removeImage(for: request)
        await idle()
        #expect(test.cache.data.diskCount == 0 && target.cache.data.diskCount == 0 && target.cache.memoryCount == 0)
    }

    @Test("a request can have a transport of its own; its picture is kept as any other")
    func transport() async throws {
        let other = ScriptedTransport()
        try other.script(a, [.image(picture), .image(Image.sample(9, 9))])
        let request = ImageRequest(a).with(\.transport, other)
        #expect(try await test.source(request) == .network)
        #expect(try await test.source(a) == .memory)
        await test.forgetMemory()
        #expect(try await test.source(request) == .disk)
        #expect(try await test.cache.getRemoteImage(request).value.size == PixelSize(width: 9, height: 9))
        #expect(other.transfers.count == 2 && test.transport.transfers.isEmpty)
        test.transport.script(url("b"), [.body(Data("b".utf8))])
        #expect(try await test.cache.data.getData(url("b")).value == Data("b".utf8))
        #expect(other.transfers.count == 2)
    }

    @Test("a transport of a request tells its first hop, and hears of changes of the network")
    func transportAndNetwork() async throws {
        let (test, transport) = (TestCache(), ProxiedTransport())
        test.network.setReachable(false, host: "proxy.test")
        let task = test.cache.getData(DataRequest(a).with(\.transport, transport))
        try await task.waitForFailures()
        #expect(task.state == .parked && transport.base.transfers.isEmpty)
        test.network.setReachable(true, host: "proxy.test")
        let transfer = try await test.whileClockRuns { try await transport.base.nextTransfer() }
        test.network.setReachable(false, host: "elsewhere.test")
        try await transport.changes.wait { $0 == 1 }
        transfer.finish(with: Data("a".utf8))
        #expect(try await task.value == Data("a".utf8))
        await transport.shutdown()
    }

    private struct ProxiedTransport: Transport {
        let base = ScriptedTransport()
        let changes = Box(0)

        func start(
            _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
        ) -> any Transfer { base.start(request, receive: receive) }
        func firstHop(to url: URL) -> String { "proxy.test" }
        func networkChanged() { changes.increment() }
        func shutdown() async { await base.shutdown() }
    }

    @Test("the target of a configuration holds for URLs and for pictures that are added")
    func configured() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { [target] in $0.options.targetCache = target.cache }
        try test.script(a, picture)
        #expect(try await test.source(a) == .network)
        #expect(test.cache.readImage(for: a)?.pixels == picture.pixels && target.cache.readImage(for: a) != nil)
        #expect(test.cache.memoryCount == 0 && target.cache.memoryCount == 1)
        try test.cache.addImage(other, for: processed)
        #expect(target.cache.readImage(for: processed)?.pixels == other.pixels)
    }

    @Test("a call that waits for the disk waits for that of the target, also if the asked cache has none")
    func waits() async throws {
        let test = TestImageCache()
        try test.script(a, picture)
        try await test.load(request)
        await target.cache.idle()
        target.cache.clearDisk()
        await target.cache.synchronize()
        #expect(target.cache.memoryCount == 1 && target.cache.data.diskCount == 0)
        #expect(try await test.pixels(request.with(\.waitsForDiskWrite, true)) == picture.inverted)
        #expect(target.cache.data.diskCount == 1)
    }

    @Test("the codecs of the target make the picture, of a request and of a configuration")
    func codecs() async throws {
        let configured = TestImageCache { [target] in $0.options.targetCache = target.cache }
        for (count, (test, request)) in [(test, request), (configured, ImageRequest(a))].enumerated() {
            try test.script(a, picture)
            try await test.load(request)
            #expect(test.decoder.decodes == 0 && target.decoder.decodes == count + 1)
        }
    }

    @Test("cancelling, synchronizing and waiting include the target of a configuration")
    func whole() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { [target] in $0.options.targetCache = target.cache }
        let cancels: [(URL) -> Void] = [
            { _ in test.cache.cancelAll() }, { test.cache.cancel(CacheKey($0)) }, { test.cache.cancel($0) },
        ]
        for (way, cancel) in cancels.enumerated() {
            let address = url("\(way).png")
            let task = test.cache.getImage(address)
            try await test.transport.waitForTransfers(1, of: address)
            cancel(address)
            #expect(await task.error == .cancelled)
        }
        try test.cache.addImage(picture, for: processed)
        await test.cache.synchronize()
        #expect(target.cache.data.diskCount == 1)
        try test.script(url("b.png"), picture)
        test.cache.getImage(ImageRequest(url("b.png")).inverted)
        await test.cache.idle()
        #expect(target.cache.data.diskCount == 2 && test.cache.data.diskCount == 1)
    }

    // MARK: Two data caches

    private let other = Image.sample(seed: 60)

    private func makeOther() throws -> TestCache {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try other.png)])
        return data
    }

    @Test("a prefetcher does not take the picture of one for that of the other; the cache's own is none other")
    func prefetched() async throws {
        let data = try makeOther()
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        #expect(try await test.source(ImageRequest(a).with(\.originals, test.cache.data)) == .memory)
        #expect(test.cache.memoryCount == 1)
        let elsewhere = ImageRequest(a).with(\.originals, data.cache)
        for isThere in [false, true] {
            let result = await ImagePrefetcher(test.cache, [elsewhere], keepsInMemory: true).value
            #expect(result.skipped.count == (isThere ? 1 : 0) && result.completed.count == (isThere ? 0 : 1))
        }
    }

    @Test("each request gets the picture of its own data cache, in memory, on disk, and while both are made")
    func apart() async throws {
        let data = try makeOther()
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        for plain in [ImageRequest(a), processed] {
            let requests = [plain, plain.with(\.originals, data.cache)]
            // A processed picture would be made from the one in memory.
            test.cache.clearMemory()
            let count = test.decoder.decodes
            let tasks = requests.map { test.cache.getImage($0) }
            try await test.decoder.waitForDecodes(count + 1)
            test.decoder.release(2)
            let images = [try await tasks[0].value, try await tasks[1].value]
            #expect(images[0].pixels != images[1].pixels)
            for _ in 0..<2 {
                for (request, image) in zip(requests, images) {
                    #expect(test.cache.readImage(for: request)?.pixels == image.pixels)
                }
                await data.cache.idle()
                await test.forgetMemory()
                test.decoder.release(2)
            }
        }
        // Both have the file and what was processed: no write has taken the place of the other.
        #expect(test.cache.data.diskCount == 2 && data.cache.diskCount == 2)
        let elsewhere = ImageRequest(a).with(\.originals, data.cache)
        test.cache.removeImage(for: elsewhere)
        #expect(!test.cache.hasImage(for: elsewhere) && test.cache.hasProcessedImage(for: processed))
        #expect(!test.cache.hasProcessedImage(for: elsewhere.inverted))
        await data.cache.idle()
        #expect(test.cache.data.diskCount == 2 && data.cache.diskCount == 0)
        test.decoder.releaseAll()
    }

    @Test("bytes under a key that looks like that of a processed picture are no such picture, and stay when it goes")
    func lookalikeKey() async throws {
        try test.script(a, picture)
        let task = test.cache.getImage(processed)
        _ = try await task.value
        let lookalike = CacheKey(task.imageKey.string)
        try await test.cache.data.addDataAndWait(try other.png, for: lookalike)
        test.cache.clearMemory()
        #expect(try await test.pixels(processed) == picture.inverted)
        test.cache.removeImage(for: ImageRequest(a))
        #expect(try test.cache.data.readData(for: lookalike) == other.png)
    }
}
