import TestSupport
import Testing

@Suite("Each tier by itself", .timeLimit(.minutes(2)))
struct TierAccessTests {
    private let test = TestImageCache(folder: TemporaryFolder())
    private let a = url("a")

    @Test("one tier can be asked and cleared; what is being fetched meanwhile is not kept there")
    func oneTier() async throws {
        let test = TestCache(folder: TemporaryFolder())
        try await test.cache.addDataAndWait(Data("a".utf8), for: a)
        #expect(test.cache.hasData(for: a, in: .memory) && test.cache.hasData(for: a, in: .disk))
        let (running, transfer) = try await test.begin(url("b"))
        test.cache.clearDisk()
        #expect(test.cache.hasData(for: a, in: .memory) && !test.cache.hasData(for: a, in: .disk))
        transfer.finish(with: Data("b".utf8))
        #expect(try await running.value == Data("b".utf8))
        await test.cache.idle()
        #expect(test.cache.hasData(for: url("b"), in: .memory) && !test.cache.hasData(for: url("b"), in: .disk))
        try await test.cache.addDataAndWait(Data("c".utf8), for: url("c"))
        test.cache.clearMemory()
        #expect(!test.cache.hasData(for: url("c"), in: .memory) && test.cache.readData(for: url("c")) == Data("c".utf8))
    }

    @Test("bytes and pictures can be read from one tier alone, which leaves the other as it is")
    func readOneTier() async throws {
        let (picture, circle) = (Image.sample(40, 30), ImageRequest(a).processed(by: .circle))
        test.transport.script(a, [try .image(picture)])
        let made = try await test.cache.getImage(circle).value
        await test.cache.idle()
        for tier in [CacheTiers.memory, .disk] {
            #expect(await test.cache.image(for: circle, in: tier)?.pixels == made.pixels)
        }
        let bytes = TestCache().cache
        try bytes.addData(Data("b".utf8), for: url("b"))
        #expect(await bytes.data(for: url("b"), in: .memory) == Data("b".utf8))
        #expect(await bytes.data(for: url("b"), in: .disk) == nil)
        await test.forgetMemory()
        #expect(try await test.cache.data.data(for: a, in: .disk) == picture.png)
        #expect(await test.cache.image(for: a, in: .disk)?.pixels == picture.pixels)
        #expect(await test.cache.image(for: circle, in: .disk)?.pixels == made.pixels)
        #expect(await test.cache.image(for: circle, in: .memory) == nil)
        #expect(await test.cache.data.data(for: a, in: .memory) == nil)
        #expect(test.cache.memoryCount == 0, "what is read from the disk alone stays out of memory")
        #expect(await test.cache.image(for: circle, in: .all)?.pixels == made.pixels)
        let nothing = url("nothing")
        #expect(await test.cache.image(for: nothing, in: .all) == nil)
        #expect(await test.cache.data.data(for: nothing, in: .all) == nil)
        await test.cache.shutdown()
        #expect(await test.cache.image(for: url("b"), in: .disk) == nil)
        #expect(await test.cache.data.data(for: url("b"), in: .disk) == nil)
    }

    @Test("by key too: one tier is read and the other stays as it is")
    func keys() async throws {
        let (key, picture) = (CacheKey("cover"), Image.sample(40, 30))
        try test.cache.addImage(bytes: picture.png, for: ImageRequest(a).with(\.key, key))
        await test.cache.synchronize()
        #expect(try await test.cache.data.data(for: key, in: .disk) == picture.png)
        #expect(await test.cache.image(for: key, in: .all)?.pixels == picture.pixels)
        #expect(await test.cache.image(for: key, in: .memory)?.pixels == picture.pixels)
        let bytes = TestCache().cache
        try bytes.addData(Data("b".utf8), for: key)
        #expect(await bytes.data(for: key, in: .memory) == Data("b".utf8))
        #expect(await bytes.data(for: key, in: .disk) == nil)
        await test.forgetMemory()
        #expect(await test.cache.image(for: key, in: .memory) == nil)
        #expect(await test.cache.data.data(for: key, in: .memory) == nil)
        #expect(await test.cache.image(for: key, in: .disk)?.pixels == picture.pixels)
        #expect(await test.cache.data.data(for: "other", in: .all) == nil && test.cache.memoryCount == 0)
    }

