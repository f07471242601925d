import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension RequestHooksTests {
    // MARK: Alternatives

    @Test("alternatives are tried in order, each with its own attempts, and what comes is kept under the first address")
    func alternatives() async throws {
        let folder = TemporaryFolder()
        var test = TestCache(folder: folder)
        test.transport.script(a, [.status(404)])
        test.transport.script(b, [.status(503)])
        test.transport.script(url("c"), [.text("1", ["Cache-Control": "max-age=50"])])
        let told = Box<[String]>([])
        let request = DataRequest(a).with(\.alternatives, [b, url("c"), url("d")])
            .with(\.retryPolicy, .fixed(.zero, retries: 1))
        let task = test.cache.getData(request)
            .onFail { error, isFatal in told.update { $0.append("\(error) \(isFatal)") } }
        #expect(try await Told(task.response) == Told("1", .network))
        #expect(test.transport.transfers.map(\.request.url) == [a, b, b, url("c")])
        #expect(await settle { told.value == ["status 404 false", "status 503 false", "status 503 false"] })
        #expect(try await test.ask(a) == Told("1", .memory))
        #expect(!test.cache.hasData(for: url("c")))
        test = await test.reopened(folder)
        test.network.isUp = false
        #expect(try await test.ask(a) == Told("1", .disk))
        test.date.advance(by: 50)
        test.transport.script(a, [.failure(.unreachable)])
        #expect(try await test.ask(a) == Told("1", .stale), "without a network what is kept is used")
        await test.cache.shutdown()
    }

    @Test("when all have failed the last failure tells of those before it")
    func allFail() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        test.transport.script(a, [.status(404)])
        test.transport.script(b, [.failure(.connectionFailed)])
        test.transport.script(url("c"), [.status(410)])
        let task = test.cache.getData(DataRequest(a).with(\.alternatives, [b, url("c")]))
        let error = await task.error
        #expect(error == .status(410))
        #expect(error?.earlier == [.status(404), .connectionFailed])
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("after a cancel no alternative is tried")
    func cancelledAlternatives() async throws {
        let test = TestCache()
        let task = test.cache.getData(DataRequest(a).with(\.alternatives, [b]))
        let transfer = try await test.transport.nextTransfer()
        task.cancel()
        #expect(await task.error == .cancelled)
        transfer.fail(with: .status(404))
        let other = test.cache.getData(url("c"))
        #expect(try await test.transport.nextTransfer().request.url == url("c"))
        other.cancel()
        #expect(test.transport.transfers(of: b).isEmpty)
        await test.cache.shutdown()
    }

    @Test("a partial body of one source is not continued by another")
    func partialAndAlternative() async throws {
        let test = TestCache { $0.retryPolicy = .never }
        let beginning = TransferResponse(
            headers: ["ETag": "\"v\"", "Content-Length": "4"], body: Data("12".utf8))
        test.transport.script(a, [.interrupted(beginning, .connectionLost)])
        test.transport.script(b, [.text("abcd", ["ETag": "\"v\""])])
        let task = test.cache.getData(DataRequest(a).with(\.alternatives, [b]))
        #expect(try await task.value == Data("abcd".utf8))
        #expect(test.requests(b)[0]["Range"] == nil)
        await test.cache.shutdown()
    }

    @Test("on a constrained network the small form is fetched, under its own key, unless the large one is here")
    func lowData() async throws {
        let network = ManualNetwork()
        let test = TestCache { $0.networkMonitor = network }
        test.transport.script(a, [.text("large")])
        test.transport.script(b, [.text("small")])
        let request = DataRequest(a).with(\.lowDataURL, b)
        network.setConditions(NetworkConditions(isConstrained: true))
        #expect(try await Told(test.cache.getData(request).response) == Told("small", .network))
        #expect(test.cache.hasData(for: b) && !test.cache.hasData(for: a))
        network.setConditions(NetworkConditions(isExpensive: true))
        #expect(try await Told(test.cache.getData(request).response) == Told("large", .network))
        network.setConditions(NetworkConditions(isConstrained: true))
        #expect(try await Told(test.cache.getData(request).response) == Told("large", .memory))
        await test.cache.shutdown()
    }

    @Test("each request tells its priority, unless the caller has")
    func priority() async throws {
        let test = TestCache()
        for (queue, priority, text) in [
            (FetchQueue.fast, Priority.normal, "u=2"), (.fast, .high, "u=1"), (.fast, .low, "u=3"),
            (.slow, .normal, "u=6"),
            (.slow, .high, "u=5"), (.slow, .low, "u=7"),
        ] {
            let request = DataRequest(url(text)).with(\.priority, priority)
            let task = queue == .fast ? test.cache.getData(request) : test.cache.slowGetData(request)
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.headers.values("Priority") == [text])
            transfer.finish(with: Data())
            _ = try await task.value
        }
        let own = test.cache.getData(DataRequest(a).with(\.headers, ["priority": "u=4, i"]))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers.values("Priority") == ["u=4, i"])
        transfer.finish(with: Data())
        _ = try await own.value
        await test.cache.shutdown()
    }
}
