import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension DataCacheTests {
    // MARK: Ends

    @Test("each call to a cache that has been shut down ends with its own error")
    func afterShutdown() async {
        let test = TestCache()
        let waiting = test.cache.getData(url("a"))
        let queued = test.cache.slowGetData(url("b"))
        await test.cache.shutdown()
        #expect(await waiting.error == .cancelled)
        #expect(await queued.error == .cancelled)
        #expect(await test.cache.getData(url("c")).error == .shutDown)
        await test.cache.shutdown()
    }

    @Test("letting go of the cache ends its tasks")
    func letGo() async {
        let transport = ScriptedTransport()
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        var cache: DataCache? = DataCache(configuration)
        let task = cache!.getData(url("a"))
        cache = nil
        #expect(await task.error == .cancelled)
    }

    @Test("cancel ends one call; the last one stops the transfer")
    func cancel() async throws {
        let test = TestCache()
        let one = test.cache.getData(url("a"))
        let other = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        one.cancel()
        #expect(await one.error == .cancelled)
        #expect(!transfer.isCancelled)
        other.cancel()
        other.cancel()
        #expect(await other.error == .cancelled)
        #expect(await settle { transfer.isCancelled })
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("cancel by URL and cancel all end every call")
    func cancelMany() async {
        let test = TestCache()
        let a = [test.cache.getData(url("a")), test.cache.slowGetData(url("a"))]
        let b = test.cache.getData(url("b"))
        test.cache.cancel(url("a"))
        for task in a { #expect(await task.error == .cancelled) }
        #expect(b.state == .transferring)
        test.cache.cancelAll()
        #expect(await b.error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("cancelling the Swift task that awaits cancels the call")
    func cancelAwaiting() async throws {
        let test = TestCache()
        let task = test.cache.getData(url("a"))
        let transfer = try await test.transport.nextTransfer()
        let waiter = Task { await task.error }
        waiter.cancel()
        #expect(await waiter.value == .cancelled)
        #expect(await settle { transfer.isCancelled })
        await test.cache.shutdown()
    }

    @Test("a cache with a folder is let go of as a whole after its shutdown")
    func noLeak() async throws {
        let folder = TemporaryFolder()
        weak let engine: FetchEngine?
        weak let disk: DiskTier?
        do {
            let test = TestCache(folder: folder)
            test.transport.script(url("a"), [.body(bytes)])
            _ = try await test.cache.getData(DataRequest(url("a")).with(\.timeout, .seconds(600))).value
            engine = test.cache.engine
            disk = test.cache.store.disk
            await test.cache.shutdown()
        }
        // The cache's threads release what they had in their hands as they end.
        #expect(await settle { engine == nil && disk == nil })
    }

    @Test("nothing keeps what was fetched: no time limit, and no transfer that ended before it was known")
    func timeLimitLetsGo() async throws {
        var configuration = DataCache.Configuration()
        configuration.transport = InstantTransport()
        let cache = DataCache(configuration)
        weak let call: Call?
        do {
            let task = cache.getData(DataRequest(url("a")).with(\.timeout, .seconds(600)))
            _ = try await task.value
            call = task.call
        }
        #expect(call == nil)
        await cache.shutdown()
    }

    @Test("those who wait for the disk are each answered once, whatever replaces or clears their entry")
    func waitingForDisk() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let answered = Box(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                group.addTask {
                    try await test.cache.addDataAndWait(Data(count: number * 10), for: "one")
                    answered.update { $0 += 1 }
                    if number % 20 == 0 { test.cache.clear() }
                }
            }
            try await group.waitForAll()
        }
        #expect(answered.value == 300)
        // Whoever is answered has it on disk, where nothing replaces it.
        try await test.cache.addDataAndWait(bytes, for: "last")
        test.cache.clearMemory()
        #expect(test.cache.diskCount >= 1 && test.cache.data(for: "last") == bytes)
        await test.cache.shutdown()
        for _ in 0..<3 {
            await #expect(throws: DipperError.shutDown) { try await test.cache.addDataAndWait(bytes, for: "late") }
        }
    }

    @Test("what was read from disk does not take the place of what came meanwhile")
    func staleRead() {
        let tier = MemoryTier<Int>(limits: .init(cost: 1_000, count: nil), now: { Date() })
        let before = tier.changes(of: "a")
        tier.insert(2, for: "a", cost: 1, lifetime: .forever)
        tier.insert(1, for: "a", cost: 1, lifetime: .forever, unlessChangedSince: before)
        #expect(tier.value(for: "a") == 2)
        let between = tier.changes(of: "a")
        tier.remove("a")
        tier.insert(2, for: "a", cost: 1, lifetime: .forever, unlessChangedSince: between)
        #expect(tier.value(for: "a") == nil)
        let last = tier.changes(of: "a")
        tier.removeAll()
        tier.insert(2, for: "a", cost: 1, lifetime: .forever, unlessChangedSince: last)
        #expect(tier.value(for: "a") == nil)
        #expect(tier.totalCost == 0)
    }
}