    @Test("a look into memory finds what is decoded there, by URL, request and key, and leaves the disk alone")
    func inMemory() async throws {
        let (key, picture, bytes) = (CacheKey("cover"), Image.sample(40, 30), Data("b".utf8))
        let (named, circle) = (ImageRequest(a).with(\.key, key), ImageRequest(a).processed(by: .circle))
        let folder = TemporaryFolder()
        let other = TestCache(folder: folder).cache
        try await test.cache.addImageAndWait(picture, for: "cover")
        try await test.cache.addImageAndWait(picture, for: a)
        try await other.addDataAndWait(bytes, for: DataRequest(a).with(\.key, "front page"))
        try await other.addDataAndWait(bytes, for: a)
        #expect(test.cache.imageInMemory(for: a)?.pixels == picture.pixels)
        #expect(test.cache.imageInMemory(for: named)?.pixels == picture.pixels)
        #expect(test.cache.imageInMemory(for: key)?.pixels == picture.pixels)
        #expect(test.cache.imageInMemory(for: circle) == nil, "it would have to be made")
        #expect(other.dataInMemory(for: a) == bytes && other.dataInMemory(for: DataRequest(a)) == bytes)
        #expect(other.dataInMemory(for: "front page") == bytes)
        #expect(test.cache.hasImage(for: a, in: .memory) && test.cache.hasImage(for: key, in: .memory))
        await test.forgetMemory()
        other.clearMemory()
        #expect(test.cache.imageInMemory(for: a) == nil && test.cache.imageInMemory(for: named) == nil)
        #expect(test.cache.imageInMemory(for: key) == nil && !test.cache.hasImage(for: a, in: .memory))
        #expect(other.dataInMemory(for: a) == nil && other.dataInMemory(for: DataRequest(a)) == nil)
        #expect(other.dataInMemory(for: "front page") == nil && test.cache.memoryCount + other.memoryCount == 0)
        #expect(test.cache.hasImage(for: a, in: .disk) && test.cache.hasImage(for: circle, in: .disk))
        #expect(test.cache.cachedSource(for: key) == .disk && test.cache.hasImage(for: key))
        #expect(await test.cache.image(for: key)?.pixels == picture.pixels)
        #expect(await other.data(for: "front page") == bytes)
        #expect(test.cache.imageInMemory(for: "cover") != nil && other.dataInMemory(for: "front page") == bytes)
        withExtendedLifetime(folder) {}
    }

    @Test("what reads the disk or decodes on the caller's thread can be awaited, on another thread") @MainActor
    func reading() async throws {
        struct Feed: Codable, Equatable { var items = [1, 2] }
        try test.cache.data.addData(JSONEncoder().encode(Feed()), for: url("feed"))
        try test.cache.addImage(bytes: Image.sample().png, for: a)
        await test.forgetMemory()
        let (feed, wasOnMain) = await test.cache.data.read { cache in
            (cache.readValue(Feed.self, for: url("feed")), Thread.isMainThread)
        }
        #expect(feed == Feed() && !wasOnMain)
        let (image, tier, wasHere) = await test.cache.read { cache in
            (cache.readImage(for: url("a")), cache.cachedSource(for: url("a")), Thread.isMainThread)
        }
        #expect(image?.size == Image.sample().size && tier == .memory && !wasHere)
        #expect(await test.cache.data.read { $0.entry(for: CacheKey(url("a"))) }?.url == "http://host.test/a")
        await test.cache.shutdown()
        #expect(await test.cache.read { $0.memoryCount } == 1)
        #expect(await test.cache.data.read { $0.diskCount } == 0)
    }

