import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("What several calls wait for is made once", .timeLimit(.minutes(2)))
struct SharedMakingTests {
    private let a = url("a")
    private let test = TestCache()

    @Test("calls share a request and a decoding, whenever they join", arguments: ["fetch", "decoding"])
    func joining(stage: String) async throws {
        let decoder = CountingValueDecoder(isHeld: true)
        func call() -> ValueTask<Feed> { test.cache.getValue(Feed.self, from: a, decoder: decoder) }
        var tasks = [call()]
        let transfer = try await test.transport.nextTransfer()
        if stage == "fetch" { tasks += (0..<20).map { _ in call() } }
        transfer.finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        if stage == "decoding" { tasks += (0..<20).map { _ in call() } }
        decoder.release(tasks.count)
        for task in tasks { #expect(try await task.value == .sample) }
        #expect(test.transport.transfers.count == 1)
        #expect(decoder.decodes.value == 1)
    }

    @Test("values of two types, and calls of different policies, share a request; equal values are decoded once")
    func kinds() async throws {
        struct Count: Decodable, Sendable { var items: [[String: String]] }
        let decoder = CountingValueDecoder()
        let fresh = DataRequest(a).with(\.cachePolicy, .ignoreCache)
        let feed = test.cache.getValue(Feed.self, from: a, decoder: decoder)
        let newest = test.cache.getValue(Feed.self, from: fresh, decoder: decoder)
        let count = test.cache.slowGetValue(Count.self, from: a)
        let bytes = test.cache.getData(a)
        try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
        #expect(try await feed.value == .sample)
        #expect(try await newest.value == .sample)
        #expect(try await count.value.items.count == 2)
        #expect(try await bytes.value == Feed.sample.bytes)
        #expect(test.transport.transfers.count == 1)
        #expect(decoder.decodes.value == 1)
    }

    @Test("a failed fetch fails all calls; stored bytes that several calls cannot decode are fetched again once")
    func failures() async throws {
        let record = EventRecord()
        let test = TestCache {
            $0.retryPolicy = .never
            $0.eventSinks.append(record)
        }
        test.transport.script(a, [.status(404)])
        let refused = test.cache.getValue(Feed.self, from: a)
        let bytes = test.cache.getData(a)
        #expect(await refused.error == .status(404))
        #expect(await bytes.error == .status(404))

        let b = url("b")
        try test.cache.addData(Feed.broken, for: b)
        let decoder = CountingValueDecoder(isHeld: true)
        let feed = test.cache.getValue(Feed.self, from: b, decoder: decoder)
        let names = test.cache.getValue([String: [Feed.Item]].self, from: b, decoder: decoder)
        try await decoder.decodes.wait { $0 == 2 }
        @Sendable func joined(_ events: [CacheEvent]) -> Int {
            events.count { event in
                if case .callJoined = event.kind { event.key == CacheKey(b) } else { false }
            }
        }
        decoder.release(10)
        let transfer = try await test.transport.nextTransfer()
        // The second call that could not decode what was stored waits for the fetch of the first.
        try await record.wait { joined($0) == 2 }
        transfer.finish(with: Feed.sample.bytes)
        #expect(try await feed.value == .sample)
        #expect(try await names.value["items"]?.count == 2)
        #expect(test.transport.transfers(of: b).count == 1)
    }

    @Test("cancelling one call leaves the others; work ends with the last call", arguments: [1, 2])
    func cancelling(count: Int) async throws {
        let tasks = (0..<2).map { _ in test.cache.getValue(Feed.self, from: a) }
        let transfer = try await test.transport.nextTransfer()
        for task in tasks.prefix(count) {
            task.cancel()
            #expect(await task.error == .cancelled)
        }
        if count == 1 {
            transfer.finish(with: Feed.sample.bytes)
            #expect(try await tasks[1].value == .sample)
        } else {
            try await transfer.wait { $0.isCancelled }
            await test.cache.idle()
            #expect(test.cache.value(Feed.self, for: a) == nil)
        }
    }

    @Test("work has the queue of its most urgent call, while calls join, move and are cancelled")
    func urgency() async throws {
        let slow = test.cache.slowGetValue(Feed.self, from: a)
        let transfer = try await test.transport.nextTransfer()
        let fast = test.cache.getValue(Feed.self, from: a)
        try await transfer.wait { $0.queue == .fast }
        #expect(test.cache.queueCounts == QueueCounts(fastRunning: 1))
        fast.cancel()
        try await transfer.wait { $0.queue == .slow }
        let other = test.cache.getValue([String: [Feed.Item]].self, from: a)
        try await transfer.wait { $0.queue == .fast }
        test.cache.moveTaskToSlowQueue(a)
        try await transfer.wait { $0.queue == .slow }
        #expect(other.queue == .slow && slow.queue == .slow)
        transfer.finish(with: Feed.sample.bytes)
        #expect(try await slow.value == .sample)
        #expect(try await other.value["items"]?.count == 2)
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "a removal during the work lets its calls have the value, and keeps nothing of it for later calls",
        arguments: ["fetch", "decoding"], [CacheTiers.all, .memory])
    func removed(stage: String, tiers: CacheTiers) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let decoder = CountingValueDecoder(isHeld: true)
        func call() -> ValueTask<Feed> { test.cache.getValue(Feed.self, from: a, decoder: decoder) }
        func remove() { test.cache.removeData(for: a, from: tiers) }
        let early = call()
        let transfer = try await test.transport.nextTransfer()
        if stage == "fetch" { remove() }
        transfer.finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        if stage == "decoding" { remove() }
        decoder.release(10)
        #expect(try await early.value == .sample)
        await test.cache.idle()
        #expect(test.cache.valueMemorySize == 0)
        if tiers == .all {
            #expect(test.cache.data(for: a) == nil)
            let late = call()
            try await test.transport.nextTransfer().finish(with: Feed.empty.bytes)
            #expect(try await late.value == .empty)
        } else {
            // The bytes on disk hold.
            #expect(try await call().value == .sample)
        }
        #expect(decoder.decodes.value == 2)
    }

    @Test("bytes that are added during the work take the place of what it makes")
    func added() async throws {
        let decoder = CountingValueDecoder(isHeld: true)
        let early = test.cache.getValue(Feed.self, from: a, decoder: decoder)
        try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
        try await decoder.decodes.wait { $0 == 1 }
        try test.cache.addData(Feed.empty.bytes, for: a)
        decoder.release(10)
        _ = try await early.value
        await test.cache.idle()
        #expect(try await test.cache.getValue(Feed.self, from: a, decoder: decoder).value == .empty)
        #expect(test.cache.data(for: a) == Feed.empty.bytes)
    }

    @Test("calls for values are cancelled and moved by their URL, and with all others, at any stage")
    func cancelledByURL() async throws {
        for isAll in [false, true] {
            let decoder = CountingValueDecoder(isHeld: true)
            let test = TestCache()
            let task = test.cache.getValue(Feed.self, from: a, decoder: decoder)
            try await test.transport.nextTransfer().finish(with: Feed.sample.bytes)
            try await decoder.decodes.wait { $0 == 1 }
            if isAll { test.cache.cancelAll() } else { test.cache.cancel(a) }
            #expect(await task.error == .cancelled)
            decoder.release(1)
            await test.cache.idle()
            #expect(test.cache.valueMemorySize == 0)
        }
    }
}
