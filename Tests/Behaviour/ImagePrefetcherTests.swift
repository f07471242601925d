import TestSupport
import Testing

@Suite("A prefetcher of pictures", .timeLimit(.minutes(2)))
struct ImagePrefetcherTests {
    private let test = TestImageCache(folder: TemporaryFolder())
    private let a = url("a")

    @Test("files are brought to disk without being decoded, and skipped when they are there")
    func files() async throws {
        for name in ["a", "b"] { try test.script(url(name), .sample()) }
        let requests = ["a", "b"].map { ImageRequest(url($0)).processed(by: .circle) }
        #expect(await ImagePrefetcher(test.cache, filesOf: requests).value.completed == requests)
        #expect(test.decoder.decodes == 0 && test.cache.memoryCount == 0)
        await test.cache.idle()
        #expect(test.cache.data.hasData(for: a, in: .disk))
        #expect(await ImagePrefetcher(test.cache, filesOf: requests).value.skipped == requests)
    }

    @Test("pictures on disk are skipped without being decoded; those that are to be in memory are decoded")
    func memory() async throws {
        let first = TestImageCache(folder: TemporaryFolder())
        try first.script(a, .sample())
        let fetched = await ImagePrefetcher(first.cache, urls: [a]).value
        #expect(fetched.completed.count == 1 && first.cache.memoryCount == 0, "on disk is enough")
        let test = await first.reopened()
        #expect(await ImagePrefetcher(test.cache, urls: [a]).value.skipped.count == 1)
        #expect(test.decoder.decodes == 0)
        let kept = await ImagePrefetcher(test.cache, urls: [a], keepsInMemory: true).value
        #expect(kept.completed.count == 1 && test.cache.memoryCount == 1 && test.transport.transfers.isEmpty)
        #expect(await ImagePrefetcher(test.cache, urls: [a], keepsInMemory: true).value.skipped.count == 1)
    }

    @Test("a prefetcher that is stopped begins no further request", arguments: [true, false])
    func stop(isOfPictures: Bool) async throws {
        let urls = (0..<6).map { url("\($0)") }
        for _ in 0..<50 {
            let test = TestImageCache()
            if isOfPictures {
                try await stop(ImagePrefetcher(test.cache, urls: urls, maxOutstanding: 6), test)
            } else {
                try await stop(DataPrefetcher(test.cache.data, urls: urls, maxOutstanding: 6), test)
            }
        }
    }

    private func stop<Request>(_ prefetcher: Prefetcher<Request>, _ test: TestImageCache) async throws {
        prefetcher.start()
        _ = try await test.transport.nextTransfer()
        while test.cache.queueCounts.slowWaiting < 5 { await Task.yield() }
        prefetcher.stop()
        #expect(await prefetcher.value.remaining.count == 6)
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1)
    }

    @Test("while slowQueue is suspended, what the disk has is made, and what it lacks counts as waiting")
    func suspended() async throws {
        for address in [a, url("b")] { try test.script(address, .sample()) }
        try await test.load(a)
        let test = await test.reopened()
        test.cache.slowQueue.isSuspended = true
        let completed = Box(0)
        let prefetcher = ImagePrefetcher(test.cache, urls: [url("b"), a], keepsInMemory: true)
            .onProgress { progress in completed.update { $0 = progress.completed } }
            .start()
        try await completed.wait { $0 == 1 }
        #expect(test.cache.memoryCount == 1 && test.cache.queueCounts.slowWaiting == 1)
        #expect(test.transport.transfers.isEmpty)
        prefetcher.stop()
    }

    @Test("a picture that is wanted processed is there when it is processed, not when its original is")
    func processed() async throws {
        try test.script(a, .sample())
        let inverting = Inverting()
        let request = ImageRequest(a).processed(by: inverting)
        _ = await ImagePrefetcher(test.cache, urls: [a]).value
        await test.cache.idle()
        #expect(await ImagePrefetcher(test.cache, [request]).value.completed.count == 1)
        await test.cache.idle()
        #expect(await ImagePrefetcher(test.cache, [request]).value.skipped.count == 1)
        #expect(inverting.count.value == 1 && test.transport.transfers.count == 1)
    }

    @Test("a picture in memory that the server chose for other requests is not an answer")
    func variant() async throws {
        let test = TestImageCache()
        try test.script(a, .sample(), headers: ["Vary": "Accept-Language", "Cache-Control": "max-age=100"])
        func request(_ language: String) -> ImageRequest {
            ImageRequest(a).with(\.headers, ["Accept-Language": language])
        }
        _ = try await test.cache.getImage(request("de")).value
        for (language, skipped) in [("de", 1), ("en", 0), ("en", 1)] {
            let result = await ImagePrefetcher(test.cache, [request(language)], keepsInMemory: true).value
            #expect(result.skipped.count == skipped, "\(language)")
        }
        #expect(test.transport.transfers.count == 2)
    }

    @Test("what is asked for urgently meanwhile is fetched once, and promoted; what fails is told")
    func urgent() async throws {
        test.transport.script(url("gone"), [.status(404)])
        let prefetcher = ImagePrefetcher(test.cache, urls: [a, url("gone")]).start()
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .slow)
        let image = test.cache.getImage(a)
        try await transfer.wait { $0.queue == .fast }
        transfer.finish(with: try Image.sample().png)
        #expect(try await image.value.pixels == Image.sample().pixels)
        let result = await prefetcher.value
        #expect(result.completed.map(\.url) == [a] && result.failed.map(\.request.url) == [url("gone")])
        #expect(result.failed.first?.error.status == 404 && test.transport.transfers(of: a).count == 1)
    }

    @Test("what is never on disk is prefetched once, also in a cache with a folder", arguments: [false, true])
    func neverOnDisk(isProvided: Bool) async throws {
        struct Provider: DataProvider {
            let asked = Box(0)
            let cacheKey = CacheKey("provided")
            let isLocal = true
            func data() async throws -> Data {
                asked.update { $0 += 1 }
                return try Image.sample().png
            }
        }
        try test.script(a, .sample())
        let provider = Provider()
        let request = isProvided ? ImageRequest(provider) : ImageRequest(a).with(\.cachePolicy, .memoryOnly)
        for round in 0..<3 {
            let result = await ImagePrefetcher(test.cache, [request]).value
            #expect(result.failed.isEmpty && result.skipped.count == (round == 0 ? 0 : 1), "\(round): \(result)")
        }
        #expect(provider.asked.value + test.transport.transfers.count == 1 && test.cache.hasImage(for: request))
    }
}
