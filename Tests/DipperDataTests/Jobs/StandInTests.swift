import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Providers as alternatives, and in place of URLs on networks that cost", .timeLimit(.minutes(5)))
struct StandInTests {
    private let a = url("a")
    private let b = url("b")
    private let bundled = DataRequest.Source.provider(MemoryProvider(Data("bundled".utf8), key: "bundled"))

    @Test("bytes that are at hand stand in for one call, and are not kept: the next one asks the URL again")
    func standIn() async throws {
        for freshness in [FreshnessPolicy.immutable(for: .days(9)), nil] {
            let test = TestCache(folder: TemporaryFolder())
            test.transport.script(a, [.status(404), .text("real")])
            let told = Box<[String]>([])
            var request = DataRequest(a)
            request.alternatives = [bundled, .url(b)]
            request.freshness = freshness
            let task = test.cache.getData(request.with(\.waitsForDiskWrite, true))
                .onFail { error, isFatal in told.update { $0.append("\(error) \(isFatal)") } }
            let response = try await task.response
            #expect(Told(response) == Told("bundled", .network))
            #expect(await settle { told.value == ["status 404 false"] })
            #expect(response.freshUntil.map { $0 <= test.date.now } == true)
            await test.cache.synchronize()
            #expect(!test.cache.hasData(for: a) && !test.cache.hasData(for: CacheKey("bundled")))
            #expect(test.cache.memoryCount == 0 && test.cache.diskCount == 0)
            #expect(try await Told(test.cache.getData(request).response) == Told("real", .network))
            #expect(try await Told(test.cache.getData(request).response) == Told("real", .memory))
            #expect(test.transport.transfers(of: b).isEmpty)
            await test.cache.shutdown()
        }
    }

