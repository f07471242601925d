import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite(
    "What is out of date is used where the server or the request allows it, and nowhere else", .timeLimit(.minutes(5)))
struct HTTPStaleTests {
    private let a = url("a")
    private let window: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-while-revalidate=100"]

    // MARK: stale-while-revalidate

    @Test("old bytes at once, newer ones by one prefetch behind the urgent work", arguments: [false, true])
    func whileRevalidating(fromDisk: Bool) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", window)])
        _ = try await test.ask(a)
        if fromDisk { test = await test.reopened(folder) }
        test.transport.script(a, [])
        test.date.advance(by: 10)
        let urgent = test.cache.getData(url("urgent"))
        let urgentTransfer = try await test.transport.nextTransfer()

        let hits = (0..<20).map { _ in test.cache.getData(a) }
        var refreshes: [DataTask] = []
        for hit in hits {
            let response = try await hit.response
            #expect(Told(response) == Told("1", .stale) && response.attempts == 0)
            refreshes.append(try #require(response.revalidation))
        }
        #expect(refreshes.allSatisfy { $0.queue == .slow })
        #expect(test.transport.transfers.last?.request.url == url("urgent"), "the urgent work comes first")
        urgentTransfer.finish(with: Data())
        _ = try await urgent.value
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == a && transfer.request.queue == .slow)
        #expect(transfer.request.headers["If-None-Match"] == "\"1\"")
        transfer.finish(with: Data("2".utf8), headers: window)
        for refresh in refreshes { #expect(try await Told(refresh.response) == Told("2", .network)) }
        for hit in hits { #expect(try await Told(hit.refreshed.get()) == Told("2", .network)) }
        #expect(try await test.ask(a) == Told("2", .memory))
        #expect(test.transport.transfers(of: a).filter { $0.request.queue == .slow }.count == 1)
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("a refresh that the server confirms makes the entry fresh")
    func confirmedRefresh() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1", window), .status(304)])
        _ = try await test.ask(a)
        test.date.advance(by: 109)
        let response = try await test.cache.getData(a).response
        #expect(Told(response) == Told("1", .stale))
        let refresh = try #require(response.revalidation)
        #expect(try await Told(refresh.response) == Told("1", .revalidated))
        let next = try await test.cache.getData(a).response
        #expect(Told(next) == Told("1", .memory) && next.revalidation == nil)
        await test.cache.shutdown()
    }

    @Test("a refresh that fails is told, and the old bytes stay for the time they may")
    func failedRefresh() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [.text("1", window), .status(503), .text("2", window)])
        _ = try await test.ask(a)
        test.date.advance(by: 20)
        let task = test.cache.getData(a)
        #expect(try await Told(task.response) == Told("1", .stale))
        await #expect(throws: DipperError.status(503)) { try await task.refreshed.get() }
        test.date.advance(by: 89)
        let last = try await test.cache.getData(a).response
        #expect(Told(last) == Told("1", .stale))
        _ = try await last.revalidation?.value
        test.date.advance(by: 110)
        test.transport.script(a, [.text("3", window)])
        #expect(try await test.ask(a) == Told("3", .network), "past the window the server is waited for")
        await test.cache.shutdown()
    }

    @Test("an urgent call with no-cache takes the refresh over, which is then urgent")
    func promotedRefresh() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1", window)])
        _ = try await test.ask(a)
        test.transport.script(a, [])
        test.date.advance(by: 10)
        let stale = try await test.cache.getData(a).response
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .slow)
        let urgent = test.cache.getData(DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"]))
        #expect(await settle { transfer.queue == .fast })
        urgent.moveToSlowQueue()
        #expect(await settle { transfer.queue == .slow })
        stale.revalidation?.cancel()
        #expect(!transfer.isCancelled)
        transfer.finish(with: Data(), status: 304)
        #expect(try await Told(urgent.response) == Told("1", .revalidated))
        #expect(await stale.revalidation?.error == .cancelled)
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("cancelling a call that is being revalidated ends the request, and the entry stays")
    func cancelledRevalidation() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=10"])])
        _ = try await test.ask(a)
        test.transport.script(a, [])
        test.date.advance(by: 10)
        let ends = Box(0)
        let task = test.cache.getData(a).onEnd { _ in ends.update { $0 += 1 } }
        let transfer = try await test.transport.nextTransfer()
        task.cancel()
        #expect(await task.error == .cancelled)
        #expect(await settle { transfer.isCancelled })
        transfer.finish(with: Data(), status: 304)
        #expect(await settle { ends.value == 1 })
        #expect(test.cache.data(for: a) == Data("1".utf8))
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    // MARK: stale-if-error and missing network

    @Test(
        "with stale-if-error what is kept stands in for a server that fails, at once",
        arguments: [DipperError.status(500), .status(503), .connectionFailed, .timedOut, .hostNotFound])
    func staleIfError(error: DipperError) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=10, stale-if-error=100"])])
        _ = try await test.ask(a)
        test = await test.reopened(folder)
        let failure: ScriptedTransport.Step = error.status.map { .status($0) } ?? .failure(error)
        test.transport.script(a, [failure])
        test.date.advance(by: 110)
        let failures = Box(0)
        let task = test.cache.getData(a).onFail { _, _ in failures.update { $0 += 1 } }
        #expect(try await Told(task.response) == Told("1", .stale))
        _ = await task.heard
        #expect(failures.value == 0)
        test.date.advance(by: 1)
        #expect(await test.cache.getData(DataRequest(a).with(\.retryPolicy, .never)).error == error)
        #expect(test.requests(a).count == 2)
        await test.cache.shutdown()
    }

    @Test("one who must have the server's word waits on when another is served what is kept")
    func mixedOnError() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=10, stale-if-error=100"])])
        _ = try await test.ask(a)
        test.transport.script(a, [])
        test.date.advance(by: 20)
        let policy = RetryPolicy.fixed(.seconds(1))
        let easy = test.cache.getData(a)
        let strict = test.cache.getData(
            DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"]).with(\.retryPolicy, policy))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        #expect(try await Told(easy.response) == Told("1", .stale))
        try await test.clock.waitForSleepers(1)
        #expect(strict.state == .parked)
        test.clock.advance(by: .seconds(1))
        try await test.transport.nextTransfer().finish(with: Data("2".utf8))
        #expect(try await Told(strict.response) == Told("2", .network))
        await test.cache.shutdown()
    }

    @Test("without a network what is kept is used however old, unless the server has forbidden that")
    func offline() async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        let cases: [(String, Bool)] = [
            ("max-age=1", true), ("max-age=1, must-revalidate", false), ("no-cache", false),
            ("max-age=1, stale-if-error=0", true),
        ]
        for (control, _) in cases {
            let target = url(control.filter(\.isLetter))
            test.transport.script(target, [.text("1", ["Cache-Control": control, "ETag": "\"1\""])])
            _ = try await test.ask(target)
        }
        test = await test.reopened(folder)
        test.network.isUp = false
        test.date.advance(by: 1_000_000)
        for (control, mayBeStale) in cases {
            let target = url(control.filter(\.isLetter))
            test.transport.script(target, [.failure(.unreachable)])
            let request = DataRequest(target).with(\.retryPolicy, .never)
            for _ in 0..<2 {
                let task = test.cache.getData(request)
                if mayBeStale {
                    #expect(try await Told(task.response) == Told("1", .stale), "\(control)")
                } else {
                    #expect(await task.error == .unreachable, "\(control)")
                }
            }
            let forced = test.cache.getRemoteData(request)
            #expect(await forced.error == .unreachable, "the network was asked for, and nothing else")
        }
        await test.cache.shutdown()
    }

    @Test("the cache alone gives what is out of date, unless the server has forbidden that", arguments: [false, true])
    func cacheOnly(fromDisk: Bool) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        let cases: [(String, Bool)] = [
            ("max-age=1", true), ("max-age=1, stale-while-revalidate=9999", true),
            ("max-age=1, must-revalidate", false), ("no-cache", false),
        ]
        for (control, _) in cases {
            let target = url(control.filter(\.isLetter))
            test.transport.script(target, [.text("1", ["Cache-Control": control])])
            _ = try await test.ask(target)
        }
        if fromDisk { test = await test.reopened(folder) }
        test.date.advance(by: 100)
        for (control, mayBeStale) in cases {
            let task = test.cache.getData(
                DataRequest(url(control.filter(\.isLetter))).with(\.cachePolicy, .cacheOnly))
            if mayBeStale {
                let response = try await task.response
                #expect(Told(response) == Told("1", .stale), "\(control)")
                #expect(response.revalidation == nil, "the network is not asked")
            } else {
                #expect(await task.error == .notCached, "\(control)")
            }
        }
        #expect(test.transport.transfers.count == (fromDisk ? 0 : cases.count))
        await test.cache.shutdown()
    }

    // MARK: Request directives

    @Test("directives of a request are no part of its key")
    func directivesAndKeys() {
        let plain = DataRequest(a)
        #expect(plain.with(\.headers, ["Cache-Control": "no-cache", "PRAGMA": "no-cache"]).cacheKey == plain.cacheKey)
        #expect(plain.with(\.headers, ["Accept": "x"]).cacheKey != plain.cacheKey)
        #expect(
            plain.with(\.headers, ["Accept": "x", "cache-control": "max-age=0"]).cacheKey
                == plain.with(\.headers, ["Accept": "x"]).cacheKey)
    }

    @Test(
        "what a request says of the cache holds for it (RFC 9111, section 5.2.1)",
        arguments: [
            // After 50 of 100 seconds.
            (50, "no-cache", ResponseSource.revalidated), (50, "max-age=49", .revalidated),
            (50, "max-age=50", .memory), (50, "max-age=0", .revalidated), (50, "min-fresh=50", .memory),
            (50, "min-fresh=51", .revalidated), (50, "only-if-cached", .memory), (50, "no-store", .memory),
            (50, "max-stale", .memory), (50, "", .memory),
            // After 150 of 100 seconds.
            (150, "max-stale=49", .revalidated), (150, "max-stale=50", .stale), (150, "max-stale", .stale),
            (150, "max-stale, no-cache", .revalidated), (150, "max-age=1000", .revalidated), (150, "", .revalidated),
        ], [false, true])
    func directives(what: (Int, String, ResponseSource), fromDisk: Bool) async throws {
        let (seconds, control, source) = what
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=100"])])
        _ = try await test.ask(a)
        if fromDisk { test = await test.reopened(folder) }
        test.date.advance(by: Double(seconds))
        test.transport.script(a, [.status(304)])
        let expected = fromDisk && source == .memory ? .disk : source
        #expect(try await test.ask(a, ["Cache-Control": control]) == Told("1", expected))
        await test.cache.shutdown()
    }

    @Test("only-if-cached asks no server: what is there must do as it is")
    func onlyIfCached() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=10"])])
        let request = DataRequest(a).with(\.headers, ["Cache-Control": "only-if-cached"])
        #expect(await test.cache.getData(request).error == .notCached)
        _ = try await test.ask(a)
        #expect(try await Told(test.cache.getData(request).response) == Told("1", .memory))
        test.date.advance(by: 10)
        #expect(await test.cache.getData(request).error == .notCached)
        #expect(
            try await test.ask(a, ["Cache-Control": "only-if-cached, max-stale=60"]) == Told("1", .stale))
        #expect(test.requests(a).count == 1)
        await test.cache.shutdown()
    }

    @Test("no-store of a request keeps nothing of its answer")
    func requestNoStore() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100"])])
        #expect(try await test.ask(a, ["Cache-Control": "no-store"]) == Told("1", .network))
        #expect(!test.cache.hasData(for: a))
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test(
        "a call that wants the server's word gets it, also when others are served from disk meanwhile",
        arguments: 0..<30)
    func noCacheBesideHit(run: Int) async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=100"])])
        _ = try await test.ask(a)
        test = await test.reopened(folder)
        test.transport.script(a, [.status(304)])
        let plain = test.cache.getData(a)
        let strict = test.cache.getData(DataRequest(a).with(\.headers, ["Cache-Control": "no-cache"]))
        #expect(try await plain.response.source != .network)
        #expect(try await strict.response.source == .revalidated)
        #expect(test.requests(a).count == 1)
        await test.cache.shutdown()
    }
}
