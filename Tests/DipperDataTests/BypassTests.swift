import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("A call past the cache reads nothing and keeps nothing", .timeLimit(.minutes(5)))
struct BypassTests {
    private let a = url("a")
    private var past: DataRequest { DataRequest(a).with(\.cachePolicy, .bypass) }
    private func text(_ text: String, _ headers: HTTPHeaders = [:]) -> ScriptedTransport.Step {
        .response(TransferResponse(headers: headers, body: Data(text.utf8)))
    }

    @Test("it is answered by the network, and neither tier has it afterwards")
    func keepsNothing() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [text("1", ["Cache-Control": "max-age=100"]), text("2"), text("3")])
        let request = past.with(\.waitsForDiskWrite, true).with(\.durability, .durable)
        #expect(try await test.cache.getData(request).response.source == .network)
        #expect(try await test.cache.slowGetData(request).value == Data("2".utf8))
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a))
        #expect(test.cache.memoryCount == 0 && test.cache.diskCount == 0)
        #expect(folder.files.allSatisfy { $0.hasPrefix("index.") || $0 == "dipper-cache" || $0.hasSuffix("/.lock") })
        await test.cache.shutdown()
    }

    @Test("what the tiers have is not read, not asked about, and stays", arguments: [true, false])
    func readsNothing(inMemory: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.transport.script(
            a,
            [
                text("kept", ["ETag": "\"1\"", "Cache-Control": "max-age=100"]),
                text("new", ["Cache-Control": "no-store"]),
                .status(404), .status(503),
            ])
        _ = try await test.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true)).value
        if !inMemory { test.cache.clearMemory() }
        #expect(try await test.cache.getData(past).value == Data("new".utf8))
        #expect(await test.cache.getData(past).error?.status == 404)
        #expect(await test.cache.getData(past.with(\.retryPolicy, .never)).error?.status == 503, "nothing stands in")
        for request in test.requests(a) { #expect(request["If-None-Match"] == nil) }
        #expect(test.cache.cachedSource(for: a) == (inMemory ? .memory : .disk))
        #expect(test.cache.data(for: a) == Data("kept".utf8))
        await test.cache.shutdown()
    }

    @Test("the beginning of a body that breaks off serves the next attempt and is not left on disk")
    func partials() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.retryPolicy = .fixed(.zero, retries: 1) }
        let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100"]
        let beginning = TransferResponse(headers: fields, body: Data(count: 40))
        test.transport.script(a, [.interrupted(beginning, .connectionLost)])
        #expect(await test.cache.getData(past).error == .connectionLost)
        #expect(test.requests(a).map { $0["Range"] } == [nil, "bytes=40-"])
        await test.cache.synchronize()
        #expect(folder.files.allSatisfy { !$0.hasPrefix("partial") })
        await test.cache.shutdown()
    }

    @Test(
        "it shares a fetch with a call that wants to keep it, whoever comes first, and it is kept",
        arguments: [true, false])
    func shared(isFirst: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let requests = isFirst ? [past, DataRequest(a)] : [DataRequest(a), past]
        let tasks = requests.map { test.cache.getData($0) }
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: Data("1".utf8))
        for task in tasks { #expect(try await task.value == Data("1".utf8)) }
        #expect(test.transport.transfers.count == 1)
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 1 && test.cache.diskCount == 1)
        await test.cache.shutdown()
    }

    @Test("it shares a fetch with a call that keeps in memory alone, whoever comes first", arguments: [true, false])
    func sharedWithMemory(isFirst: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let other = DataRequest(a).with(\.cachePolicy, .memoryOnly)
        let tasks = (isFirst ? [past, other] : [other, past]).map { test.cache.getData($0) }
        try await test.transport.nextTransfer().finish(with: Data("1".utf8))
        for task in tasks { #expect(try await task.value == Data("1".utf8)) }
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 1 && test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("a cache may be set up to keep nothing but what is added by hand")
    func byDefault() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.cachePolicy = .bypass }
        test.transport.script(a, [text("1"), text("2")])
        #expect(try await test.cache.getData(a).value == Data("1".utf8))
        #expect(try await test.cache.getData(a).value == Data("2".utf8))
        try await test.cache.addDataAndWait(Data("own".utf8), for: "own")
        #expect(test.cache.data(for: "own") == Data("own".utf8) && test.cache.diskCount == 1)
        await test.cache.shutdown()
    }
}
