import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

private struct Feed: Codable, Sendable, Equatable {
    struct Item: Codable, Equatable { var name: String }
    var items: [Item]

    static let sample = Feed(items: [Item(name: "one"), Item(name: "two")])
    static var bytes: Data { Data(#"{"items":[{"name":"one"},{"name":"two"}]}"#.utf8) }
}

/// A decoder of JSON that counts the values it has decoded.
private struct CountingValueDecoder: ValueDecoder {
    let identifier = "counting"
    let decoded = Box(0)

    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        decoded.update { $0 += 1 }
        return try JSONDecoder().decode(type, from: data)
    }
}

@Suite("Typed values", .timeLimit(.minutes(5)))
struct TypedValueTests {
    @Test("many calls share one request and one decoding")
    func sharing() async throws {
        let test = TestCache()
        let decoder = CountingValueDecoder()
        let tasks = (0..<20).map { _ in test.cache.getValue(Feed.self, from: url("a"), decoder: decoder) }
        try await test.transport.nextTransfer().finish(with: Feed.bytes)
        for task in tasks { #expect(try await task.value == .sample) }
        #expect(test.transport.transfers.count == 1)
        #expect(decoder.decoded.value == 1)
        await test.cache.shutdown()
    }

    @Test("a value in memory is not decoded again")
    func memoryHit() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Feed.bytes)])
        let decoder = CountingValueDecoder()
        _ = try await test.cache.getValue(Feed.self, from: url("a"), decoder: decoder).value
        let response = try await test.cache.getValue(Feed.self, from: url("a"), decoder: decoder).response
        #expect(response.value == .sample)
        #expect(response.source == .memory)
        #expect(decoder.decoded.value == 1)
        #expect(test.cache.valueMemorySize >= Feed.bytes.count)
        await test.cache.shutdown()
    }

    @Test("a task for a value has what other tasks have: the result, the attempts, identity, a description, hooks")
    func task() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Feed.bytes)])
        test.transport.script(url("b"), [.status(404, [:])])
        let good = test.cache.getValue(Feed.self, from: url("a"))
        let bad = test.cache.getValue(Feed.self, from: url("b"))
        #expect(try await good.result.get() == .sample)
        #expect(await bad.error == .status(404))
        #expect(good.attempts == 1 && bad.attempts == 1)
        #expect(Set([good, bad, good]).count == 2)
        #expect("\(good)".hasSuffix("fast finished"))
        let heard = Box<[Feed]>([])
        good.then { feed in heard.update { $0.append(feed) } }
        #expect(await settle { heard.value == [.sample] })
        await test.cache.shutdown()
    }

    @Test("a value that is out of date is answered at once, and its task tells of the newer one")
    func newer() async throws {
        let test = TestCache()
        let old: HTTPHeaders = ["Cache-Control": "max-age=1, stale-while-revalidate=100"]
        let newBytes = Data(#"{"items":[]}"#.utf8)
        test.transport.script(
            url("a"),
            [
                .response(TransferResponse(headers: old, body: Feed.bytes)),
                .response(TransferResponse(headers: old, body: newBytes)),
            ])
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        test.date.advance(by: 10)
        let heard = Box<[Feed]>([])
        let task = test.cache.getValue(Feed.self, from: url("a")).onRevalidate { newer in
            if case .success(let response) = newer { heard.update { $0.append(response.value) } }
        }
        let response = try await task.response
        #expect(response.value == .sample && response.source == .stale)
        #expect(try await response.revalidation?.value.items == [])
        #expect(await settle { heard.value == [Feed(items: [])] })
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("two types of one answer share its request")
    func twoTypes() async throws {
        struct Count: Decodable, Sendable { var items: [[String: String]] }
        let test = TestCache()
        let feed = test.cache.getValue(Feed.self, from: url("a"))
        let count = test.cache.getValue(Count.self, from: url("a"))
        try await test.transport.nextTransfer().finish(with: Feed.bytes)
        #expect(try await feed.value == .sample)
        #expect(try await count.value.items.count == 2)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("bytes on disk are decoded without a request")
    func diskHit() async throws {
        let folder = TemporaryFolder()
        let first = TestCache(folder: folder)
        first.transport.script(url("a"), [.body(Feed.bytes)])
        _ = try await first.cache.getData(url("a")).value
        await first.cache.shutdown()
        let second = TestCache(folder: folder)
        let response = try await second.cache.getValue(Feed.self, from: url("a")).response
        #expect(response.value == .sample)
        #expect(response.source == .disk)
        #expect(second.transport.transfers.isEmpty)
        await second.cache.shutdown()
    }

    @Test("stored bytes that cannot be decoded are fetched again")
    func brokenEntry() async throws {
        let test = TestCache()
        try test.cache.addData(Data("nonsense".utf8), for: url("a"))
        test.transport.script(url("a"), [.body(Feed.bytes)])
        #expect(try await test.cache.getValue(Feed.self, from: url("a")).value == .sample)
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.data(for: url("a")) == Feed.bytes)
        await test.cache.shutdown()
    }

    @Test("an answer that cannot be decoded ends the call with the path of the failing key, and is not kept")
    func failingKey() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Data(#"{"items":[{"name":"one"},{"title":"two"}]}"#.utf8))])
        let error = await test.cache.getValue(Feed.self, from: url("a")).error
        #expect(error == .undecodable)
        #expect(error?.detail == "no items[1].name")
        #expect(test.transport.transfers.count == 1)
        #expect(test.cache.data(for: url("a")) == nil)
        await test.cache.shutdown()
    }

    @Test("a call that may only read the cache does not fetch in place of broken bytes")
    func brokenEntryOffline() async throws {
        let test = TestCache()
        try test.cache.addData(Data("nonsense".utf8), for: url("a"))
        let request = DataRequest(url("a")).with(\.cachePolicy, .cacheOnly)
        #expect(await test.cache.getValue(Feed.self, from: request).error == .undecodable)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("property lists, and JSON with options, are decoded")
    func formats() async throws {
        struct Entry: Codable, Equatable { var firstName: String }
        let test = TestCache()
        let entry = Entry(firstName: "Ada")
        test.transport.script(url("a"), [.body(try PropertyListEncoder().encode(entry))])
        test.transport.script(url("b"), [.body(Data(#"{"first_name":"Ada"}"#.utf8))])
        let snake = JSONValueDecoder("snake case") { $0.keyDecodingStrategy = .convertFromSnakeCase }
        #expect(try await test.cache.getValue(Entry.self, from: url("a"), decoder: .propertyList).value == entry)
        #expect(try await test.cache.getValue(Entry.self, from: url("b"), decoder: snake).value == entry)
        await test.cache.shutdown()
    }

    @Test("cancelling one call leaves the others; cancelling the last one ends the transfer")
    func cancelling() async throws {
        let test = TestCache()
        let first = test.cache.getValue(Feed.self, from: url("a"))
        let second = test.cache.getValue(Feed.self, from: url("a"))
        let transfer = try await test.transport.nextTransfer()
        first.cancel()
        #expect(await first.error == .cancelled)
        #expect(!transfer.isCancelled)
        second.cancel()
        #expect(await second.error == .cancelled)
        #expect(await settle { transfer.isCancelled })
        await test.cache.shutdown()
    }

    @Test("an urgent call promotes a prefetch of a value, and moving it back demotes the transfer")
    func promotion() async throws {
        let test = TestCache()
        let slow = test.cache.slowGetValue(Feed.self, from: url("a"))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.queue == .slow)
        let fast = test.cache.getValue(Feed.self, from: url("a"))
        #expect(await settle { transfer.queue == .fast })
        #expect(test.cache.queueCounts.fastRunning == 1)
        fast.moveToSlowQueue()
        #expect(await settle { transfer.queue == .slow })
        #expect(fast.queue == .slow)
        transfer.finish(with: Feed.bytes)
        #expect(try await slow.value == .sample)
        #expect(try await fast.value == .sample)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("a removed value is fetched again, also if it was removed while it was fetched")
    func removal() async throws {
        let test = TestCache()
        let first = test.cache.getValue(Feed.self, from: url("a"))
        let transfer = try await test.transport.nextTransfer()
        test.cache.removeData(for: url("a"))
        transfer.finish(with: Feed.bytes)
        #expect(try await first.value == .sample)
        #expect(test.cache.value(Feed.self, for: url("a")) == nil)
        test.transport.script(url("a"), [.body(Feed.bytes)])
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        #expect(test.cache.value(Feed.self, for: url("a")) == .sample)
        test.cache.removeData(for: url("a"))
        #expect(test.cache.valueMemorySize == 0)
        #expect(test.cache.value(Feed.self, for: url("a")) == nil)
        await test.cache.shutdown()
    }

    @Test("added bytes take the place of a value in memory")
    func replaced() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Feed.bytes)])
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        try test.cache.addData(Data(#"{"items":[]}"#.utf8), for: url("a"))
        #expect(try await test.cache.getValue(Feed.self, from: url("a")).value == Feed(items: []))
        await test.cache.shutdown()
    }

    @Test("newer bytes of another call take the place of a value in memory")
    func refreshed() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.body(Feed.bytes), .body(Data(#"{"items":[]}"#.utf8))])
        _ = try await test.cache.getValue(Feed.self, from: url("a")).value
        _ = try await test.cache.getRemoteData(url("a")).value
        #expect(try await test.cache.getValue(Feed.self, from: url("a")).value == Feed(items: []))
        await test.cache.shutdown()
    }

    @Test("a value is read from stored bytes without the network")
    func peek() async throws {
        let test = TestCache()
        #expect(test.cache.value(Feed.self, for: url("a")) == nil)
        try test.cache.addData(Feed.bytes, for: url("a"))
        #expect(test.cache.value(Feed.self, for: url("a")) == .sample)
        #expect(test.cache.valueMemorySize > 0)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("failures and retries of the fetch reach the calls for a value")
    func hooks() async throws {
        let test = TestCache()
        let heard = Box<[String]>([])
        let request = DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1)))
        let task = test.cache.getValue(Feed.self, from: request)
        task.onFail { error, isFatal in heard.update { $0.append("\(error.shortDescription) \(isFatal)") } }
        task.onRetry { heard.update { $0.append("retry") } }
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        try await test.transport.nextTransfer().finish(with: Feed.bytes)
        await withCheckedContinuation { continuation in task.onEnd { _ in continuation.resume() } }
        #expect(heard.value == ["connection lost false", "retry"])
        await test.cache.shutdown()
    }

    @Test("calls end when the cache is shut down")
    func shutdown() async throws {
        let test = TestCache()
        let task = test.cache.getValue(Feed.self, from: url("a"))
        await test.cache.shutdown()
        #expect(await task.error == .cancelled)
        #expect(await test.cache.getValue(Feed.self, from: url("a")).error == .shutDown)
    }
}
