import TestSupport
import Testing

@Suite("What was removed does not come back, also while work goes on", .timeLimit(.minutes(2)))
struct RemovalTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a")
    private let fields = Parts.fields.adding("Cache-Control", "max-age=50")
    private var beginning: TransferResponse { Parts.beginning(60, fields) }
    private var whole: TransferResponse { Parts.beginning(100, fields) }

    enum Removal: CaseIterable {
        case url, key, clear, invalidate, clearAfterCancel, urlAfterCancel

        var cancels: Bool { self == .clearAfterCancel || self == .urlAfterCancel }

        func apply(_ cache: DataCache, _ url: URL) {
            switch self {
            case .url: cache.removeData(for: url)
            case .key: cache.removeData(for: CacheKey(url))
            case .clear: cache.clear()
            case .invalidate: cache.invalidate(url)
            case .clearAfterCancel:
                cache.cancelAll()
                cache.clear()
            case .urlAfterCancel:
                cache.cancel(url)
                cache.removeData(for: url)
            }
        }
    }

    @Test(
        "An answer that was asked for before a removal takes nothing away that was added after it",
        arguments: [(50_000, [:]), (10, ["Cache-Control": "no-store"])] as [(Int, HTTPHeaders)])
    func addedMeanwhile(size: Int, fields: HTTPHeaders) async throws {
        let test = TestCache { $0.memoryLimit = 100_000 }
        let (task, transfer) = try await test.begin(a)
        test.cache.removeData(for: a)
        try test.cache.addData(Data("added".utf8), for: a)
        transfer.finish(with: Data(count: size), headers: fields)
        #expect(try await task.value.count == size)
        await test.cache.idle()
        #expect(test.cache.readData(for: a) == Data("added".utf8))
    }

    @Test("An entry is added to both tiers, and removed from those that are named, at once for readers")
    func fromTiers() async throws {
        let folder = TemporaryFolder()
        let cache = TestCache(folder: folder).cache
        try await cache.addDataAndWait(Data(count: 9_000), for: DataRequest(a))
        try await cache.addDataAndWait(Data("small".utf8), for: CacheKey(url("b")))
        #expect(cache.cachedSource(for: a) == .memory && cache.diskCount == 2 && cache.diskSize > 9_000)
        cache.removeData(for: a, from: .memory)
        #expect(cache.cachedSource(for: a) == .disk && cache.readData(for: a)?.count == 9_000)
        cache.removeData(for: DataRequest(a), from: .disk)
        #expect(cache.cachedSource(for: a) == .memory)
        cache.removeData(for: a, from: [])
        #expect(cache.hasData(for: a))
        for name in ["a", "b"] {
            cache.removeData(for: url(name))
            #expect(!cache.hasData(for: url(name)) && cache.readData(for: url(name)) == nil)
        }
        await cache.synchronize()
        #expect(cache.diskCount == 0 && cache.diskSize == 0 && cache.memoryCount == 0)
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs") })
    }

    // MARK: Fetches under way

    @Test(
        "what was asked for before a removal is handed out, and kept nowhere, nor is the beginning of a body",
        arguments: Removal.allCases,
        [(true, false, true), (true, true, true), (false, false, true), (false, false, false), (false, true, false)])
    func late(removal: Removal, answer: (isWhole: Bool, isLookedUp: Bool, hasFolder: Bool)) async throws {
        let (transport, shelf) = (LateTransport(), Shelf())
        let folder = answer.hasFolder ? TemporaryFolder() : nil
        let cache = cache(folder, transport, shelf)
        var request = DataRequest(a)
        // The disk is asked for another call only.
        if answer.isLookedUp { request.cachePolicy = .ignoreCache }
        let task = cache.getData(request)
        let transfer = try await transport.transfer(0)
        if answer.isLookedUp {
            #expect(await cache.getData(DataRequest(a).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        }
        removal.apply(cache, a)
        _ = cache.queueCounts  // waits for what was asked so far
        #expect(transfer.isCancelled == removal.cancels)
        if !answer.isWhole { transfer.receive(.interrupted(beginning)) }
        transfer.receive(.finished(answer.isWhole ? .success(whole) : .failure(.connectionLost)))
        let expected: DipperError? = removal.cancels ? .cancelled : answer.isWhole ? nil : .connectionLost
        #expect(await task.error == expected)
        if expected == nil { #expect(try await task.value == Parts.whole) }
        #expect(!cache.hasData(for: a))
        await cache.idle()
        #expect(!cache.hasData(for: a) && cache.diskCount == 0 && shelf.records.value.isEmpty)
        let again = cache.getData(a)
        let second = try await transport.transfer(1)
        #expect(second.request.headers["Range"] == nil)
        second.receive(.finished(.success(whole)))
        #expect(try await again.value == Parts.whole)
        await cache.idle()
        #expect(cache.hasData(for: a) && shelf.records.value.count == 1)
    }

    @Test(
        "A retry after a removal begins anew, and is kept, whether the beginning was in memory or on disk",
        arguments: [1_000, 100], [false, true])
    func retry(limit: Int, isLookedUp: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.inFlightLimit = limit }
        let (task, first) = try await test.begin(
            DataRequest(a).with(\.cachePolicy, .ignoreCache).with(\.retryPolicy, .fixed(.seconds(10))))
        first.interrupt(with: beginning)
        try await task.waitForFailures()
        if isLookedUp {
            // An urgent call would end the wait.
            let look = test.cache.slowGetData(DataRequest(a).with(\.cachePolicy, .cacheOnly))
            #expect(await look.error == .notCached)
            test.cache.removeData(for: a)
        } else {
            test.cache.clear()
        }
        let next = try await test.nextTransfer(after: .seconds(10))
        #expect(next.request.headers["Range"] == nil)
        next.finish(with: Parts.whole, headers: fields)
        #expect(try await task.value == Parts.whole)
        #expect(test.cache.hasData(for: a))
    }

    @Test(
        "A call after a removal asks anew, and does not join a transfer that began before",
        arguments: Removal.allCases.filter { !$0.cancels })
    func callAfterRemoval(removal: Removal) async throws {
        let (old, first) = try await test.begin(a)
        removal.apply(test.cache, a)
        let new = test.cache.getData(a)
        let joined = test.cache.slowGetData(a)
        try await test.transport.nextTransfer().finish(with: Data("new".utf8), headers: ["Cache-Control": "max-age=50"])
        #expect(try await new.value == Data("new".utf8))
        #expect(try await joined.value == Data("new".utf8))
        first.finish(with: Data("old".utf8), headers: ["Cache-Control": "max-age=50"])
        #expect(try await old.value == Data("old".utf8))
        await test.cache.idle()
        #expect(test.cache.readData(for: a) == Data("new".utf8))
        #expect(test.transport.transfers.count == 2)
    }

    @Test("a call after a removal from one tier, or of what has not been asked for, joins")
    func joinsAfterRemoval() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.fastQueue.maxConcurrent = 1 }
        let b = url("b")
        let (running, first) = try await test.begin(a)
        let queued = test.cache.getData(b)
        // The disk has been asked for it.
        #expect(await test.cache.getData(DataRequest(b).with(\.cachePolicy, .cacheOnly)).error == .notCached)
        test.cache.removeData(for: a, from: .memory)
        test.cache.removeData(for: b)
        let others = [test.cache.getData(a), test.cache.getData(b)]
        first.finish(with: Data("a".utf8))
        let second = try await test.transport.nextTransfer()
        let late = test.cache.getData(b)
        _ = test.cache.queueCounts
        second.finish(with: Data("b".utf8), headers: fields)
        for task in [running, queued, late] + others { #expect(await task.error == nil) }
        await test.cache.idle()
        #expect(test.transport.transfers.count == 2)
        #expect(test.cache.readData(for: b) == Data("b".utf8), "what was asked for after the removal is kept")
    }

    @Test("A call after a removal is not answered by a look at the disk that began before")
    func lookUpAfterRemoval() async throws {
        let door = Door()
        let test = TestCache(folder: TemporaryFolder()) {
            $0.fastQueue.maxConcurrent = 1
            $0.recordCodec = WatchedCodec(onRead: door.pass)
        }
        try await test.cache.addDataAndWait(Data("removed".utf8), for: DataRequest(a))
        test.cache.clearMemory()
        let (running, first) = try await test.begin(url("b"))
        // It waits for the network, and the disk is asked for another call only.
        let queued = test.cache.getRemoteData(a)
        let old = test.cache.getData(a)
        try await door.waitForArrivals(1)
        test.cache.removeData(for: a)
        let new = test.cache.getData(a)
        _ = test.cache.queueCounts
        door.stayOpen()
        _ = await old.result
        first.finish(with: Data())
        #expect(await running.error == nil)
        try await test.whileServing({ _ in .text("new") }) {
            let data = try await new.value
            #expect(data == Data("new".utf8))
            #expect(await queued.error == nil)
        }
    }

    @Test("What concerns a URL concerns also its fetch from before a removal: moving, cancelling, being idle")
    func outdatedFetch() async throws {
        let test = TestCache()
        let (old, first) = try await test.begin(a)
        test.cache.removeData(for: a)
        let (new, second) = try await test.begin(a)
        test.cache.moveTaskToSlowQueue(a)
        #expect(old.queue == .slow && new.queue == .slow)
        second.finish(with: Data())
        #expect(await new.error == nil)
        #expect(test.cache.queueCounts.slowRunning == 1)
        test.cache.cancel(a)
        #expect(await old.error == .cancelled)
        #expect(first.isCancelled)
        await test.cache.idle()
        #expect(test.cache.queueCounts.slowRunning == 0)
    }

    @Test(
        "the beginning that an aborted fetch leaves does not outlive the whole entry",
        arguments: [true, false], [true, false])
    func partialAfterWhole(isLate: Bool, hasFolder: Bool) async throws {
        let (folder, transport) = (hasFolder ? TemporaryFolder() : nil, LateTransport())
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
        _ = cache.queueCounts  // waits for what was told so far
        await cache.synchronize()
        #expect(cache.hasData(for: a))
        // A trim takes entries alone.
        if !hasFolder { cache.trimMemory(to: 0) }
        let third = hasFolder ? cache.getRemoteData(a) : cache.getData(a)
        let last = try await transport.transfer(2)
        #expect(last.request.headers["Range"] == nil)
        last.receive(.finished(.success(whole)))
        _ = try await third.value
    }

    @Test("bytes that were removed are not kept again because the server confirms them")
    func confirmedAfterRemoval() async throws {
        let first = test.cache.getData(a)
        try await test.transport.nextTransfer().finish(with: Parts.whole, headers: fields)
        _ = try await first.value
        test.date.advance(by: 60)
        let (task, transfer) = try await test.begin(a)
        #expect(transfer.request.headers["If-None-Match"] == "\"v\"")
        test.cache.removeData(for: a)
        transfer.finish(with: Data(), status: 304, headers: ["ETag": "\"v\""])
        #expect(try await task.value == Parts.whole)
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a))
    }

    @Test(
        "removed from memory alone, what is being fetched comes to disk alone; and the other way round",
        arguments: [(CacheTiers.memory, ResponseSource.disk), (.disk, .memory)])
    func byTier(tier: CacheTiers, left: ResponseSource) async throws {
        let (task, transfer) = try await test.begin(a)
        test.cache.removeData(for: a, from: tier)
        transfer.finish(with: Parts.whole, headers: fields)
        _ = try await task.value
        await test.cache.synchronize()
        #expect(test.cache.cachedSource(for: a) == left)
        #expect(test.cache.diskCount == (left == .disk ? 1 : 0))
    }

    @Test("a read that is under way does not bring back what is removed", arguments: 0..<3)
    func readUnderWay(way: Int) async throws {
        let cache = test.cache
        for round in 0..<40 {
            try await cache.addDataAndWait(Data(count: 9_000), for: CacheKey(a))
            cache.clearMemory()
            test.date.advance(by: 10)
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = cache.readData(for: url("a")) }
                group.addTask {
                    switch way {
                    case 0: cache.removeData(for: url("a"))
                    case 1: cache.clear()
                    default: cache.flush(olderThan: .seconds(5))
                    }
                }
            }
            #expect(cache.readData(for: a) == nil && cache.memoryCount == 0, "\(round)")
        }
        await cache.synchronize()
        #expect(cache.diskCount == 0)
    }

    @Test("A clear that removes what held everything up on its way to disk lets new calls go on")
    func clearEndsBacklog() async throws {
        let codec = StalledCodec()
        let test = TestCache(folder: TemporaryFolder()) {
            $0.stagingLimit = 10_000
            $0.recordCodec = codec
        }
        try test.cache.addData(Data(count: 5_000), for: "first")
        try await codec.arrivals.wait { $0 == 1 }
        for number in 0..<6 { try test.cache.addData(Data(count: 5_000), for: CacheKey("\(number)")) }
        let task = test.cache.getData(DataRequest(a).with(\.cachePolicy, .memoryOnly))
        #expect(task.state == .waiting && test.transport.transfers.isEmpty)
        test.cache.clear()
        try await test.transport.nextTransfer().finish(with: Parts.whole)
        #expect(try await task.value == Parts.whole)
        codec.door.stayOpen()
        await test.cache.shutdown()
    }

    @Test("calls may end while all that belongs to their URL is removed on another thread")
    func endingMeanwhile() async {
        await #expect(processExitsWith: .success) {
            let test = TestCache()
            test.cache.fastQueue.isSuspended = true
            let haveEnded = Box(false)
            await withTaskGroup { group in
                group.addTask { while !haveEnded.value { test.cache.removeData(for: url("a")) } }
                for _ in 0..<10_000 { test.cache.getData(url("a")).cancel() }
                haveEnded.update { $0 = true }
            }
            await test.cache.shutdown()
        }
    }

    private func cache(_ folder: TemporaryFolder?, _ transport: LateTransport, _ shelf: Shelf...) -> DataCache {
        TestCache(folder: folder) {
            $0.transport = transport
            $0.retryPolicy = .never
            $0.tiers = shelf
        }.cache
    }
}

/// A transport whose events arrive after their transfers were cancelled, as events already on their way do.
private final class LateTransport: Transport {
    struct Started: Transfer {
        let request: TransferRequest
        let receive: @Sendable (TransferEvent) -> Void
        let cancelled = Box(false)
        var isCancelled: Bool { cancelled.value }

        func cancel() { cancelled.update { $0 = true } }
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

    func transfer(_ number: Int) async throws -> Started {
        try await started.wait(until: { $0.count > number }, orFail: { "\($0.count) transfers began" })
        return started.value[number]
    }

    func shutdown() async {}
}
