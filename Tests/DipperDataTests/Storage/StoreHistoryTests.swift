import DipperTesting
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What was removed does not come back", .timeLimit(.minutes(5)))
struct StoreHistoryTests {
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]
    private var beginning: TransferResponse { TransferResponse(headers: fields, body: Data(count: 40)) }

    // MARK: Flushing

    @Test("a read that was under way does not bring back what is flushed, nor does one that comes after")
    func readDuringFlush() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let disk = try #require(test.cache.store.disk)
        for round in 0..<20 {
            let key = CacheKey("\(round)")
            try await test.cache.addDataAndWait(Data(count: 9_000), for: key)
            test.cache.clearMemory()
            test.date.advance(by: 10)
            let before = test.cache.store.memory.changes(of: key)
            let record = try #require(disk.entry(for: key))
            let stall = DispatchSemaphore(value: 0)
            disk.writer.run { stall.wait() }
            test.cache.flush(olderThan: .seconds(5))
            // The read ends only now.
            test.cache.store.memory.insert(
                record.value, for: key, cost: 1, lifetime: .forever, permit: Permit(record.value.info),
                unlessChangedSince: round % 2 == 0 ? nil : before)
            #expect(test.cache.data(for: key) == nil && !test.cache.hasData(for: key))
            #expect(test.cache.entry(for: key) == nil && test.cache.file(for: key) == nil)
            var listed: [CacheKey] = []
            test.cache.forEachEntry { listed.append($0.key) }
            #expect(!listed.contains(key))
            #expect(test.cache.memoryCount == 0)
            stall.signal()
        }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("what was made of an entry that was flushed meanwhile is not kept")
    func derivedDuringFlush() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let request = DataRequest(a)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: request)
        let info = try #require(test.cache.response(for: a)).info
        let objects = test.cache.makeObjectTier(limit: 1 << 20, count: nil)
        let derived = CacheKey(verbatim: "\(a)\n#round")
        #expect(test.cache.store.history.admits(info))
        test.date.advance(by: 10)
        test.cache.flush(olderThan: .seconds(5))
        #expect(!test.cache.store.history.admits(info))
        let told = Box(0)
        DataCacheSource(test.cache).keep(Data(count: 9), for: derived, madeOf: info, digest: 1, request) {
            if !$0 { told.update { $0 += 1 } }
        }
        objects.insert(.init(Thing(), info), for: derived, cost: 1, lifetime: .forever)
        #expect(told.value == 1 && !test.cache.hasData(for: derived) && !objects.contains(derived))
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("entries that are kept after a flush are there, also when the clock has been set back in between")
    func afterFlush() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.cache.flush(olderThan: .zero)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "now")
        test.date.advance(by: -1_000)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "before")
        test.cache.clearMemory()
        #expect(test.cache.hasData(for: "before"))
        test.date.advance(by: 2_000)
        test.cache.clearMemory()
        #expect(test.cache.hasData(for: "now") && test.cache.hasData(for: "before"))
        await test.cache.shutdown()
    }

    @Test("the beginning of a body goes with a flush")
    func partialDuringFlush() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.retryPolicy = .never }
        test.transport.script(a, [.interrupted(beginning, .connectionLost)])
        _ = await test.cache.getData(a).error
        let disk = try #require(test.cache.store.disk)
        await test.cache.synchronize()
        #expect(disk.partial(of: CacheKey(a)) != nil)
        test.date.advance(by: 10)
        let stall = DispatchSemaphore(value: 0)
        disk.writer.run { stall.wait() }
        test.cache.flush(olderThan: .seconds(5))
        #expect(disk.partial(of: CacheKey(a)) == nil)
        stall.signal()
        await test.cache.shutdown()
    }

    // MARK: Clearing and removing

    enum Removal: CaseIterable { case clear, remove, invalidate, clearAfterCancel, removeAfterCancel }

    private func remove(_ removal: Removal, _ test: TestCache) {
        switch removal {
        case .clear: test.cache.clear()
        case .remove: test.cache.removeData(for: a)
        case .invalidate: test.cache.invalidate(a)
        case .clearAfterCancel:
            test.cache.cancelAll()
            test.cache.clear()
        case .removeAfterCancel:
            test.cache.cancel(a)
            test.cache.removeData(for: a)
        }
    }

    @Test("what was asked for before a removal is handed out, and not kept", arguments: Removal.allCases)
    func lateAnswer(removal: Removal) async throws {
        let folder = TemporaryFolder()
        let transport = LateTransport()
        let test = TestCache(folder: folder) { $0.transport = transport }
        let task = test.cache.getData(a)
        let transfer = try await transport.transfer(0)
        remove(removal, test)
        transfer.receive(.finished(.success(TransferResponse(headers: fields, body: Data(count: 100)))))
        switch removal {
        case .clear, .remove, .invalidate: #expect(try await task.value.count == 100)
        case .clearAfterCancel, .removeAfterCancel: #expect(await task.error == .cancelled)
        }
        #expect(!test.cache.hasData(for: a))
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a) && test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("the beginning of a body that comes after a removal is not kept", arguments: Removal.allCases)
    func latePartial(removal: Removal) async throws {
        let folder = TemporaryFolder()
        let transport = LateTransport()
        let test = TestCache(folder: folder) {
            $0.transport = transport
            $0.retryPolicy = .never
        }
        let task = test.cache.getData(a)
        let transfer = try await transport.transfer(0)
        remove(removal, test)
        transfer.receive(.interrupted(beginning))
        transfer.receive(.finished(.failure(.connectionLost)))
        _ = await task.error
        await test.cache.synchronize()
        #expect(folder.files.allSatisfy { !$0.hasPrefix("partial/") })
        #expect(test.cache.store.disk?.partial(of: CacheKey(a)) == nil)
        await test.cache.shutdown()
    }

    @Test("bytes that were removed are not kept again because the server confirms them")
    func confirmedAfterRemoval() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        test.transport.script(a, [.text("old", ["ETag": "\"1\"", "Cache-Control": "max-age=10"])])
        _ = try await test.ask(a)
        test.date.advance(by: 20)
        test.transport.script(a, [.silence])
        let task = test.cache.getData(a)
        #expect(await settle { test.requests(a).count == 2 })
        #expect(test.requests(a)[1]["If-None-Match"] != nil)
        test.cache.removeData(for: a)
        test.transport.transfers(of: a)[1].finish(with: Data(), status: 304, headers: ["ETag": "\"1\""])
        #expect(try await task.value == Data("old".utf8))
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a retry after a removal begins anew, and is kept")
    func retryAfterRemoval() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.retryPolicy = .fixed(.seconds(1), retries: 5) }
        test.transport.script(
            a, [.interrupted(beginning, .connectionLost), .response(.init(headers: fields, body: Data(count: 100)))])
        let task = test.cache.getData(a)
        // It waits for its next attempt.
        try await test.clock.waitForSleepers(1)
        test.cache.clear()
        test.clock.advance(by: .seconds(2))
        #expect(try await task.value.count == 100)
        #expect(test.requests(a).count == 2 && test.requests(a)[1]["Range"] == nil)
        #expect(test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("removed from memory alone, what is being fetched comes to disk alone; and the other way round")
    func byTier() async throws {
        for (tier, left) in [(CacheTiers.memory, ResponseSource.disk), (.disk, .memory)] {
            let folder = TemporaryFolder()
            let test = TestCache(folder: folder)
            let task = test.cache.getData(a)
            let transfer = try await test.transport.nextTransfer()
            test.cache.removeData(for: a, from: tier)
            transfer.finish(with: Data(count: 100), headers: fields)
            _ = try await task.value
            await test.cache.synchronize()
            #expect(test.cache.cachedSource(for: a) == left)
            #expect(test.cache.diskCount == (left == .disk ? 1 : 0))
            await test.cache.shutdown()
        }
    }

    @Test("what was made of an entry is not kept after everything was cleared")
    func derivedDuringClear() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: DataRequest(a))
        for isFromDisk in [false, true] {
            try await test.cache.addDataAndWait(Data(count: 9_000), for: DataRequest(a))
            if isFromDisk { test.cache.clearMemory() }
            let info = try #require(test.cache.response(for: a)).info
            test.cache.clear()
            let derived = CacheKey(verbatim: "\(a)\n#round")
            DataCacheSource(test.cache).keep(
                Data(count: 9), for: derived, madeOf: info, digest: 1, DataRequest(a), whenWritten: nil)
            #expect(!test.cache.hasData(for: derived))
        }
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
    }

    @Test("no entry is listed once everything has been cleared, though the files are still there")
    func listDuringClear() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        for number in 0..<10 {
            try await test.cache.addDataAndWait(Data(count: number * 900), for: CacheKey("\(number)"))
        }
        let stall = DispatchSemaphore(value: 0)
        try #require(test.cache.store.disk).writer.run { stall.wait() }
        test.cache.removeData(for: CacheKey("9"))
        var listed = 0
        test.cache.forEachEntry { _ in listed += 1 }
        #expect(listed == 9 && test.cache.entry(for: "9") == nil && test.cache.file(for: "9") == nil)
        test.cache.clear()
        test.cache.forEachEntry { _ in listed += 1 }
        #expect(listed == 9 && test.cache.entry(for: "8") == nil && test.cache.file(for: "8") == nil)
        stall.signal()
        await test.cache.shutdown()
    }

    // MARK: Newer entries

    @Test(
        "the beginning of a body that an aborted fetch leaves does not outlive the whole entry",
        arguments: [true, false])
    func partialAfterWhole(isLate: Bool) async throws {
        let folder = TemporaryFolder()
        let transport = LateTransport()
        let test = TestCache(folder: folder) { $0.transport = transport }
        let task = test.cache.getData(a)
        let transfer = try await transport.transfer(0)
        task.cancel()
        if !isLate { transfer.receive(.interrupted(beginning)) }
        let again = test.cache.getRemoteData(a)
        try await transport.transfer(1).receive(
            .finished(.success(TransferResponse(headers: fields, body: Data(count: 100)))))
        _ = try await again.value
        if isLate { transfer.receive(.interrupted(beginning)) }
        transfer.receive(.finished(.failure(.cancelled)))
        await test.cache.synchronize()
        #expect(test.cache.store.disk?.partial(of: CacheKey(a)) == nil)
        #expect(folder.files.allSatisfy { !$0.hasPrefix("partial/") })
        #expect(test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a version too large for memory is not followed there by the one it replaces on disk")
    func oversize() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.memoryLimit = 100_000 }
        try await test.cache.addDataAndWait(Data(count: 5_000), for: CacheKey(a))
        let cache = test.cache
        for round in 0..<200 {
            cache.clearMemory()
            let size = round % 2 == 0 ? 50_000 : 5_000
            await withTaskGroup(of: Void.self) { group in
                group.addTask { for _ in 0..<20 { _ = cache.data(for: url("a")) } }
                group.addTask { try? cache.addData(Data(count: size), for: url("a")) }
            }
            #expect(cache.data(for: a)?.count == size)
        }
        await test.cache.shutdown()
    }

    @Test("when an entry comes to memory it is on disk already, or on its way there")
    func diskFirst() async throws {
        let disk = Box<DiskTier?>(nil)
        let found = Box<[Bool]>([])
        let test = TestCache(folder: TemporaryFolder()) { configuration in
            configuration.memoryCountLimit = 1
            configuration.observe { event in
                // Told by the thread that has just put another entry in its place.
                guard case .cleaned(let cleaning) = event.kind, cleaning.tier == .memory else { return }
                found.update { $0.append(disk.value?.entry(for: "new") != nil) }
            }
        }
        disk.update { $0 = test.cache.store.disk }
        try test.cache.addData(Data(count: 10), for: "old")
        try test.cache.addData(Data(count: 10), for: "new")
        #expect(found.value == [true])
        await test.cache.shutdown()
    }

    // MARK: Claims

    @Test("a claim is lost with the removals that concern it, and leaves nothing behind")
    func claims() {
        let history = StoreHistory()
        var claim: Claim? = history.claim("a")
        let other = history.claim("b")
        history.remove("a", from: .memory)
        #expect(claim?.allows(.memory) == false && claim?.allows(.disk) == true && claim?.allowsPartial == true)
        history.supersede("a")
        #expect(claim?.allows(.disk) == true && claim?.allowsPartial == false)
        history.remove("a", from: .disk)
        #expect(claim?.allows(.disk) == false && other.allows(.all) && other.allowsPartial)
        let later = history.claim("a")
        #expect(!later.isRevoked)
        history.clear()
        #expect(!other.allows(.memory) && later.isRevoked && !history.claim("a").isRevoked)
        claim = nil
        #expect(!history.admits(EntryInfo(url: "", stored: 0, begun: later.begun)))
        #expect(history.admits(EntryInfo(url: "", stored: 0)))
    }
}

/// A transport whose events arrive after their transfers were cancelled, as events already on their way do.
private final class LateTransport: Transport {
    struct Started: Transfer {
        let receive: @Sendable (TransferEvent) -> Void
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
    }

    private let started = Box<[Started]>([])

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let transfer = Started(receive: receive)
        started.update { $0.append(transfer) }
        return transfer
    }

    /// The transfers in the order they were started.
    func transfer(_ number: Int) async throws -> Started {
        #expect(await settle { started.value.count > number })
        return try #require(started.value.dropFirst(number).first)
    }

    func shutdown() async {}
}

private final class Thing: Sendable {}
