import TestSupport
import Testing

@Suite("Providers as alternatives of a URL", .timeLimit(.minutes(2)))
struct StandInTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private let b = url("b")
    private let bundled = DataRequest.Source.provider(MemoryProvider(Data("bundled".utf8), key: "bundled"))

    @Test(
        "bytes that are at hand stand in for one call, and are not kept: the next one asks the URL again",
        arguments: [.immutable(for: .days(9)), nil] as [FreshnessPolicy?])
    func standIn(freshness: FreshnessPolicy?) async throws {
        test.transport.script(a, [.status(400), .text("real")])
        let request = DataRequest(a).with(\.alternatives, [bundled, .url(b)]).with(\.freshness, freshness)
        let task = test.cache.getData(request.with(\.waitsForDiskWrite, true))
        let failures = task.failures()
        let response = try await task.response
        #expect(response.told == "bundled from provider")
        #expect(response.freshUntil.map { $0 <= test.date.now } == true)
        await test.cache.idle()
        #expect(failures.value == ["status 400"])
        #expect(!test.cache.hasData(for: a) && !test.cache.hasData(for: CacheKey("bundled")))
        #expect(test.cache.memoryCount == 0 && test.cache.diskCount == 0)
        #expect(try await test.ask(request) == "real from network")
        #expect(try await test.ask(request) == "real from memory")
        #expect(test.requests(b).isEmpty)
    }

    @Test("what is kept stays as it is, out of date as it may be, and so does the beginning of a body")
    func keptStays() async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, must-revalidate", "ETag": "\"1\""]
        try await test.keep("old", headers, for: a, age: 20)
        test.transport.script(a, [.status(400), .status(304, headers)])
        let request = DataRequest(a).with(\.alternatives, [bundled])
        #expect(try await test.ask(request) == "bundled from provider")
        #expect(test.cache.readData(for: a) == Data("old".utf8))
        #expect(try await test.ask(request) == "old from revalidated")

        let other = DataRequest(b).with(\.alternatives, [bundled]).with(\.retryPolicy, .never)
        let (broken, transfer) = try await test.begin(other)
        transfer.interrupt(with: Parts.beginning(2))
        #expect(try await broken.response.told == "bundled from provider")
        #expect(try await test.nextFields(of: b)["Range"] == "bytes=2-")
    }

    @Test(
        "of those who share a fetch, who has named nobody to stand in hears of the failure", arguments: [true, false])
    func sharedFetch(isFirst: Bool) async throws {
        let other = DataRequest(a).with(\.alternatives, [bundled])
        let (first, transfer) = try await test.begin(isFirst ? other : DataRequest(a), in: .slow)
        let second = test.cache.getData(isFirst ? DataRequest(a) : other)
        transfer.finish(with: Data(), status: 404)
        let (plain, withStandIn) = isFirst ? (second, first) : (first, second)
        #expect(try await withStandIn.value == Data("bundled".utf8))
        #expect(await plain.error == .status(404))
        #expect(test.transport.transfers.count == 1)
    }

    @Test("a prefetch and a refresh in the background have no use for it")
    func background() async throws {
        let request = DataRequest(a).with(\.alternatives, [bundled])
        test.transport.script(a, [.status(400)])
        let result = await DataPrefetcher(test.cache, [request]).value
        #expect(result.failed.map(\.error) == [.status(400)])
        try await test.keep("old", ["Cache-Control": "max-age=10, stale-while-revalidate=100"], for: a, age: 20)
        test.transport.script(a, [.status(404)])
        let response = try await test.cache.getData(request).response
        #expect(response.told == "old from stale")
        #expect(await response.revalidation?.error == .status(404))
    }

    @Test("what a provider of the program's own brings is kept under the request's key")
    func custom() async throws {
        test.transport.script(a, [.status(410)])
        let provider = CustomProvider(key: "custom") { Data("made".utf8) }
        #expect(try await test.ask(DataRequest(a).with(\.alternatives, [.provider(provider)])) == "made from provider")
        await test.cache.idle()
        #expect(test.cache.diskCount == 1 && !test.cache.hasData(for: CacheKey("custom")))
        #expect(try await test.ask(a) == "made from memory")
    }

    @Test("URLs come after providers that fail, also for a provider; the last failure tells of those before it")
    func order() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [.status(404)])
        test.transport.script(b, [.status(410), .text("1")])
        let failing = CustomProvider(key: "failing") { throw DipperError.invalidData }
        let request = DataRequest(a).with(\.alternatives, [.provider(failing), .url(b)])
        let error = await test.cache.getData(request).error
        #expect(error == .status(410) && error?.earlier == [.status(404), .invalidData])
        #expect(try await test.ask(DataRequest(failing).with(\.alternatives, [b])) == "1 from network")
        #expect(test.cache.hasData(for: CacheKey("failing")) && !test.cache.hasData(for: b))
        // The count of failures restarts with each alternative.
        let (c, d) = (url("c"), url("d"))
        test.transport.script(c, [.status(503)])
        test.transport.script(d, [.status(503), .text("1")])
        let retried = DataRequest(c).with(\.alternatives, [d]).with(\.retryPolicy, .fixed(.zero, retries: 1))
        #expect(try await test.ask(retried) == "1 from network")
        #expect(test.transport.transfers.suffix(4).map(\.request.url) == [c, c, d, d])
    }

    @Test("without a network nobody waits for it where something else can be had")
    func offline() async throws {
        let parked = Box<[CacheKey?]>([])
        let test = TestCache {
            $0.observe { event in if case .parked = event.kind { parked.update { $0.append(event.key) } } }
        }
        let near = URL(string: "http://near.test/a")!
        test.network.setReachable(false, host: "host.test")
        for target in [a, b, url("c")] { test.transport.script(target, [.failure(.unreachable), .text("at last")]) }
        test.transport.script(near, [.text("near")])
        #expect(
            try await test.ask(DataRequest(a).with(\.alternatives, [.url(b), bundled])) == "bundled from provider")
        #expect(try await test.ask(DataRequest(a).with(\.alternatives, [near])) == "near from network")
        // What cannot be reached either is no reason not to wait.
        let waiting = test.cache.getData(DataRequest(url("c")).with(\.alternatives, [b]))
        try await parked.wait { $0.contains(CacheKey(url("c"))) }
        #expect(waiting.state == .parked)
        #expect(test.transport.transfers.map(\.request.url) == [near], "nothing else can be reached")
        test.cache.cancelAll()
        #expect(await waiting.error == .cancelled)
    }

    @Test("a cancelled provider is not followed by the next source")
    func cancelled() async throws {
        test.transport.script(a, [.status(404)])
        let (asked, gate) = (Box(0), Gate())
        let slow = CustomProvider(key: "slow") {
            asked.increment()
            await gate.pass()
            throw CancellationError()
        }
        let task = test.cache.getData(DataRequest(a).with(\.alternatives, [.provider(slow), .url(b)]))
        try await gate.waitForArrival()
        task.cancel()
        #expect(await task.error == .cancelled)
        gate.open()
        await test.cache.idle()
        #expect(test.requests(b).isEmpty && asked.value == 1)
    }

    // MARK: Whether a provider is local

    private let stale: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=100"]

    @Test("a provider that is asked whether it is local may call the cache for the same URL")
    func callsBack() async throws {
        try await test.keep("old", stale, for: a, age: 20)
        test.transport.script(a, [.text("new")])
        let inner = Box<[DataTask]>([])
        let (cache, a) = (test.cache, a)
        let provider = AskedProvider(bytes: Data("bundled".utf8)) {
            let task = cache.getData(a)
            inner.update { $0.append(task) }
            return true
        }
        let response = try await cache.getData(DataRequest(a).with(\.alternatives, [.provider(provider)])).response
        #expect(response.told == "old from stale")
        #expect(try await response.revalidation?.value == Data("new".utf8))
        for task in inner.value { #expect(try await task.response.told == "old from stale") }
        #expect(!inner.value.isEmpty && test.requests(a).count == 2, "that which is kept, and one newer for both")
    }

    @Test(
        "a provider is asked whether it is local where calls are made, and on no other thread",
        arguments: [true, false])
    func askedByCallers(isLocal: Bool) async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let (asked, callers) = (Box<Set<pthread_t>>([]), Box<Set<pthread_t>>([]))
        let provider = AskedProvider(bytes: try Image.sample().png) {
            asked.update { _ = $0.insert(pthread_self()) }
            return isLocal
        }
        let bundled: [DataRequest.Source] = [.provider(provider)]
        func call<Task>(_ make: () -> Task) -> Task {
            callers.update { _ = $0.insert(pthread_self()) }
            return make()
        }
        let failing = DataRequest(a).with(\.alternatives, bundled).with(\.waitsForDiskWrite, true)
        test.transport.script(a, [.status(404), .status(404), .status(404)])
        for request in [ImageRequest(failing), ImageRequest(failing).processed(by: .circle)] {
            _ = try await call { test.cache.getImage(request) }.value
            await test.forgetMemory()
        }
        _ = await call { test.cache.data.getValue(Int.self, from: failing) }.result

        let renewed = ImageRequest(b).processed(by: .circle).with(\.alternatives, bundled)
        try test.script(b, .sample(), .sample(), headers: stale)
        _ = try await call { test.cache.getImage(renewed) }.value
        await test.cache.idle()
        test.date.advance(by: 20)
        let response = try await call { test.cache.getImage(renewed) }.response
        _ = try await response.revalidation?.value
        #expect(response.source == .stale && test.transport.transfers(of: b).count == 2)

        test.network.setConditions(NetworkConditions(isConstrained: true))
        let larger = ImageRequest(url("c")).with(\.lowDataSource, bundled[0])
        _ = try await call { test.cache.getImage(larger) }.value
        await test.cache.idle()
        #expect(!asked.value.isEmpty && asked.value.isSubset(of: callers.value))
        #expect(test.transport.transfers(of: url("c")).isEmpty)
    }
}

private struct AskedProvider: DataProvider {
    let bytes: Data
    let answer: @Sendable () -> Bool

    var cacheKey: CacheKey { "asked" }
    var isLocal: Bool { answer() }

    func data() async throws -> Data { bytes }
}
