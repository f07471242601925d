import TestSupport
import Testing

@Suite("Pictures and their steps are fetched and made once", .timeLimit(.minutes(2)))
struct SharedStepsTests {
    private let a = url("a.png")
    private let picture = Image.sample()
    private let first = Inverting("first")
    private let second = Inverting("second")
    private let test = TestImageCache(folder: TemporaryFolder())
    private var short: ImageRequest { ImageRequest(a).processed(by: first) }
    private var long: ImageRequest { ImageRequest(a).processed(by: ImageProcessors.Chain([first, second])) }

    @Test("what two chains have in common is made once, whoever comes first", arguments: [false, true])
    func atOnce(isLongFirst: Bool) async throws {
        let test = TestImageCache()
        let requests = isLongFirst ? [long, short] : [short, long]
        let tasks = requests.map { test.cache.getImage($0) }
        try await test.transport.nextTransfer().finish(with: try picture.png)
        let images = [try await tasks[0].value, try await tasks[1].value]
        #expect(try images[isLongFirst ? 1 : 0].pixels == picture.inverted)
        #expect(images[isLongFirst ? 0 : 1].pixels == picture.pixels, "inverted twice")
        #expect(test.decoder.decodes == 1 && first.count.value == 1 && second.count.value == 1)
        #expect(test.transport.transfers.count == 1)
    }

    @Test("a smaller size is decoded and resized once, for itself and for what is made from it")
    func smaller() async throws {
        let test = TestImageCache()
        let small = ImageRequest(a).processed(by: .downsample(width: 4, height: 4))
        let tasks = [small, small.processed(by: second)].map { test.cache.getImage($0) }
        try await test.transport.nextTransfer().finish(with: try Image.sample(8, 8).png)
        let sizes = [try await tasks[0].value.size, try await tasks[1].value.size]
        #expect(sizes == [PixelSize(width: 4, height: 4), PixelSize(width: 4, height: 4)])
        #expect(test.decoder.decodes == 1)
    }

    @Test(
        "a picture in memory or on disk is the start of a longer chain, without its original and without network",
        arguments: [false, true])
    func start(isInMemory: Bool) async throws {
        let kept = short.with(\.keepsOriginal, false)
        let before = TestImageCache(folder: TemporaryFolder())
        try before.script(a, picture)
        try await before.load(kept)
        #expect(!before.cache.data.hasData(for: a) && before.cache.data.diskCount == 1)
        let test = await isInMemory ? before : before.reopened()
        test.network.isUp = false
        let response = try await test.cache.getImage(long.with(\.cachePolicy, .cacheOnly)).response
        #expect(response.image.pixels == picture.pixels)
        #expect(test.cache.readImage(for: long)?.pixels == picture.pixels)
        #expect(first.count.value == 1 && test.transport.transfers.count == (isInMemory ? 1 : 0))
    }

    @Test("a step on the way to what was asked for takes no room in memory or on disk")
    func between() async throws {
        try test.script(a, picture)
        try await test.load(long.with(\.keepsOriginal, false))
        #expect(test.cache.memoryCount == 1 && test.cache.data.diskCount == 1)
        #expect(test.cache.hasProcessedImage(for: long) && !test.cache.hasProcessedImage(for: short))
    }