    @Test("what is kept stays as it is, out of date as it may be, and so does the beginning of a body")
    func keptStays() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .never }
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, must-revalidate", "ETag": "\"1\""]
        test.transport.script(a, [.text("old", headers), .status(404), .status(304, headers)])
        _ = try await test.ask(a)
        test.date.advance(by: 20)
        let request = DataRequest(a).with(\.alternatives, [bundled])
        #expect(try await Told(test.cache.getData(request).response) == Told("bundled", .network))
        #expect(test.cache.data(for: a) == Data("old".utf8))
        #expect(try await Told(test.cache.getData(request).response) == Told("old", .revalidated))

        let broken = test.cache.getData(DataRequest(b).with(\.alternatives, [bundled]))
        let transfer = try await test.transport.nextTransfer()
        transfer.interrupt(
            with: TransferResponse(
                headers: ["ETag": "\"2\"", "Content-Length": "4"], body: Data("ab".utf8)))
        #expect(try await Told(broken.response) == Told("bundled", .network))
        let next = test.cache.getData(b)
        #expect(try await test.transport.nextTransfer().request.headers["Range"] == "bytes=2-")
        next.cancel()
        await test.cache.shutdown()
    }

    @Test("of those who share a fetch each hears what is theirs: who has named nobody to stand in hears of the failure")
    func sharedFetch() async throws {
        for isFirst in [true, false] {
            let test = TestCache()
            let other = DataRequest(a).with(\.alternatives, [bundled])
            let first = test.cache.slowGetData(isFirst ? other : DataRequest(a))
            let transfer = try await test.transport.nextTransfer()
            let second = test.cache.getData(isFirst ? DataRequest(a) : other)
            transfer.finish(with: Data(), status: 404)
            let (plain, withStandIn) = isFirst ? (second, first) : (first, second)
            #expect(try await withStandIn.value == Data("bundled".utf8))
            #expect(await plain.error == .status(404))
            #expect(test.transport.transfers.count == 1)
            await test.cache.shutdown()
        }
    }

    @Test("a prefetch and a refresh in the background have no use for it")
    func background() async throws {
        let test = TestCache()
        let request = DataRequest(a).with(\.alternatives, [bundled])
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=100"]
        test.transport.script(a, [.status(404), .text("old", headers), .status(404)])
        let result = await DataPrefetcher(test.cache, [request]).value
        #expect(result.failed.map(\.error) == [.status(404)])
        _ = try await test.cache.getData(a).value
        test.date.advance(by: 20)
        let response = try await test.cache.getData(request).response
        #expect(Told(response) == Told("old", .stale))
        #expect(await response.revalidation?.error == .status(404))
        await test.cache.shutdown()
    }

    @Test("what other providers bring is kept under the request's key")
    func custom() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.status(410)])
        let provider = CustomProvider(key: "custom") { Data("made".utf8) }
        let request = DataRequest(a).with(\.alternatives, [.provider(provider)])
        #expect(try await Told(test.cache.getData(request).response) == Told("made", .network))
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 1 && !test.cache.hasData(for: CacheKey("custom")))
        #expect(try await test.ask(a) == Told("made", .memory))
        await test.cache.shutdown()
    }

    @Test("URLs come after providers that fail, also for a provider; the last failure tells of those before it")
    func order() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [.status(404)])
        test.transport.script(b, [.status(410), .text("1")])
        let failing = CustomProvider(key: "failing") { throw DipperError.invalidData }
        let request = DataRequest(a).with(\.alternatives, [.provider(failing), .url(b)])
        let error = await test.cache.getData(request).error
        #expect(error == .status(410))
        #expect(error?.earlier == [.status(404), .invalidData])
        let provided = DataRequest(failing).with(\.alternatives, [b])
        #expect(try await Told(test.cache.getData(provided).response) == Told("1", .network))
        #expect(test.cache.hasData(for: CacheKey("failing")) && !test.cache.hasData(for: b))
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("the failures of an alternative are counted anew")
    func countedAnew() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero, retries: 1) }
        test.transport.script(a, [.status(503)])
        test.transport.script(b, [.status(503), .text("1")])
        let response = try await test.cache.getData(DataRequest(a).with(\.alternatives, [b])).response
        #expect(Told(response) == Told("1", .network))
        #expect(test.transport.transfers.map(\.request.url) == [a, a, b, b])
        await test.cache.shutdown()
    }

    @Test("without a network nobody waits for it where something else can be had")
    func offline() async throws {
        let test = TestCache()
        let near = URL(string: "http://near.test/a")!
        test.network.setReachable(false, host: "host.test")
        for target in [a, b] { test.transport.script(target, [.failure(.unreachable)]) }
        test.transport.script(near, [.text("near")])
        let provided = test.cache.getData(DataRequest(a).with(\.alternatives, [.url(b), bundled]))
        #expect(try await Told(provided.response) == Told("bundled", .network))
        let mirrored = test.cache.getData(DataRequest(a).with(\.alternatives, [near]))
        #expect(try await Told(mirrored.response) == Told("near", .network))
        // What cannot be reached either is no reason not to wait.
        let waiting = test.cache.getData(DataRequest(url("c")).with(\.alternatives, [b]))
        #expect(await settle { waiting.state == .parked })
        #expect(test.transport.transfers.map(\.request.url) == [near], "nothing else can be reached")
        test.cache.cancelAll()
        await test.cache.shutdown()
    }

    @Test("a cancelled provider is not followed by the next source")
    func cancelled() async throws {
        let test = TestCache()
        test.transport.script(a, [.status(404)])
        let asked = Box(0)
        let endless = CustomProvider(key: "endless") {
            asked.update { $0 += 1 }
            while !Task.isCancelled { await Task.yield() }
            throw CancellationError()
        }
        let task = test.cache.getData(DataRequest(a).with(\.alternatives, [.provider(endless), .url(b)]))
        #expect(await settle { asked.value == 1 })
        task.cancel()
        #expect(await task.error == .cancelled)
        #expect(await settle { test.cache.queueCounts == QueueCounts() })
        #expect(test.transport.transfers(of: b).isEmpty)
        await test.cache.shutdown()
    }

    @Test("on a constrained network a provider brings the small form, under its own key")
    func lowData() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(a, [.text("large")])
        let request = DataRequest(a).with(\.lowDataSource, bundled)
        #expect(request.lowDataURL == nil && DataRequest(a).with(\.lowDataURL, b).lowDataSource?.url == b)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        #expect(try await Told(test.cache.getData(request).response) == Told("bundled", .network))
        await test.cache.synchronize()
        #expect(
            test.cache.hasData(for: CacheKey("bundled")) && !test.cache.hasData(for: a) && test.cache.diskCount == 0)
        #expect(test.transport.transfers.isEmpty)
        test.network.setConditions(NetworkConditions())
        #expect(try await Told(test.cache.getData(request).response) == Told("large", .network))
        test.network.setConditions(NetworkConditions(isConstrained: true))
        #expect(try await Told(test.cache.getData(request).response) == Told("large", .memory))
        await test.cache.shutdown()
    }
}
