import TestSupport
import Testing

@Suite("Limits on the memory of decodes, and fetches that wait for the decoder", .timeLimit(.minutes(2)))
struct DecodeLimitTests {
    private let picture = Image.sample()

    /// Returns a cache whose one decode at a time is held, and that is to keep no more bytes waiting for it.
    private func held(
        undecodedBytes: Int, folder: TemporaryFolder? = nil,
        _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) -> TestImageCache {
        TestImageCache(folder: folder, decoder: CountingDecoder(isHeld: true)) {
            $0.decodingThreads = 1
            $0.undecodedBytes = undecodedBytes
            change(&$0)
        }
    }

    // MARK: Decodes at a time

    @Test(
        "the cache makes as many pictures of 40,000 bytes at a time as their pixels allow",
        arguments: [
            (100_000, [], 2),
            // A processor makes a second picture beside the first.
            (100_000, [Inverting()], 1),
            // Rows on their way to another size count too.
            (330_000, [.downsample(width: 60, height: 50, .stretch)], 4),
            (900_000, [.fitting(width: 200, height: 200, .scaleToFill)], 2),
            // A picture that is larger than the budget is made alone.
            (10_000, [], 1),
        ] as [(Int, [any ImageProcessor], Int)])
    func atOnce(budget: Int, processors: [any ImageProcessor], fitting: Int) async throws {
        let decoder = WatchedDecoder()
        let test = decoder.makeTest(threads: 6) { $0.decodingMemory = budget }
        let tasks = try (0..<6).map { number in
            try test.script(url("\(number)"), .sample(100, 100))
            return test.cache.getImage(ImageRequest(url("\(number)")).with(\.processors, processors))
        }
        for made in 0..<6 {
            try await decoder.began.wait { $0.count >= min(6, made + fitting) }
            decoder.release()
        }
        for task in tasks { _ = try await task.value }
        #expect(decoder.most == fitting)
    }

    @Test("a picture that is no longer wanted makes room for what waited behind it")
    func takenBack() async throws {
        let decoder = WatchedDecoder()
        let test = decoder.makeTest(threads: 2) { $0.decodingMemory = 100_000 }
        func get(_ name: String, _ height: Int, _ priority: Priority) async throws -> ImageTask {
            try test.script(url(name), .sample(100, height))
            let task = test.cache.getImage(ImageRequest(url(name)).with(\.priority, priority))
            try await test.passThrough()
            return task
        }
        let held = try await get("held", 150, .normal)
        try await decoder.began.wait { $0.count == 1 }
        let large = try await get("large", 250, .high), small = try await get("small", 100, .low)
        #expect(decoder.began.value.count == 1, "the large one is first, and does not fit")
        large.cancel()
        try await decoder.began.wait { $0.count == 2 }
        decoder.releaseAll()
        for task in [held, small] { _ = try await task.value }
        #expect(await large.error == .cancelled)
    }

    @Test("a picture that is being encoded for the disk counts, as one that is decoded")
    func encoding() async throws {
        let door = Door()
        let test = TestImageCache(folder: TemporaryFolder()) {
            ($0.decodingThreads, $0.decodingMemory) = (3, 10)
            $0.options.serializer = door.serializer
        }
        for name in ["a", "b"] { try test.script(url(name), picture) }
        _ = try await test.cache.getImage(ImageRequest(url("a")).inverted).value
        try await door.waitForArrivals(1)
        let other = test.cache.getImage(url("b"))
        for _ in 0..<3 { try await test.passThrough() }
        await Task.letOthersRun()
        #expect(test.decoder.decodes == 1, "there is no room for another one")
        door.stayOpen()
        _ = try await other.value
        #expect(test.decoder.decodes == 2)
    }

