import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A call past the cache reads nothing and keeps nothing", .timeLimit(.minutes(2)))
struct BypassTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private var past: DataRequest { DataRequest(a).with(\.cachePolicy, .bypass) }

    @Test("The network answers it, and neither tier has the answer afterwards")
    func keepsNothing() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("1", ["Cache-Control": "max-age=100"]), .text("2"), .text("3")])
        let request = past.with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        #expect(try await test.ask(request) == "1 from network")
        #expect(try await test.cache.slowGetData(request).value == Data("2".utf8))
        await test.cache.idle()
        #expect(!test.cache.hasData(for: a) && test.cache.memoryCount == 0 && test.cache.diskCount == 0)
        let files = folder.files.filter { !$0.hasPrefix("index.") && $0 != "dipper-cache" && !$0.hasSuffix(".lock") }
        #expect(files.isEmpty)
    }

    @Test("An entry of the tiers is not read, not asked about, does not stand in, and stays", arguments: [true, false])
    func readsNothing(inMemory: Bool) async throws {
        try await test.keep("kept", ["ETag": "\"1\"", "Cache-Control": "max-age=100"], for: a)
        await test.cache.idle()
        if !inMemory { test.cache.clearMemory() }
        test.transport.script(a, [.text("new", ["Cache-Control": "no-store"]), .status(404), .status(503)])
        #expect(try await test.ask(past) == "new from network")
        #expect(await test.cache.getData(past).error == .status(404))
        #expect(await test.cache.getData(past.with(\.retryPolicy, .never)).error == .status(503))
        #expect(test.requests(a).allSatisfy { $0["If-None-Match"] == nil })
        #expect(test.cache.cachedSource(for: a) == (inMemory ? .memory : .disk))
        #expect(test.cache.data(for: a) == Data("kept".utf8))
    }

    @Test("The beginning of a body that breaks off serves the next attempt and is not left on disk")
    func partials() async throws {
        test.transport.script(a, [.interrupted(Parts.beginning(40), .connectionLost)])
        let task = test.cache.getData(past.with(\.retryPolicy, .fixed(.zero, retries: 1)))
        await test.whileClockRuns { await test.cache.idle() }
        #expect(await task.error == .connectionLost)
        #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-"])
        let next = await test.reopened()
        next.transport.script(a, [.text("1")])
        #expect(try await next.ask(a) == "1 from network")
        #expect(next.requests(a).map { $0["Range"] } == [nil])
    }

    @Test(
        "It shares a fetch with a call that keeps the answer, whoever comes first, and the answer is kept",
        arguments: [true, false], [DataRequest.CachePolicy.useCache, .memoryOnly])
    func shared(isFirst: Bool, policy: DataRequest.CachePolicy) async throws {
        let other = DataRequest(a).with(\.cachePolicy, policy)
        let tasks = (isFirst ? [past, other] : [other, past]).map { test.cache.getData($0) }
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        for task in tasks { #expect(try await task.value == Data("1".utf8)) }
        await test.cache.idle()
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.memoryCount == 1 && test.cache.diskCount == (policy == .memoryOnly ? 0 : 1))
    }

    @Test("A cache may be set up to keep nothing but what the program adds")
    func byDefault() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.cachePolicy = .bypass }
        test.transport.script(a, [.text("1"), .text("2")])
        #expect(try await test.ask(a) == "1 from network")
        #expect(try await test.ask(a) == "2 from network")
        try await test.cache.addDataAndWait(Data("own".utf8), for: "own")
        #expect(test.cache.data(for: "own") == Data("own".utf8) && test.cache.diskCount == 1)
    }
}