    @Test("what is not kept of an original never reaches the disk; it stays if nothing takes its place")
    func original() async throws {
        let writes = Box<[Int]>([])
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.observe { if case .writeBegan(let bytes) = $0.kind { writes.update { $0.append(bytes) } } }
        }
        let file = try Image.sample(40, 40).png
        let request = ImageRequest(a).processed(by: .downsample(width: 2, height: 2)).with(\.keepsOriginal, false)
        test.transport.script(a, [.body(file)])
        try await test.load(request)
        #expect(writes.value.count == 1 && writes.value.allSatisfy { $0 < file.count })
        let b = url("b.png")
        test.transport.script(b, [.body(file)])
        let unwritten = ImageRequest(b).processed(by: first).with(\.keepsOriginal, false)
            .with(\.serializer, ImageSerializer { _, _, _ throws(DipperError) in throw .unencodable })
        try await test.load(unwritten)
        #expect(test.cache.data.readData(for: b) == file)
    }

    @Test("failures are counted as callers see them")
    func failures() async throws {
        try test.script(a, picture)
        for _ in 0..<3 { _ = try await test.cache.slowGetImage(short).value }
        test.cache.clearMemory()
        await test.cache.idle()
        _ = try await test.cache.slowGetImage(short).value
        #expect(test.cache.data.statistics.failures == 0)
        let b = url("b.json")
        test.transport.script(b, [.body(Data("{}".utf8))])
        #expect(await test.cache.getImage(b).error == .unsupportedFormat)
        #expect(test.cache.data.statistics.failures == 1)
    }

    @Test("stored bytes that nothing can be made of are asked about again, unless the cache alone may answer")
    func versions() async throws {
        let rubbish = Data("rubbish".utf8)
        test.transport.script(a, [.body(rubbish), .body(rubbish), .body(try picture.png)])
        _ = try await test.cache.data.getData(a).value
        await test.cache.idle()
        #expect(await test.error(ImageRequest(a).with(\.cachePolicy, .cacheOnly)) == .unsupportedFormat)
        #expect(test.transport.transfers.count == 1)
        for _ in 0..<3 { #expect(await test.error(ImageRequest(a)) == .unsupportedFormat) }
        #expect(test.transport.transfers.count == 2)
        // The server is well again; it is asked after a while.
        test.clock.advance(by: .seconds(5))
        #expect(try await test.pixels(a) == picture.pixels)
        #expect(test.transport.transfers.count == 3)
    }

    @Test("what is made of a picture that is being written does not wait for ever, nor do later calls for either")
    func written() async throws {
        let held = Door()
        try test.script(a, picture)
        func get(_ request: ImageRequest) -> ImageTask {
            test.cache.getImage(request.with(\.waitsForDiskWrite, true).with(\.serializer, held.serializer))
        }
        var tasks = [get(short)]
        try await held.waitForArrivals(1)
        tasks += [get(long), get(short)]
        try await second.count.wait { $0 == 1 }
        held.stayOpen()
        for task in tasks { _ = try await task.value }
        #expect(try await get(long).value.pixels == picture.pixels)
        await test.cache.idle()
        #expect(test.cache.hasProcessedImage(for: short) && test.cache.hasProcessedImage(for: long))
    }

    @Test("what is asked for anew is kept, processed too, and displaces what was made of the bytes before")
    func anew() async throws {
        let newer = Image.sample(seed: 9)
        try test.script(a, picture, newer)
        for request in [short, long] { try await test.load(request) }
        // Both calls wait for one fetch: the second one would displace what was made of the bytes of another.
        test.cache.data.fastQueue.isSuspended = true
        let tasks = [short, long].map { test.cache.getRemoteImage($0) }
        test.cache.data.fastQueue.isSuspended = false
        #expect(try await tasks[0].value.pixels == newer.inverted)
        #expect(try await tasks[1].value.pixels == newer.pixels)
        for isInMemory in [true, false] {
            await test.cache.idle()
            if !isInMemory { test.cache.clearMemory() }
            for (request, pixels) in [(short, try newer.inverted), (long, newer.pixels)] {
                let response = try await test.cache.getImage(request).response
                #expect(response.image.pixels == pixels && response.source == (isInMemory ? .memory : .disk))
            }
        }
    }

    @Test("a picture of older bytes that waits to be written does not come to disk after one of newer bytes")
    func olderWrite() async throws {
        let newer = Image.sample(seed: 9)
        let held = Door()
        try test.script(a, picture, newer)
        _ = try await test.cache.getImage(short.with(\.serializer, held.serializer)).value
        try await held.waitForArrivals(1)
        _ = try await test.cache.getRemoteImage(a).value
        held.stayOpen()
        await test.forgetMemory()
        #expect(try await test.pixels(short) == newer.inverted)
    }

    @Test("pictures of two data caches are written beside each other, also when both wait for the same moment")
    func twoCaches() async throws {
        let other = TestCache(folder: TemporaryFolder())
        let held = Door()
        try test.script(a, picture)
        other.transport.script(a, [.body(try Image.sample(seed: 9).png)])
        let request = short.with(\.serializer, held.serializer).with(\.keepsOriginal, false)
        for request in [request, request.with(\.originals, other.cache)] {
            _ = try await test.cache.getImage(request).value
        }
        held.stayOpen()
        await test.cache.idle()
        await other.cache.idle()
        #expect(test.cache.data.diskCount == 1 && other.cache.diskCount == 1)
    }

    @Test("a processor that fails is one failure of one call, and the picture before it is none")
    func failingStep() async throws {
        let test = TestImageCache()
        try test.script(a, picture)
        let failing = ImageProcessors.Custom("failing") { _, _ in throw DipperError.processingFailed }
        #expect(await test.error(short.processed(by: ImageProcessors.Chain([first, failing]))) == .processingFailed)
        await test.cache.idle()
        let statistics = test.cache.data.statistics
        #expect(statistics.failures == 1 && statistics.networkAnswers == 0)
    }

    @Test("a call that is cancelled takes no transfer away from one that is still looking at the disk")
    func lookingWhileCancelled() async throws {
        let (plain, transfer) = try await test.begin(a)
        let processed = test.cache.getImage(short)
        plain.cancel()
        try await test.passThrough()
        transfer.finish(with: try picture.png)
        #expect(try await processed.value.pixels == picture.inverted)
        #expect(test.transport.transfers(of: a).count == 1)
    }

    @Test("a call of the lowest priority is demoted like any other")
    func lowest() async throws {
        let (_, transfer) = try await test.begin(ImageRequest(a).with(\.priority, Priority(0)))
        test.cache.moveTaskToSlowQueue(a)
        try await transfer.wait { $0.queue == .slow }
    }

    // MARK: Equal pictures

    private var processed: ImageRequest { ImageRequest(a).inverted }

    @Test("requests with different processors share the download and the decode; equal ones share the picture")
    func oneFetch() async throws {
        let test = TestImageCache()
        let invert = Inverting()
        let plain = (0..<6).map { $0.isMultiple(of: 2) ? test.cache.slowGetImage(a) : test.cache.getImage(a) }
        let made = (0..<2).map { _ in test.cache.getImage(ImageRequest(a).processed(by: invert)) }
        let circle = test.cache.getImage(ImageRequest(a).processed(by: .circle))
        try await test.transport.nextTransfer().finish(with: try picture.png)
        for tasks in [plain, made, [circle]] {
            let first = try await tasks[0].value
            for task in tasks { #expect(try await task.value.storage === first.storage) }
        }
        #expect(try await plain[0].value.pixels == picture.pixels)
        #expect(try await made[0].value.pixels == picture.inverted)
        #expect(invert.count.value == 1 && test.decoder.decodes == 1 && test.transport.transfers.count == 1)
    }

    @Test("a picture on disk is decoded once, whichever threads ask for it at any moment", arguments: [false, true])
    func onDisk(isProcessed: Bool) async throws {
        let request = isProcessed ? processed : ImageRequest(a)
        var test = self.test
        try test.script(a, picture)
        _ = try await test.cache.getImage(request).value
        for round in 0..<6 {
            test = await test.reopened()
            let (tasks, cache) = (Box<[ImageTask]>([]), test.cache)
            await withTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<25 {
                            let task = cache.getImage(request)
                            tasks.update { $0.append(task) }
                        }
                    }
                }
            }
            var images: [Image] = []
            for task in tasks.value { images.append(try await task.value) }
            #expect(images.allSatisfy { $0.storage === images[0].storage }, "round \(round)")
            #expect(test.decoder.decodes == 1 && test.transport.transfers.isEmpty, "round \(round)")
        }
    }

    // MARK: Calls that want different things kept

    @Test("what one of those who share a fetch wants on disk is there, whoever came first", arguments: [false, true])
    func fetchJoined(isPlain: Bool) async throws {
        let first = isPlain ? processed.with(\.keepsOriginal, false) : processed.with(\.cachePolicy, .memoryOnly)
        let second = isPlain ? ImageRequest(a) : processed.with(\.waitsForDiskWrite, true)
        let (one, transfer) = try await test.begin(first)
        let two = test.cache.getImage(second)
        try await two.hasLooked()
        transfer.finish(with: try picture.png)
        for task in [one, two] { _ = try await task.value }
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a) && test.cache.hasProcessedImage(for: processed))
        #expect(test.transport.transfers(of: a).count == 1)
    }

    @Test("a task that joins while the picture is being decoded waits for that decode, and hears of the attempts")
    func joinsDecode() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let one = test.cache.slowGetImage(a)
        try await test.decoder.waitForDecodes(1)
        let two = test.cache.getImage(a)
        try await test.passThrough()
        test.decoder.releaseAll()
        let (first, second) = (try await one.response, try await two.response)
        #expect(first.image.storage === second.image.storage)
        #expect(first.attempts == 1 && second.source == .network && second.attempts == 1)
        #expect(test.decoder.decodes == 1 && test.transport.transfers(of: a).count == 1)
    }

    @Test(
        "who joins a call that keeps nothing has the picture kept, and on disk when it waits for that",
        arguments: [DataRequest.CachePolicy.bypass, .memoryOnly], [false, true])
    func decodeJoined(policy: DataRequest.CachePolicy, isDurable: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: CountingDecoder(isHeld: true))
        try test.script(a, picture)
        let one = test.cache.getImage(ImageRequest(a).with(\.cachePolicy, policy))
        try await test.decoder.waitForDecodes(1)
        var request = ImageRequest(a).with(\.waitsForDiskWrite, isDurable)
        if isDurable { request.durability = .durable }
        let two = test.cache.getImage(request)
        try await two.hasLooked()
        test.decoder.releaseAll()
        for task in [one, two] { _ = try await task.value }
        if isDurable { #expect(test.cache.data.entry(for: CacheKey(a)) != nil) }
        await test.cache.idle()
        #expect(test.cache.hasImage(for: a))
    }

    @Test("of two sizes of one picture that is not kept itself, both are kept")
    func twoSizes() async throws {
        try test.script(a, picture)
        let requests = [2, 3].map { size in
            ImageRequest(a).processed(by: .downsample(width: size, height: size)).with(\.keepsOriginal, false)
                .with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        }
        for task in requests.map({ test.cache.getImage($0) }) { _ = try await task.value }
        await test.cache.idle()
        for request in requests { #expect(test.cache.hasProcessedImage(for: request)) }
        #expect(test.cache.data.diskCount == 2 && !test.cache.data.hasData(for: a))
    }
}
