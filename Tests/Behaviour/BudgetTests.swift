import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("The memory that bodies of fetches may hold", .timeLimit(.minutes(2)))
struct BudgetTests {
    private static let whole = Data((0..<100).map { UInt8($0) })
    private static let waits = RetryPolicy.fixed(.seconds(3_600))
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100"]
    private func beginning(_ count: Int) -> TransferResponse {
        TransferResponse(headers: fields, body: Self.whole.prefix(count))
    }
    private func part(_ range: Range<Int>) -> TransferResponse {
        let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Range": "bytes \(range.lowerBound)-99/100"]
        return TransferResponse(status: 206, headers: fields, body: Self.whole[range])
    }

    /// Checks that the cache holds exactly `used` bytes: new transfers are held back when they bring the others.
    private func expect(_ used: Int, of limit: Int, in test: TestCache) async throws {
        let tasks = ["x", "y"].map { test.cache.getData(DataRequest(url($0)).with(\.cachePolicy, .bypass)) }
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        transfers[0].send(progress: limit - used - 1, of: nil)
        await tasks[0].receives(limit - used - 1)
        #expect(!transfers[1].isThrottled)
        transfers[1].send(progress: 1, of: nil)
        try await transfers[1].wait { $0.isThrottled }
        for transfer in transfers { transfer.finish(with: Data()) }
        for task in tasks { #expect(await task.error == nil) }
    }

    @Test("Beyond the limit one transfer goes on, the others pause and none begins, until a quarter is free")
    func inFlight() async throws {
        let test = TestCache { $0.inFlightLimit = 1_000 }
        let tasks = ["a", "b", "c"].map { test.cache.getData(url($0)) }
        var transfers: [ScriptedTransfer] = []
        for _ in 0..<3 { transfers.append(try await test.transport.nextTransfer()) }
        for transfer in transfers { transfer.send(progress: 300, of: 2_000) }
        #expect(transfers.allSatisfy { !$0.isThrottled })
        transfers[1].send(progress: 500, of: 2_000)
        for transfer in transfers[1...] { try await transfer.wait { $0.isThrottled } }
        #expect(!transfers[0].isThrottled)
        let waiting = test.cache.getData(url("d"))
        #expect(waiting.state == .waiting && tasks[1].state == .paused)
        // This body is larger than the whole budget.
        transfers[0].send(progress: 2_000, of: 2_000)
        transfers[0].finish(with: Data(count: 2_000))
        try await transfers[1].wait { !$0.isThrottled }
        #expect(transfers[2].isThrottled && test.transport.transfers.count == 3)
        transfers[1].finish(with: Data(count: 500))
        try await transfers[2].wait { !$0.isThrottled }
        try await test.transport.nextTransfer().fail(with: .rejected)
        transfers[2].finish(with: Data(count: 300))
        for task in tasks { #expect(await task.error == nil) }
        #expect(await waiting.error == .rejected)
        try await expect(0, of: 1_000, in: test)
    }

    @Test("An urgent transfer is the one that goes on, and prefetches are held back")
    func urgentGoesOn() async throws {
        let test = TestCache { $0.inFlightLimit = 1_000 }
        test.cache.slowGetData(url("s"))
        let slow = try await test.transport.nextTransfer()
        slow.send(progress: 900, of: 2_000)
        test.cache.getData(url("u"))
        let urgent = try await test.transport.nextTransfer()
        urgent.send(progress: 200, of: 2_000)
        try await slow.wait { $0.isThrottled }
        #expect(!urgent.isThrottled)
        urgent.finish(with: Data(count: 200))
        try await slow.wait { !$0.isThrottled }
        slow.finish(with: Data(count: 900))
        await test.cache.idle()
        try await expect(0, of: 1_000, in: test)
    }

    @Test("Calls that wait keep a quarter of the budget at most; further ones begin anew if nothing else keeps them")
    func parked() async throws {
        let test = TestCache { $0.inFlightLimit = 1_000 }
        let names = (0..<10).map { "\($0)" }
        var tasks: [DataTask] = []
        for name in names {
            tasks.append(test.cache.getData(DataRequest(url(name)).with(\.retryPolicy, Self.waits)))
            let transfer = try await test.transport.nextTransfer()
            transfer.send(progress: 60, of: 100)
            transfer.interrupt(with: beginning(60))
            try await tasks.last?.waitForFailures()
        }
        try await expect(240, of: 1_000, in: test)
        // An urgent call ends the wait of its fetch.
        for name in names {
            test.cache.getData(url(name))
            let transfer = try await test.transport.nextTransfer()
            #expect((transfer.request.headers["Range"] != nil) == (Int(name) ?? 9 < 4))
            transfer.finish(with: Self.whole, headers: fields)
        }
        await test.cache.idle()
        for task in tasks { #expect(try await task.value == Self.whole) }
        try await expect(0, of: 1_000, in: test)
    }

    @Test("A call that is cancelled while it waits gives back what it kept")
    func cancelled() async throws {
        let test = TestCache { $0.inFlightLimit = 400 }
        let parked = test.cache.getData(DataRequest(a).with(\.retryPolicy, Self.waits))
        try await test.transport.nextTransfer().interrupt(with: beginning(99))
        try await parked.waitForFailures()
        try await expect(99, of: 400, in: test)
        parked.cancel()
        #expect(await parked.error == .cancelled)
        try await expect(0, of: 400, in: test)
    }

    @Test("What a call has kept counts on while its next attempt adds to it, also if the server begins anew")
    func goesOn() async throws {
        let test = TestCache {
            $0.inFlightLimit = 1_000
            $0.retryPolicy = .fixed(.zero, retries: 5)
            $0.progressInterval = .zero
        }
        let task = test.cache.getData(a)
        try await test.transport.nextTransfer().interrupt(with: beginning(60))
        let continued = try await test.transport.nextTransfer()
        #expect(continued.request.offset == 60)
        continued.send(progress: 70, of: 100)
        await task.receives(70)
        try await expect(70, of: 1_000, in: test)
        continued.interrupt(with: part(60..<70))
        let anew = try await test.transport.nextTransfer()
        #expect(anew.request.offset == 70)
        // The server sends the whole: the bytes that are here are held beside it.
        anew.send(progress: 20, of: 100)
        await task.receives(20)
        try await expect(90, of: 1_000, in: test)
        anew.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.idle()
        try await expect(0, of: 1_000, in: test)
    }

    @Test(
        "A beginning for which there was no room is continued from disk, and fetched anew if it is kept nowhere",
        arguments: [true, false])
    func leftOnDisk(hasDisk: Bool) async throws {
        let test = TestCache(folder: hasDisk ? TemporaryFolder() : nil) {
            $0.inFlightLimit = 100
            $0.retryPolicy = .fixed(.zero, retries: 5)
        }
        test.transport.script(
            a,
            [
                .interrupted(beginning(60), .connectionLost),
                .response(hasDisk ? part(60..<100) : TransferResponse(body: Self.whole)),
            ])
        #expect(try await test.cache.getData(a).value == Self.whole)
        #expect(test.requests(a).map { $0["Range"] } == [nil, hasDisk ? "bytes=60-" : nil])
        await test.cache.idle()
        try await expect(0, of: 100, in: test)
    }
}
