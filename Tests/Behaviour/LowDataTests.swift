import TestSupport
import Testing

@Suite("On a constrained network the smaller source is fetched, under its own key", .timeLimit(.minutes(2)))
struct LowDataTests {
    private let large = url("large")
    private let small = url("small")
    private let door = Door()

    private var request: DataRequest { DataRequest(large).with(\.lowDataURL, small) }
    private var pictureRequest: ImageRequest { ImageRequest(large).with(\.lowDataURL, small) }

    private func constrain(_ network: ManualNetwork, _ isConstrained: Bool = true) {
        network.setConditions(NetworkConditions(isConstrained: isConstrained))
    }

    private func openConstrained(_ codec: WatchedCodec? = nil) -> TestCache {
        let test = TestCache(folder: TemporaryFolder()) { $0.recordCodec = codec }
        constrain(test.network)
        for target in [small, large] { test.transport.script(target, [.text(target.lastPathComponent)]) }
        return test
    }

    private func openConstrainedImages() -> TestImageCache {
        let test = TestImageCache(folder: TemporaryFolder()) { $0.data.recordCodec = WatchedCodec(onRead: door.pass) }
        constrain(test.network)
        return test
    }

    /// Has entries read from disk, so that no reader has time for other calls until the codec opens its door.
    private func blockReaders(of cache: DataCache) async throws {
        let keys = (0..<16).map { CacheKey("held up \($0)") }
        for key in keys { try await cache.addDataAndWait(Data(count: 10), for: key) }
        cache.clearMemory()
        for key in keys { cache.getData(DataRequest(url("held")).with(\.key, key)) }
        try await door.waitForArrivals(1)
    }

    // MARK: Bytes

    @Test("unless the larger one is here, in memory or on disk; a network that only costs is no reason")
    func choice() async throws {
        let test = openConstrained()
        #expect(try await test.ask(request) == "small from network")
        #expect(test.cache.hasData(for: small) && !test.cache.hasData(for: large))
        #expect(try await test.ask(request) == "small from memory")
        test.network.setConditions(NetworkConditions(isExpensive: true))
        #expect(try await test.ask(request) == "large from network")
        constrain(test.network)
        #expect(try await test.ask(request) == "large from memory")
        await test.cache.idle()
        test.cache.clearMemory()
        #expect(try await test.ask(request) == "large from disk")
    }

    @Test("a provider that is at hand brings the small form, which is kept in memory alone")
    func provider() async throws {
        let test = openConstrained()
        let bundled = MemoryProvider(Data("bundled".utf8), key: "bundled")
        let request = DataRequest(large).with(\.lowDataSource, .provider(bundled))
        #expect(request.lowDataURL == nil && self.request.lowDataSource?.url == small)
        #expect(try await test.ask(request) == "bundled from provider")
        await test.cache.idle()
        #expect(test.cache.hasData(for: CacheKey("bundled")) && !test.cache.hasData(for: large))
        #expect(test.cache.diskCount == 0 && test.transport.transfers.isEmpty)
        constrain(test.network, false)
        #expect(try await test.ask(request) == "large from network")
        constrain(test.network)
        #expect(try await test.ask(request) == "large from memory")
    }

    @Test("a call returns while the disk is slow, and turns to the smaller source when the disk has nothing")
    func slowDisk() async throws {
        let test = openConstrained(WatchedCodec(onRead: door.pass))
        try await blockReaders(of: test.cache)
        let task = test.cache.getData(request)
        let undecided = test.cache.getData(DataRequest(url("other")).with(\.lowDataURL, url("tiny")))
        #expect(task.key == CacheKey(large) && task.state == .waiting)
        undecided.cancel()
        #expect(await undecided.error == .cancelled)
        door.stayOpen()
        #expect(try await task.response.told == "small from network")
        #expect(task.key == CacheKey(small))
        await test.cache.idle()
        #expect(test.transport.transfers.map(\.request.url) == [small])
    }

    @Test("a call that has turned to the smaller source is cancelled, demoted and joined like any other")
    func afterTurning() async throws {
        let test = openConstrained()
        test.transport.script(small, [])
        let (first, transfer) = try await test.begin(request)
        #expect(transfer.request.url == small && first.key == CacheKey(small))
        let plain = test.cache.getData(small)
        first.moveToSlowQueue()
        #expect(first.queue == .slow && plain.queue == .fast)
        first.cancel()
        #expect(await first.error == .cancelled)
        transfer.finish(with: Data("small".utf8))
        #expect(try await plain.value == Data("small".utf8))
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1)
    }

    // MARK: Pictures

    @Test("a call is cancelled and moved by the request it was made with, while the disk is slow and afterwards")
    func changes() async throws {
        let test = openConstrainedImages()
        try await blockReaders(of: test.cache.data)
        let given = (0..<3).map { _ in test.cache.getImage(pictureRequest) }
        let demoted = test.cache.getImage(ImageRequest(url("other")).with(\.lowDataURL, url("tiny")))
        test.cache.cancel(pictureRequest)
        for task in given { #expect(task.state == .failed(.cancelled)) }
        test.cache.moveTaskToSlowQueue(url("other"))
        #expect(demoted.queue == .slow)
        door.stayOpen()
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == url("tiny") && transfer.queue == .slow)
        test.cache.cancel(url("other"))
        #expect(await demoted.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1)
    }

    @Test("an urgent call that is not decided holds prefetches up until it has its answer")
    func reservation() async throws {
        let test = openConstrainedImages()
        try await blockReaders(of: test.cache.data)
        let urgent = test.cache.getImage(pictureRequest)
        let prefetch = test.cache.slowGetImage(ImageRequest(url("later")).with(\.cachePolicy, .memoryOnly))
        door.stayOpen()
        for target in [small, url("later")] {
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url == target)
            transfer.finish(with: try Image.sample().png)
        }
        for task in [urgent, prefetch] { _ = try await task.value }
    }
}
