import Dispatch
import TestSupport
import Testing

@Suite("Pictures by URL, from memory, disk and network", .timeLimit(.minutes(2)))
struct ImageCacheTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("a picture is fetched and decoded once, then memory answers at once with the same pixels")
    func memory() async throws {
        try test.script(a, picture)
        let first = try await test.cache.getImage(a).response
        #expect(first.source == .network && first.attempts == 1 && first.status == 200)
        #expect(first.image.pixels == picture.pixels)
        let second = test.cache.getImage(a)
        #expect(second.state == .finished)
        let response = try await second.response
        #expect(response.source == .memory && response.image.storage === first.image.storage)
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        #expect(test.cache.readImage(for: a)?.storage === first.image.storage)
        #expect(test.cache.cachedSource(for: a) == .memory && test.cache.hasImage(for: a))
        #expect(test.cache.memoryCount == 1 && test.cache.memorySize >= picture.byteCount)
    }

    @Test("the disk keeps the file byte for byte, and a new cache on the folder decodes it without the network")
    func disk() async throws {
        try test.script(a, picture)
        _ = try await test.cache.getImage(a).value
        #expect(try test.cache.data.readData(for: a) == picture.png)
        let two = await test.reopened()
        #expect(two.cache.cachedSource(for: a) == .disk)
        let response = try await two.cache.getImage(a).response
        #expect(response.source == .disk && response.image.pixels == picture.pixels)
        two.cache.clearMemory()
        #expect(two.cache.readImage(for: a)?.pixels == picture.pixels)
        #expect(two.cache.cachedSource(for: a) == .memory && two.transport.transfers.isEmpty)
    }

    @Test("a tier is named after where the bytes are: memory without a folder, and memory for bytes kept there alone")
    func tiers() async throws {
        let inMemory = TestImageCache()
        try inMemory.cache.addImage(bytes: try picture.png, for: a)
        #expect(inMemory.cache.cachedSource(for: a) == .memory)

        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.memoryLimit = 1 << 20 }
        try test.script(a, picture)
        _ = try await test.cache.data.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly)).value
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.cachedSource(for: a) == .memory)
    }

    // MARK: Bytes that are no picture

    @Test("what is no picture, or a broken one, is an error; its bytes stay until the server, asked again, has better")
    func undecodable() async throws {
        for (body, error) in [
            (Data("<html>not here</html>".utf8), DipperError.unsupportedFormat),
            (try picture.png.prefix(60), .undecodable),
        ] {
            let address = url("\(error)")
            try test.transport.script(address, [.body(body), .image(picture)])
            #expect(await test.error(address) == error)
            #expect(test.cache.readImage(for: address) == nil && test.cache.data.readData(for: address) == body)
            #expect(test.transport.transfers(of: address).count == 1)
            await test.forgetMemory()
            test.clock.advance(by: .seconds(5))
            let response = try await test.cache.getImage(address).response
            #expect(response.source == .network && response.image.pixels == picture.pixels)
            #expect(test.transport.transfers(of: address).count == 2)
        }
    }

    // MARK: Requests and keys

    @Test("bad requests end with a typed error: no URL, a scheme that is not for pictures, an empty key")
    func badRequests() async throws {
        let keyless = ImageRequest(a).with(\.key, "")
        #expect(await test.error(ImageRequest(string: "")) == .invalidURL)
        #expect(await test.error(ImageRequest(string: "ftp://host.test/a.png")) == .unsupportedScheme)
        #expect(await test.error(keyless) == .emptyKey)
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: CacheKey("")) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addImage(picture, for: keyless) }
    }

    @Test("a picture is kept, found and removed under a key of the program's own")
    func ownKey() async throws {
        try test.cache.addImage(picture, for: CacheKey("by key"))
        #expect(test.cache.readImage(for: CacheKey("by key"))?.pixels == picture.pixels)
        #expect(test.cache.hasImage(for: ImageRequest(a).with(\.key, "by key")) && !test.cache.hasImage(for: a))
        test.cache.removeImage(for: CacheKey("by key"))
        #expect(!test.cache.hasImage(for: CacheKey("by key")))
    }

    @Test("private pictures are never shown to whoever asks with other headers")
    func headers() async throws {
        try test.script(a, picture, .sample(seed: 3))
        let (mine, yours) = (
            ImageRequest(a).with(\.headers, ["Authorization": "me"]),
            ImageRequest(a).with(\.headers, ["Authorization": "you"])
        )
        let one = try await test.pixels(mine)
        #expect(try await test.pixels(yours) != one && test.transport.transfers.count == 2)
        #expect(test.cache.readImage(for: mine)?.pixels == one)
        #expect(test.cache.readImage(for: a) == nil)
    }

    @Test(
        "a call of the wrong kind ends with the reason, also if no server can be asked, and leaves the bytes to others",
        arguments: [false, true])
    func offline(isUp: Bool) async throws {
        let (folder, target, feed) = (TemporaryFolder(), url("feed"), Feed.sample.bytes)
        let test = TestImageCache(folder: folder)
        test.transport.script(target, [.body(feed), .failure(.connectionFailed)])
        _ = try await test.cache.data.getData(target).value
        await test.cache.idle()
        test.network.isUp = isUp
        for _ in 0..<2 {
            #expect(await test.error(target) == .unsupportedFormat)
            #expect(await test.cache.data.getValue([Int].self, from: target).error == .undecodable)
        }
        #expect(try await test.cache.data.getValue(Feed.self, from: target).value == .sample)
        #expect(try await test.cache.data.getData(target).value == feed)
        if !isUp { #expect(test.transport.transfers.count == 1) }
        test.cache.clearMemory()
        #expect(try await test.cache.data.getData(target).value == feed)
        await test.cache.shutdown()
        let second = TestCache(folder: folder)
        #expect(second.cache.readData(for: target) == feed, "on disk, too")
    }

    // MARK: Tasks

    private func load<Handle: FetchTask>(_ task: Handle) async throws -> (value: Handle.Value, status: Int) {
        let hooked = Box(false)
        task.onProgress { _ in }.onRetry {}.onFail { _, _ in }.then { _ in hooked.update { $0 = true } }
        let response = try await task.response
        try await hooked.wait { $0 }
        return (response.value, response.status)
    }

    @Test("code for both kinds of tasks gets a picture from one and bytes from the other")
    func bothKinds() async throws {
        for address in [a, b] { try test.script(address, picture) }
        let loaded = try await load(test.cache.getImage(a))
        #expect(loaded.value.pixels == picture.pixels && loaded.status == 200)
        let bytes = try await load(test.cache.data.getData(b))
        #expect(try bytes.value == picture.png && bytes.status == 200)
    }

    @Test("failures that may pass are told and retried, fatal ones end the task; hooks set late hear all")
    func hooks() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.status(503), try .image(picture)])
        test.transport.script(b, [.status(404)])
        let told = Box<[String]>([])
        let task = test.cache.getImage(a), failing = test.cache.getImage(b)
        try await test.cache.waitForParked(1)
        #expect(task.state == .parked)
        test.clock.advance(by: .seconds(60))
        #expect(try await task.result.get().pixels == picture.pixels)
        #expect(await failing.error == .status(404))
        for task in [task, failing] {
            task.onFail { error, isFatal in told.update { $0.append("fail \(error) \(isFatal)") } }
                .onRetry { told.update { $0.append("retry") } }
                .then { _ in told.update { $0.append("then") } }
            await test.cache.idle()
        }
        #expect(told.value == ["fail status 503 false", "retry", "then", "fail status 404 true"])
        #expect(task.attempts == 2 && failing.attempts == 1)
    }

    // MARK: Requests of the program's own types

    private struct Avatar: ImageRequestConvertible, DataRequestConvertible {
        let name: String
        var dataRequest: DataRequest { DataRequest(url(name)).with(\.key, CacheKey("avatar of \(name)")) }
        var imageRequest: ImageRequest { ImageRequest(dataRequest) }
    }

    @Test("a type of the program's own is loaded, moved and cancelled by the request that it builds")
    func ownRequests() async throws {
        for name in ["ada", "grace"] { try test.script(url(name), picture) }
        let image = test.cache.getImage(Avatar(name: "ada")), bytes = test.cache.data.getData(Avatar(name: "grace"))
        #expect(image.key == "avatar of ada" && bytes.key == "avatar of grace")
        _ = try await (image.value, bytes.value)
        #expect(test.cache.cachedSource(for: Avatar(name: "ada")) == .memory)
        #expect(test.cache.cachedSource(for: url("ada")) == nil)
        #expect(test.cache.data.hasData(for: Avatar(name: "grace").dataRequest))

        let open = test.cache.getImage(Avatar(name: "alan")) { _ in }
        let read = test.cache.data.getData(Avatar(name: "kurt")) { _ in }
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        test.cache.moveTaskToSlowQueue(Avatar(name: "alan"))
        test.cache.data.moveTaskToSlowQueue(Avatar(name: "kurt"))
        for transfer in transfers { try await transfer.wait { $0.queue == .slow } }
        #expect(open.queue == .slow && read.queue == .slow)
        test.cache.cancel(Avatar(name: "alan"))
        test.cache.data.cancel(Avatar(name: "kurt"))
        #expect(await open.error == .cancelled)
        #expect(await read.error == .cancelled)
    }

    // MARK: Memory pressure

    private let pressure = ManualMemoryPressure()

    private func makeTest(_ folder: TemporaryFolder? = nil) -> TestImageCache {
        TestImageCache(folder: folder) {
            $0.data.memoryPressure = pressure
            $0.data.evictionOrder = .leastRecentlyUsed
            $0.memoryLimit = 400_000
        }
    }

    @Test("moderate pressure: half, severe: none, afterwards all of the limit, also after several, one set meanwhile")
    func levels() async throws {
        let cache = makeTest().cache
        /// Adds pictures of 10,000 bytes each.
        func fill() throws {
            for number in 0..<30 {
                try cache.addImage(.sample(50, 50), bytes: Data("\(number)".utf8), for: url("\(number)"))
            }
        }
        let half = 180_001...200_000
        for _ in 0..<3 {
            try fill()
            #expect(cache.memoryCount == 30)
            #expect(cache.readImage(for: url("2")) != nil)
            pressure.level = .moderate
            #expect(cache.memoryPressure == .moderate && cache.data.memoryPressure == .moderate)
            #expect(half.contains(cache.memorySize))
            #expect(cache.hasImage(for: url("2")) && !cache.hasImage(for: url("1")), "what was used last stays")
            pressure.level = .normal
        }
        try fill()
        #expect(cache.memoryCount == 30)
        pressure.level = .severe
        #expect(cache.memoryCount == 0 && cache.data.memoryCount == 0)
        cache.memoryLimit = 200_000
        #expect(cache.memoryCount == 0)
        pressure.level = .normal
        try fill()
        #expect(half.contains(cache.memorySize))
    }

    @Test("while memory pressure is severe pictures are shown, and not kept in memory")
    func answers() async throws {
        pressure.level = .severe
        let test = makeTest(TemporaryFolder())
        try test.script(url("a"), .sample())
        #expect(try await test.pixels(url("a")) == Image.sample().pixels)
        #expect(test.cache.memoryCount == 0)
        await test.cache.idle()
        #expect(try await test.source(url("a")) == .disk)
        pressure.level = .normal
        _ = try await test.pixels(url("a"))
        #expect(try await test.source(url("a")) == .memory)
        #expect(test.transport.transfers.count == 1)
    }

    // MARK: The end of a cache

    @Test("shutdown ends open calls as cancelled and waits for a picture that is being written")
    func waitsForWrite() async throws {
        let folder = TemporaryFolder()
        let held = Door()
        let test = TestImageCache(folder: folder) { $0.options.serializer = held.serializer }
        try test.script(a, picture)
        let request = ImageRequest(a).inverted.with(\.processingQueue, .dispatch(DispatchQueue(label: "own")))
            .with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try await held.waitForArrivals(1)
        let end = Task { [cache = test.cache] in await cache.shutdown() }
        #expect(await task.error == .cancelled)
        held.stayOpen()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
    }

    @Test("a picture of another data cache is on its way as soon as one of the cache's own is")
    func stateOverOriginals() async throws {
        let data = TestCache()
        for test in [TestImageCache { $0.originals = data.cache }, TestImageCache()] {
            for number in 0..<20 {
                let task = test.cache.getImage(url("\(number)"))
                #expect(task.state == .transferring, "\(number)")
                task.cancel()
                #expect(await task.error == .cancelled)
            }
        }
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data.cache }, two = TestImageCache { $0.originals = data.cache }
        _ = try await one.cache.getImage(ImageRequest(a).inverted).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.error(a) == .shutDown)
        #expect(try await two.pixels(a) == picture.pixels)
        await data.cache.idle()
        #expect(data.cache.diskCount == 2)
    }

    @Test(
        "open calls go on when the last reference is let go of; after them the cache ends, and its folder is complete")
    func released() async throws {
        let (folder, transport, isGone) = (TemporaryFolder(), ScriptedTransport(), Box(false))
        let inverted = ImageRequest(a).inverted
        func calls() -> [ImageTask] {
            let canary = Canary(isGone)
            let test = TestImageCache(folder: folder) { configuration in
                configuration.data.transport = transport
                configuration.data.observe { _ in withExtendedLifetime(canary) {} }
            }
            return [test.cache.getImage(inverted), test.cache.slowGetImage(b)]
        }
        let tasks = calls()
        for _ in tasks { try await transport.nextTransfer().finish(with: try picture.png) }
        for task in tasks { #expect(try await task.value.size == picture.size) }
        try await isGone.wait { $0 }
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasImage(for: b) && again.cache.hasProcessedImage(for: inverted))
    }

    @Test("the renewal of a stale picture goes on when the last reference to its cache is let go of")
    func releasedWithRenewal() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=600"]
        let first = TestImageCache(folder: TemporaryFolder())
        try first.script(a, picture, headers: headers)
        try await first.load(a)
        first.date.advance(by: 100)
        let decoder = CountingDecoder(isHeld: true)
        let (task, transport) = await { (test: TestImageCache) in (test.cache.getImage(a), test.transport) }(
            first.reopened(decoder: decoder))
        try await decoder.waitForDecodes(1)
        await Task.letOthersRun()
        decoder.release()
        let renewal = try #require(try await task.response.revalidation)
        try await transport.nextTransfer().finish(with: try picture.png, headers: headers)
        #expect(try await renewal.value.size == picture.size)
    }

    @Test("a picture that a cache makes for another keeps both until it is there")
    func releasedBeforeTheTarget() async throws {
        let transport = ScriptedTransport()
        func make() -> ImageCache { TestImageCache { $0.data.transport = transport }.cache }
        let task = make().getImage(ImageRequest(a).inverted.with(\.targetCache, make()))
        try await transport.nextTransfer().finish(with: try picture.png)
        #expect(try await task.value.pixels == picture.inverted)
    }

    @Test("a task that is kept, also one with previews, keeps no cache alive", arguments: [false, true])
    func keptTask(isOnDisk: Bool) async throws {
        let tasks = try await TestImageCache.released(isOnDisk ? TemporaryFolder() : nil) { test in
            test.transport.script(a, [.body(ProgressivePhoto.file)])
            let request = ImageRequest(a).with(\.showsPreviews, true)
            var tasks: [ImageTask] = []
            for isFirst in [true, false] {
                tasks.append(test.cache.getImage(request))
                _ = try await tasks.last?.value
                if isFirst { await test.forgetMemory() }
            }
            return tasks
        }
        #expect(tasks.allSatisfy { $0.state == .finished })
    }
}