    @Test("a change can be awaited until the disk has carried it out, and throws what it throws")
    func writing() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache(folder: folder)
        let (large, gone) = (Data(count: 20_000), { folder.files.allSatisfy { !$0.hasPrefix("blobs/") } })
        func fill() async throws {
            try await test.cache.data.write { try $0.addData(large, for: url("a")) }
            #expect(test.cache.data.diskCount == 1 && !gone())
        }
        try await fill()
        try await test.cache.write { $0.clearDisk() }
        #expect(test.cache.data.diskCount == 0 && gone())
        try await fill()
        try await test.cache.write { $0.removeImage(for: url("a"), from: .disk) }
        #expect(test.cache.data.diskCount == 0 && gone())
        try await fill()
        try await test.cache.data.write { $0.trimDisk(to: 0) }
        #expect(test.cache.data.diskCount == 0 && gone())
        try await fill()
        try await test.cache.data.write { $0.removeData(for: url("a"), from: .disk) }
        #expect(test.cache.data.diskCount == 0 && gone())
        await #expect(throws: DipperError.emptyKey) {
            try await test.cache.write { try $0.addImage(.sample(), for: CacheKey("")) }
        }
    }

    @Test(
        "a picture in memory is enough for one that is made from it; reading waits for no suspended queue",
        arguments: [true, false])
    func readAllTiers(isAdded: Bool) async throws {
        let test = TestImageCache()
        test.cache.data.slowQueue.isSuspended = true
        if isAdded {
            try test.cache.addImage(.sample(40, 30), for: a)
        } else {
            try test.script(a, .sample(40, 30))
            _ = try await test.cache.getImage(a).value
            test.cache.data.clearMemory()
        }
        let circle = ImageRequest(a).processed(by: .circle)
        #expect(await test.cache.image(for: circle, in: .disk) == nil)
        #expect(await test.cache.image(for: circle, in: .memory)?.size == PixelSize(width: 30, height: 30))
        let small = ImageRequest(a).processed(by: .downsample(width: 8, height: 6))
        #expect(await test.cache.image(for: small, in: .memory)?.width == 8)
        let found = await test.cache.image(for: circle, in: .all)
        #expect(found != nil && found?.pixels == test.cache.readImage(for: circle)?.pixels)
        let onDisk = TestCache(folder: TemporaryFolder()).cache
        onDisk.slowQueue.isSuspended = true
        try onDisk.addData(Data("a".utf8), for: a)
        #expect(await onDisk.data(for: a, in: .memory) == Data("a".utf8))
    }

    @Test("a picture that is added is on disk when the method returns, also as the file of a request")
    func additions() async throws {
        let small = ImageRequest(a).processed(by: .circle)
        try await test.cache.addImageAndWait(.sample(), for: ImageRequest(a).with(\.durability, .durable))
        try await test.cache.addImageAndWait(.sample(4, 4), for: small)
        #expect(test.cache.diskCount == 2)
        let own = ImageRequest(url("b")).with(\.headers, ["Accept": "image/png"])
        try test.cache.addImage(bytes: Image.sample().png, for: own)
        #expect(try await test.pixels(own) == Image.sample().pixels)
        #expect(!test.cache.hasImage(for: url("b")) && test.transport.transfers.isEmpty)
    }

    @Test("an added picture that cannot be written is neither fetched nor lost; a cleared disk does not get it")
    func unwritten() async throws {
        let never = ImageSerializer { _, _, _ in throw DipperError.unencodable }
        let test = TestImageCache(folder: TemporaryFolder()) { $0.options.serializer = never }
        try await test.cache.addImageAndWait(.sample(), for: ImageRequest(a))
        try await test.cache.addImageAndWait(.sample(), for: ImageRequest(#require(URL(string: "app://avatar/1"))))
        await #expect(throws: DipperError.notWritten) {
            try await test.cache.addImageAndWait(.sample(), for: ImageRequest(a).with(\.durability, .durable))
        }
        #expect(test.cache.readImage(for: a) != nil && test.transport.transfers.isEmpty)
        await test.cache.shutdown()
        let other = TestImageCache(folder: TemporaryFolder())
        try other.cache.addImage(.sample(), for: a)
        other.cache.clearDisk()
        await other.cache.idle()
        #expect(other.cache.diskCount == 0 && other.cache.readImage(for: a) != nil)
    }

    @Test("a processed picture of an answer that varies is found by the header fields that chose it")
    func variants() async throws {
        try test.script(a, .sample(), headers: ["Vary": "Accept"])
        let small = ImageRequest(a).with(\.headers, ["Accept": "image/png"]).processed(by: .circle)
        try await test.load(small)
        test.cache.clearMemory()
        #expect(test.cache.hasProcessedImage(for: small) && test.cache.hasImage(for: small))
    }

    @Test(
        "an answer that is no picture makes the next source's turn, and is not kept; answers and errors name their URLs"
    )
    func noPicture() async throws {
        test.transport.script(a, [.text("<html>Please log in</html>")])
        try test.script(url("mirror"), .sample())
        let response = try await test.cache.getImage(ImageRequest(a).with(\.alternatives, [url("mirror")])).response
        #expect(response.image.pixels == Image.sample().pixels && response.url == url("mirror"))
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        test.transport.script(url("c"), [.text("<html>")])
        test.transport.script(url("d"), [.status(404)])
        let failed = await test.cache.getImage(ImageRequest(url("c")).with(\.alternatives, [url("d")])).error
        #expect(failed == .status(404) && failed?.url == url("d"))
        #expect(failed?.earlier == [.unsupportedFormat] && failed?.earlier.first?.url == url("c"))
        let plain = await test.cache.getImage(url("c")).error
        #expect(plain == .unsupportedFormat && plain?.url == url("c"))
    }

    // MARK: Who answered

    @Test("files, text, memory and code of the program answer as providers, in every kind of call, and are counted")
    func providers() async throws {
        let file = TemporaryFolder().url.appendingPathComponent("a.png")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Image.sample().png.write(to: file)
        let response = try await test.cache.getImage(file).response
        #expect(response.source == .provider && response.url == nil)
        #expect(response.askedSource?.provider?.cacheKey == ImageRequest(file).data.cacheKey)
        #expect(try await test.cache.getImage(file).response.askedSource == nil, "from memory")
        let text = DataRequest(MemoryProvider(Data("[1]".utf8), key: "list"))
        let value = try await test.cache.data.getValue([Int].self, from: text).response
        #expect(value.source == .provider && value.askedSource?.provider?.cacheKey == "list")
        let custom = DataRequest(CustomProvider(key: "code") { Data("x".utf8) })
        #expect(try await test.cache.data.getData(custom).response.source == .provider)
        let statistics = test.cache.data.statistics
        #expect(statistics.providerAnswers == 3 && statistics.networkAnswers == 0 && statistics.memoryHits == 1)
    }

    @Test("the answer and each earlier failure name the source that was asked, a provider too")
    func sources() async throws {
        let broken = CustomProvider(key: "broken") { throw DipperError.unreadable }
        let bundled = MemoryProvider(try Image.sample().png, key: "bundled")
        test.transport.script(a, [.status(404)])
        test.transport.script(url("b"), [.status(302, ["Location": "/c"])])
        test.transport.script(url("c"), [.status(404)])
        var request = ImageRequest(a)
        request.alternatives = [.provider(broken), .url(url("b")), .provider(bundled)]
        let response = try await test.cache.getImage(request).response
        #expect(response.source == .provider && response.askedSource?.provider?.cacheKey == "bundled")
        request.alternatives.removeLast()
        let failed = await test.error(request)
        #expect(failed?.askedSource?.url == url("b") && failed?.url == url("c"))
        #expect(failed?.earlier.map(\.askedSource?.url) == [a, nil])
        #expect(failed?.earlier.last?.askedSource?.provider?.cacheKey == "broken")
        try test.script(url("c"), .sample())
        let answer = try await test.cache.getImage(request).response
        #expect(answer.source == .network && answer.askedSource?.url == url("b") && answer.url == url("c"))
    }
}