    @Test("what is to be written stays bounded, whatever is decoded meanwhile")
    func writes() async throws {
        let counts = Box((encoded: 0, ended: 0, most: 0))
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.decodingThreads = 1
            $0.options.serializer = ImageSerializer { image, _, codecs throws(DipperError) in
                counts.update { $0.encoded += 1 }
                return try codecs.encode(image, as: .png)
            }
        }
        test.cache.data.fastQueue.isSuspended = true
        for name in (0..<40).map({ url("\($0)") }) {
            try test.script(name, picture)
            test.cache.getImage(ImageRequest(name).inverted).onEnd { _ in
                counts.update { $0 = ($0.encoded, $0.ended + 1, max($0.most, $0.ended + 1 - $0.encoded)) }
            }
        }
        test.cache.data.fastQueue.isSuspended = false
        await test.cache.idle()
        #expect(counts.value.most < 20, "\(counts.value)")
        #expect(test.cache.data.diskCount == 80)
    }

    // MARK: Fetches that wait

    /// Decodes pictures one after the other, and returns the most that had arrived and were not decoded.
    private func mostWaiting(_ names: [URL], _ test: TestImageCache, _ arrived: () -> Int) async throws -> Int {
        let tasks = names.map { test.cache.getImage($0) }
        var most = 0
        for decoded in names.indices {
            try await test.decoder.waitForDecodes(decoded + 1)
            most = max(most, arrived() - decoded)
            test.decoder.release()
        }
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(arrived() == names.count)
        return most
    }

    @Test("of a hundred urgent pictures no more wait for a slow decoder than the limit and what was on its way")
    func urgent() async throws {
        let png = try picture.png
        let test = held(undecodedBytes: 10 * png.count) { $0.data.fastQueue.maxConcurrent = 4 }
        let answering = Task { [transport = test.transport] in
            while true { try await transport.nextTransfer().finish(with: png) }
        }
        defer { answering.cancel() }
        let most = try await mostWaiting((0..<100).map { url("\($0)") }, test) { test.transport.transfers.count }
        // Some are on their way, and others may come while the word that the limit is reached is passed on.
        #expect(most < 50)
    }

    @Test("files on disk wait for the decoder as well")
    func onDisk() async throws {
        let file = try picture.png
        let folder = TemporaryFolder()
        let names = (0..<40).map { url("\($0)") }
        let first = TestCache(folder: folder)
        for name in names { try first.cache.addData(file, for: name) }
        await first.cache.shutdown()
        let read = Box(0)
        let test = held(undecodedBytes: 8 * file.count, folder: folder) {
            $0.data.observe { if $0.kind == .lookUpEnded(.disk) { read.update { $0 += 1 } } }
        }
        // Some reading threads may have begun before they were told.
        #expect(try await mostWaiting(names, test) { read.value } <= 8 + 8)
        #expect(test.transport.transfers.isEmpty)
    }

    @Test("prefetches leave half of the limit to urgent pictures")
    func prefetches() async throws {
        let test = held(undecodedBytes: 8 * (try picture.png.count))
        func get(_ count: Int, _ name: String, _ get: (URL) -> ImageTask) throws -> [ImageTask] {
            try (0..<count).map { number in
                try test.script(url("\(name)\(number)"), picture)
                return get(url("\(name)\(number)"))
            }
        }
        let later = try get(20, "later") { test.cache.slowGetImage($0) }
        try await test.transport.waitForTransfers(4)
        let now = try get(3, "now") { test.cache.getImage($0) }
        try await test.transport.waitForTransfers(7)
        let first = test.transport.transfers.map { $0.request.url.path.hasPrefix("/now") }
        #expect(first == Array(repeating: false, count: 4) + Array(repeating: true, count: 3))
        test.decoder.releaseAll()
        for task in later + now { _ = try await task.value }
        #expect(test.transport.transfers.count == 23)
    }

    @Test("pictures larger than the whole limit are delivered: urgent ones, prefetches, and those that are out of date")
    func larger() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.undecodedBytes = 1 }
        let tasks = try (0..<20).map { number in
            try test.script(url("\(number)"), picture, headers: ["Cache-Control": "max-age=60"])
            return number % 2 == 0 ? test.cache.getImage(url("\(number)")) : test.cache.slowGetImage(url("\(number)"))
        }
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.forgetMemory()
        test.date.advance(by: 100)
        #expect(try await test.source(ImageRequest(url("0")).inverted) == .network)
    }

    @Test("however a picture that waits for the decoder ends, the fetch that waits for it goes on")
    func givenBack() async throws {
        let parked = Box<[@Sendable () -> Void]>([])
        let own = CallbackQueue.custom { work in parked.update { $0.append(work) } }
        let test = held(undecodedBytes: 1)
        func get(_ name: String, _ body: Data? = nil, on queue: CallbackQueue? = nil) throws -> ImageTask {
            test.transport.script(url(name), [.body(try body ?? picture.png)])
            return test.cache.getImage(ImageRequest(url(name)).with(\.processingQueue, queue))
        }
        // In the decoder, and cancelled there.
        let held = try get("held")
        try await test.decoder.waitForDecodes(1)
        let elsewhere = try get("elsewhere", on: own)
        held.cancel()
        // On a queue of the program's own; the second is cancelled before it runs.
        try await parked.wait { $0.count == 1 }
        let givenUp = try get("given up", on: own)
        test.decoder.releaseAll()
        parked.value[0]()
        #expect(await elsewhere.error == nil)
        try await parked.wait { $0.count == 2 }
        let broken = try get("broken", Data("no picture".utf8))
        givenUp.cancel()
        #expect(await broken.error == .unsupportedFormat)
        #expect(try await get("last").error == nil)
        for work in parked.value.dropFirst() { work() }
        for task in [held, givenUp] { #expect(await task.error == .cancelled) }
    }

    @Test("nothing is stuck when what was on its way is parked, or cancelled, while the limit is reached")
    func parked() async throws {
        let png = try picture.png
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true)) {
            $0.undecodedBytes = png.count
            $0.data.fastQueue.maxConcurrent = 3
            $0.data.retryPolicy = .fixed(.seconds(1), retries: 3)
        }
        let tasks = ["first", "parked", "cancelled"].map { test.cache.getImage(url($0)) }
        var transfers: [ScriptedTransfer] = []
        while transfers.count < 3 { transfers.append(try await test.transport.nextTransfer()) }
        transfers[0].finish(with: png)
        try await test.decoder.waitForDecodes(1)
        transfers[1].fail(with: .connectionLost)
        tasks[2].cancel()
        try await test.clock.wake(after: .seconds(2))
        test.decoder.releaseAll()
        try await test.transport.nextTransfer().finish(with: png)
        for task in tasks.prefix(2) { _ = try await task.value }
        #expect(await tasks[2].error == .cancelled)
        #expect(test.transport.transfers(of: url("parked")).count == 2)
    }

    @Test("fetches of every data cache that is used wait, and go on when the image cache has gone")
    func dataCaches() async throws {
        let (a, b, c) = (url("a"), url("b"), url("c"))
        let order = Box<[String]>([]), queued = Box(0)
        func note(_ configuration: inout DataCache.Configuration) {
            configuration.observe { event in
                if case .attemptBegan = event.kind { order.update { $0.append("\(event.key)") } }
                if case .queued = event.kind, event.key == CacheKey(b) { queued.update { $0 += 1 } }
            }
        }
        let own = TestCache(note), other = TestCache(note)
        for test in [own, other] { for url in [a, b, c] { test.transport.script(url, [.body(try picture.png)]) } }
        let decoder = CountingDecoder(isHeld: true)
        let cache = TestImageCache(decoder: decoder) {
            $0.originals = own.cache
            $0.undecodedBytes = 1
        }.cache
        let first = cache.getImage(ImageRequest(a).with(\.originals, other.cache))
        try await decoder.waitForDecodes(1)
        let next = [cache.getImage(b), cache.getImage(ImageRequest(b).with(\.originals, other.cache))]
        try await queued.wait { $0 == 2 }
        for test in [own, other] { #expect(test.cache.queueCounts == QueueCounts(fastWaiting: 1)) }
        order.update { $0.append("released") }
        decoder.release(3)
        for task in [first] + next { _ = try await task.value }
        #expect(order.value == ["\(CacheKey(a))", "released", "\(CacheKey(b))", "\(CacheKey(b))"])
        // A cache that goes while the limit is reached holds nothing up.
        let held = cache.getImage(c)
        try await decoder.waitForDecodes(4)
        held.cancel()
        decoder.releaseAll()
        await cache.shutdown()
        for test in [own, other] { #expect(await test.cache.getRemoteData(c).error == nil) }
    }
}
