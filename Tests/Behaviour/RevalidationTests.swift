import TestSupport
import Testing

@Suite("What is out of date is used where the server or the request allows it", .timeLimit(.minutes(2)))
struct RevalidationTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private let window: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-while-revalidate=100"]

    private func refreshed(_ task: DataTask) async throws -> String {
        let result = await withCheckedContinuation { heard in task.onRevalidate { heard.resume(returning: $0) } }
        return try result.get().told
    }

    // MARK: stale-while-revalidate

    @Test("old bytes at once, newer ones by one prefetch behind the urgent work", arguments: [false, true])
    func whileRevalidating(fromDisk: Bool) async throws {
        var test = self.test
        try await test.keep("1", window, for: a, age: 10)
        if fromDisk { test = await test.reopened() }
        let (urgent, urgentTransfer) = try await test.begin(url("urgent"))
        let hits = (0..<20).map { _ in test.cache.getData(a) }
        var refreshes: [DataTask] = []
        for hit in hits {
            let response = try await hit.response
            #expect(response.told == "1 from stale" && response.attempts == 0)
            refreshes.append(try #require(response.revalidation))
        }
        #expect(Set(refreshes).count == 1 && refreshes[0].queue == .slow)
        #expect(test.transport.transfers.last?.request.url == url("urgent"), "the urgent work comes first")
        urgentTransfer.finish(with: Data())
        _ = try await urgent.value
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == a && transfer.request.queue == .slow)
        #expect(transfer.request.headers["If-None-Match"] == "\"1\"")
        transfer.finish(with: Data("2".utf8), headers: window)
        for refresh in refreshes { #expect(try await refresh.response.told == "2 from network") }
        for hit in hits { #expect(try await refreshed(hit) == "2 from network") }
        #expect(try await test.ask(a) == "2 from memory")
        #expect(test.transport.transfers(of: a).count == (fromDisk ? 1 : 2))
    }

    @Test("a refresh that the server confirms makes the entry fresh")
    func confirmedRefresh() async throws {
        try await test.keep("1", window, for: a, age: 109)
        test.transport.script(a, [.status(304)])
        let response = try await test.cache.getData(a).response
        #expect(response.told == "1 from stale")
        #expect(try await #require(response.revalidation).response.told == "1 from revalidated")
        let next = try await test.cache.getData(a).response
        #expect(next.told == "1 from memory" && next.revalidation == nil)
    }

    @Test("a refresh that fails is told, and the old bytes stay for the time they may")
    func failedRefresh() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        try await test.keep("1", window, for: a, age: 20)
        // The refresh asks with the condition, and once without it.
        test.transport.script(a, [.status(503), .status(503), .text("2", window)])
        let task = test.cache.getData(a)
        #expect(try await task.response.told == "1 from stale")
        await #expect(throws: DipperError.status(503)) { try await refreshed(task) }
        test.date.advance(by: 89)
        let last = try await test.cache.getData(a).response
        #expect(last.told == "1 from stale")
        _ = try await last.revalidation?.value
        test.date.advance(by: 110)
        test.transport.script(a, [.text("3", window)])
        #expect(try await test.ask(a) == "3 from network", "past the window the server is waited for")
    }

    @Test("an urgent call with no-cache takes the refresh over, which is then urgent")
    func promotedRefresh() async throws {
        try await test.keep("1", window, for: a, age: 10)
        let stale = try await test.cache.getData(a).response
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .slow)
        let urgent = test.cache.getData(DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"]))
        try await transfer.wait { $0.queue == .fast }
        urgent.moveToSlowQueue()
        try await transfer.wait { $0.queue == .slow }
        stale.revalidation?.cancel()
        #expect(await stale.revalidation?.error == .cancelled)
        transfer.finish(with: Data(), status: 304)
        #expect(try await urgent.response.told == "1 from revalidated")
        await test.cache.idle()
        #expect(!transfer.isCancelled && test.requests(a).count == 2)
    }

    @Test("cancelling a call that is being revalidated ends the request, and the entry stays")
    func cancelledRevalidation() async throws {
        try await test.keep("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"], for: a, age: 10)
        let ends = Box(0)
        let (task, transfer) = try await test.begin(a)
        task.onEnd { _ in ends.increment() }
        task.cancel()
        #expect(await task.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
        transfer.finish(with: Data(), status: 304)
        await test.cache.idle()
        #expect(ends.value == 1)
        #expect(test.cache.readData(for: a) == Data("1".utf8))
    }

    // MARK: stale-if-error and missing network

    @Test(
        "with stale-if-error what is kept stands in for a server that fails, at once, for the time it may",
        arguments: [DipperError.status(500), .status(503), .connectionFailed, .timedOut, .hostNotFound])
    func staleIfError(error: DipperError) async throws {
        try await test.keep("1", ["Cache-Control": "max-age=10, stale-if-error=100"], for: a, age: 110)
        let next = await test.reopened()
        next.transport.script(a, [.failing(error)])
        let task = next.cache.getData(a)
        let failures = task.failures()
        #expect(try await task.response.told == "1 from stale")
        await next.cache.idle()
        #expect(failures.value.isEmpty)
        next.date.advance(by: 1)
        #expect(await next.cache.getData(DataRequest(a).with(\.retryPolicy, .never)).error == error)
        #expect(next.requests(a).count == 2)
    }

    @Test("one who must have the server's word waits on when another is served what is kept")
    func mixedOnError() async throws {
        try await test.keep("1", ["Cache-Control": "max-age=10, stale-if-error=100"], for: a, age: 20)
        let easy = test.cache.getData(a)
        let strict = test.cache.getData(
            DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"])
                .with(\.retryPolicy, .fixed(.seconds(1))))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        #expect(try await easy.response.told == "1 from stale")
        try await strict.waitForFailures()
        #expect(strict.state == .parked)
        try await test.nextTransfer(after: .seconds(1)).finish(with: Data("2".utf8))
        #expect(try await strict.response.told == "2 from network")
    }

    /// Each `Cache-Control` and whether the server lets what is out of date be used without it.
    private static let controls: [(String, Bool)] = [
        ("max-age=1", true), ("max-age=1, must-revalidate", false), ("no-cache", false),
        ("max-age=1, stale-if-error=0", true), ("max-age=1, stale-while-revalidate=9999999", true),
    ]

    @Test(
        "without a network, or by the cache alone, what is kept is used however old, unless the server has forbidden it",
        arguments: [false, true], [DataRequest.CachePolicy.useCache, .cacheOnly])
    func outOfDate(fromDisk: Bool, policy: DataRequest.CachePolicy) async throws {
        func target(_ control: String) -> URL { url(control.filter(\.isLetter)) }
        var test = self.test
        for (control, _) in Self.controls {
            try await test.keep("1", ["Cache-Control": control, "ETag": "\"1\""], for: target(control))
        }
        test.date.advance(by: 1_000_000)
        if fromDisk { test = await test.reopened() }
        test.network.isUp = policy == .cacheOnly
        let count = test.transport.transfers.count
        for (control, mayBeStale) in Self.controls {
            let request = DataRequest(target(control)).with(\.retryPolicy, .never).with(\.cachePolicy, policy)
            for _ in 0..<2 {
                let task = test.cache.getData(request)
                if mayBeStale {
                    let response = try await task.response
                    #expect(response.told == "1 from stale", "\(control)")
                    if policy == .cacheOnly { #expect(response.revalidation == nil, "\(control)") }
                } else {
                    #expect(await task.error == (policy == .cacheOnly ? .notCached : .unreachable), "\(control)")
                }
            }
            if policy == .useCache {
                #expect(await test.cache.getRemoteData(request).error == .unreachable, "the network and nothing else")
            }
        }
        await test.cache.idle()
        #expect(test.transport.transfers.count == count, "the network is not asked")
    }
}
