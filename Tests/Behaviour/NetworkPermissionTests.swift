import TestSupport
import Testing

@Suite("Calls and queues that may not use a constrained or expensive network", .timeLimit(.minutes(2)))
struct NetworkPermissionTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private var modest: DataRequest { DataRequest(a).with(\.allowsConstrainedNetwork, false) }

    private func set(_ conditions: NetworkConditions) { test.network.setConditions(conditions) }

    private static let restricted = [NetworkConditions(isConstrained: true), NetworkConditions(isExpensive: true)]

    @Test("they wait as without a network, and go on when another one is there", arguments: restricted)
    func wait(conditions: NetworkConditions) async throws {
        test.transport.script(a, [.text("a")])
        set(conditions)
        let task = test.cache.getData(modest)
        try await task.waitForFailures()
        #expect(task.state == .parked && task.attempts == 0 && test.transport.transfers.isEmpty)
        #expect(test.cache.queueCounts == QueueCounts(parked: 1))
        test.transport.script(url("b"), [.text("b")])
        #expect(try await test.ask(url("b")) == "b from network", "a call without the option uses the network")
        set(NetworkConditions())
        #expect(try await test.whileClockRuns { try await task.value } == Data("a".utf8))
        #expect(task.attempts == 1)
    }

    @Test("without patience they end with an error that says so, or with what an offline call is answered with")
    func end() async throws {
        set(NetworkConditions(isExpensive: true))
        let error = await test.cache.getData(modest.with(\.retryPolicy, .never)).error
        #expect(error == .networkNotAllowed && error?.mayPass == true && error?.url == a)
        set(NetworkConditions())
        try await test.keep("old", ["Cache-Control": "max-age=10", "ETag": "\"1\""], for: a, age: 100)
        set(NetworkConditions(isExpensive: true))
        #expect(try await test.ask(modest) == "old from stale")
        #expect(test.transport.transfers.count == 1)
    }

    @Test("a transfer is broken off when the network becomes expensive, and continued when it is not any more")
    func brokenOff() async throws {
        let (task, transfer) = try await test.begin(modest)
        let (other, othersTransfer) = try await test.begin(url("b"))
        transfer.hold(Parts.beginning(60))
        set(NetworkConditions(isExpensive: true))
        try await task.waitForFailures()
        #expect(transfer.isCancelled && !othersTransfer.isCancelled && task.state == .parked)
        set(NetworkConditions())
        let next = try await test.whileClockRuns { try await test.transport.nextTransfer() }
        #expect(next.request.headers["Range"] == "bytes=60-")
        next.finish(with: Parts.whole[60...], status: 206, headers: Parts.part(60..<100).headers)
        #expect(try await task.value == Parts.whole)
        othersTransfer.finish(with: Data())
        _ = try await other.value
    }

    @Test("an unrestricted call that joins a waiting one takes it to the network", arguments: FetchQueue.allCases)
    func joined(queue: FetchQueue) async throws {
        test.transport.script(a, [.text("a")])
        set(NetworkConditions(isConstrained: true))
        let waiting = test.call(modest, in: queue)
        try await waiting.waitForFailures()
        let joining = test.call(DataRequest(a), in: queue)
        for task in [waiting, joining] {
            #expect(try await test.whileClockRuns { try await task.value } == Data("a".utf8))
        }
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "a queue of prefetches waits; an urgent call for the same takes it to the network, and a demoted one leaves it")
    func queue() async throws {
        test.cache.slowQueue.allowsConstrainedNetwork = false
        set(NetworkConditions(isExpensive: true))
        let prefetch = test.cache.slowGetData(a)
        try await prefetch.waitForFailures()
        let urgent = test.cache.getData(a)
        let first = try await test.transport.nextTransfer()
        #expect(test.cache.queueCounts == QueueCounts(fastRunning: 1))
        first.hold(Parts.beginning(30))
        test.cache.moveTaskToSlowQueue(a)
        // The first was told when the call joined.
        try await urgent.waitForFailures(2)
        #expect(first.isCancelled && test.cache.queueCounts == QueueCounts(parked: 1))
        test.cache.slowQueue.allowsConstrainedNetwork = true
        // The cache has heard of it when it answers.
        _ = test.cache.queueCounts
        let next = try await test.nextTransfer(after: .milliseconds(10))
        #expect(next.request.headers["Range"] == "bytes=30-")
        next.finish(with: Parts.whole[30...], status: 206, headers: Parts.part(30..<100).headers)
        #expect(try await prefetch.value == Parts.whole)
        #expect(try await urgent.value == Parts.whole)
    }

    @Test("a source that needs no network takes the place of one that may not be asked; another URL does not")
    func alternatives() async throws {
        set(NetworkConditions(isConstrained: true))
        let bundled = DataRequest.Source.provider(MemoryProvider(Data("bundled".utf8), key: "bundled"))
        let task = test.cache.getData(modest.with(\.alternatives, [.url(url("mirror")), bundled]))
        #expect(try await test.whileClockRuns { try await task.value } == Data("bundled".utf8))
        let other = test.cache.getData(
            DataRequest(url("b")).with(\.allowsConstrainedNetwork, false).with(\.alternatives, [.url(url("mirror"))]))
        try await other.waitForFailures()
        #expect(other.state == .parked && test.transport.transfers.isEmpty)
        let local = DataRequest(MemoryProvider(Data("local".utf8), key: "local"))
        #expect(try await test.ask(local.with(\.allowsConstrainedNetwork, false)) == "local from provider")
        other.cancel()
    }

    @Test("pictures wait too, and a prefetcher of pictures goes on where it was")
    func pictures() async throws {
        let test = TestImageCache { $0.data.slowQueue.allowsConstrainedNetwork = false }
        for name in ["a", "b"] { try test.script(url(name), .sample()) }
        test.network.setConditions(NetworkConditions(isExpensive: true))
        let prefetcher = ImagePrefetcher(test.cache, urls: [url("a"), url("b")]).start()
        let picture = test.cache.getImage(ImageRequest(url("c")).with(\.allowsConstrainedNetwork, false))
        try await picture.waitForFailures()
        try test.script(url("d"), .sample())
        #expect(try await test.source("http://host.test/d") == .network)
        #expect(test.transport.transfers.count == 1 && picture.state == .parked)
        // The prefetches too: the first one of them goes on at once.
        try await test.cache.waitForParked(3)
        picture.cancel()
        test.network.setConditions(NetworkConditions())
        // The clock goes on when the cache has heard of the change, not to the end of its patience.
        #expect(test.cache.queueCounts.parked > 0)
        let stepping = Task { [clock = test.clock] in
            while !Task.isCancelled { try await clock.wake() }
        }
        defer { stepping.cancel() }
        #expect(await prefetcher.value.completed.count == 2)
    }
}
