import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("What was removed does not come back", .timeLimit(.minutes(2)))
struct RemovedEntryTests {
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]
    private var beginning: TransferResponse { TransferResponse(headers: fields, body: Data(count: 40)) }
    private var whole: TransferResponse { TransferResponse(headers: fields, body: Data(count: 100)) }

    enum Removal: CaseIterable { case clear, remove, invalidate, clearAfterCancel, removeAfterCancel }

    private func remove(_ removal: Removal, _ cache: DataCache) {
        switch removal {
        case .clear: cache.clear()
        case .remove: cache.removeData(for: a)
        case .invalidate: cache.invalidate(a)
        case .clearAfterCancel:
            cache.cancelAll()
            cache.clear()
        case .removeAfterCancel:
            cache.cancel(a)
            cache.removeData(for: a)
        }
    }

    private func cache(_ folder: TemporaryFolder, _ transport: LateTransport) -> DataCache {
        TestCache(folder: folder) {
            $0.transport = transport
            $0.retryPolicy = .never
        }.cache
    }

    @Test(
        "what was asked for before a removal is handed out, and not kept, nor the beginning of a body",
        arguments: Removal.allCases, [true, false])
    func late(removal: Removal, isWhole: Bool) async throws {
        let (folder, transport) = (TemporaryFolder(), LateTransport())
        let cache = cache(folder, transport)
        let task = cache.getData(a)
        let transfer = try await transport.transfer(0)
        remove(removal, cache)
        if !isWhole { transfer.receive(.interrupted(beginning)) }
        transfer.receive(.finished(isWhole ? .success(whole) : .failure(.connectionLost)))
        switch removal {
        case .clear, .remove, .invalidate: #expect(await task.error == (isWhole ? nil : .connectionLost))
        case .clearAfterCancel, .removeAfterCancel: #expect(await task.error == .cancelled)
        }
        #expect(!cache.hasData(for: a))
        await cache.synchronize()
        #expect(!cache.hasData(for: a) && cache.diskCount == 0)
        let again = cache.getData(a)
        let second = try await transport.transfer(1)
        #expect(second.request.headers["Range"] == nil)
        second.receive(.finished(.success(whole)))
        #expect(try await again.value.count == 100)
        await cache.shutdown()
    }

    @Test("the beginning that an aborted fetch leaves does not outlive the whole entry", arguments: [true, false])
    func partialAfterWhole(isLate: Bool) async throws {
        let (folder, transport) = (TemporaryFolder(), LateTransport())
        let cache = cache(folder, transport)
        let task = cache.getData(a)
        let transfer = try await transport.transfer(0)
        task.cancel()
        if !isLate { transfer.receive(.interrupted(beginning)) }
        let again = cache.getRemoteData(a)
        try await transport.transfer(1).receive(.finished(.success(whole)))
        _ = try await again.value
        if isLate { transfer.receive(.interrupted(beginning)) }
        transfer.receive(.finished(.failure(.cancelled)))
        await cache.synchronize()
        #expect(cache.hasData(for: a))
        let third = cache.getRemoteData(a)
        let last = try await transport.transfer(2)
        #expect(last.request.headers["Range"] == nil)
        last.receive(.finished(.success(whole)))
        _ = try await third.value
        await cache.shutdown()
    }

    @Test("bytes that were removed are not kept again because the server confirms them")
    func confirmedAfterRemoval() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        let answer = TransferResponse(headers: fields, body: Data("old".utf8))
        test.transport.script(a, [.response(answer), .silence])
        _ = try await test.cache.getData(a).value
        test.date.advance(by: 20)
        let task = test.cache.getData(a)
        try await test.transport.waitForTransfers(2)
        let transfer = try #require(test.transport.transfers.last)
        #expect(transfer.request.headers["If-None-Match"] == "\"1\"")
        test.cache.removeData(for: a)
        transfer.finish(with: Data(), status: 304, headers: ["ETag": "\"1\""])
        #expect(try await task.value == Data("old".utf8))
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("a retry after a removal begins anew, and is kept")
    func retryAfterRemoval() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.retryPolicy = .fixed(.seconds(1), retries: 5) }
        test.transport.script(a, [.interrupted(beginning, .connectionLost), .response(whole)])
        let task = test.cache.getData(a)
        // It waits for its next attempt.
        try await test.clock.waitForSleepers(1)
        test.cache.clear()
        test.clock.advance(by: .seconds(2))
        #expect(try await task.value.count == 100)
        let requests = test.transport.transfers(of: a)
        #expect(requests.count == 2 && requests[1].request.headers["Range"] == nil)
        #expect(test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("removed from memory alone, what is being fetched comes to disk alone; and the other way round")
    func byTier() async throws {
        for (tier, left) in [(CacheTiers.memory, ResponseSource.disk), (.disk, .memory)] {
            let test = TestCache(folder: TemporaryFolder())
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

    @Test("a read that is under way does not bring back what is removed", arguments: 0..<3)
    func readUnderWay(way: Int) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let cache = test.cache
        for round in 0..<40 {
            try await cache.addDataAndWait(Data(count: 9_000), for: CacheKey(a))
            cache.clearMemory()
            test.date.advance(by: 10)
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = cache.data(for: url("a")) }
                group.addTask {
                    switch way {
                    case 0: cache.removeData(for: url("a"))
                    case 1: cache.clear()
                    default: cache.flush(olderThan: .seconds(5))
                    }
                }
            }
            #expect(cache.data(for: a) == nil && cache.memoryCount == 0, "\(round)")
        }
        await cache.synchronize()
        #expect(cache.diskCount == 0)
        await cache.shutdown()
    }
}

/// A transport whose events arrive after their transfers were cancelled, as events already on their way do.
private final class LateTransport: Transport {
    struct Started: Transfer {
        let request: TransferRequest
        let receive: @Sendable (TransferEvent) -> Void
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
    }

    private let started = Box<[Started]>([])

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let transfer = Started(request: request, receive: receive)
        started.update { $0.append(transfer) }
        return transfer
    }

    /// Returns a transfer by its number in the order of their starts, as soon as it has begun.
    func transfer(_ number: Int) async throws -> Started {
        try await started.wait(until: { $0.count > number }, orFail: { "\($0.count) transfers began" })
        return started.value[number]
    }

    func shutdown() async {}
}
