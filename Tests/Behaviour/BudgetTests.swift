import TestSupport
import Testing

@Suite("The memory that bodies of fetches may hold", .timeLimit(.minutes(2)))
struct BudgetTests {
    private static let waits = RetryPolicy.fixed(.seconds(3_600))
    private let a = url("a")

    private func open(_ limit: Int, onDisk: Bool = false) -> TestCache {
        TestCache(folder: onDisk ? TemporaryFolder() : nil) {
            $0.inFlightLimit = limit
            $0.retryPolicy = .fixed(.zero, retries: 5)
            $0.progressInterval = .zero
        }
    }

    /// Checks that the cache holds exactly `used` bytes: new transfers are held back when they bring the others.
    private func expect(_ used: Int, of limit: Int, in test: TestCache) async throws {
        let (first, firstTransfer) = try await test.begin(DataRequest(url("x")).with(\.cachePolicy, .bypass))
        let (second, secondTransfer) = try await test.begin(DataRequest(url("y")).with(\.cachePolicy, .bypass))
        firstTransfer.send(progress: limit - used - 1, of: nil)
        await first.receives(limit - used - 1)
        #expect(!secondTransfer.isThrottled)
        secondTransfer.send(progress: 1, of: nil)
        try await secondTransfer.wait { $0.isThrottled }
        for transfer in [firstTransfer, secondTransfer] { transfer.finish(with: Data()) }
        for task in [first, second] { #expect(await task.error == nil) }
    }

    @Test("Beyond the limit one transfer goes on, the others pause and none begins, until a quarter is free")
    func inFlight() async throws {
        let test = open(1_000)
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
        let test = open(1_000)
        let (_, slow) = try await test.begin(url("s"), in: .slow)
        slow.send(progress: 900, of: 2_000)
        let (_, urgent) = try await test.begin(url("u"))
        urgent.send(progress: 200, of: 2_000)
        try await slow.wait { $0.isThrottled }
        #expect(!urgent.isThrottled)
        urgent.finish(with: Data(count: 200))
        try await slow.wait { !$0.isThrottled }
        slow.finish(with: Data(count: 900))
        await test.cache.idle()
        try await expect(0, of: 1_000, in: test)
    }

    @Test("Calls that wait keep a quarter of the budget at most, and give it back; further ones may have to begin anew")
    func parked() async throws {
        let test = open(1_000)
        var tasks: [DataTask] = []
        for number in 0..<10 {
            let (task, transfer) = try await test.begin(DataRequest(url("\(number)")).with(\.retryPolicy, Self.waits))
            tasks.append(task)
            transfer.send(progress: 60, of: 100)
            transfer.interrupt(with: Parts.beginning(60))
            try await task.waitForFailures()
        }
        try await expect(240, of: 1_000, in: test)
        let cancelled = tasks.removeFirst()
        cancelled.cancel()
        #expect(await cancelled.error == .cancelled)
        try await expect(180, of: 1_000, in: test)
        // An urgent call ends the wait of its fetch.
        for number in 1..<10 {
            let (_, transfer) = try await test.begin(url("\(number)"))
            #expect((transfer.request.headers["Range"] != nil) == (number < 4))
            transfer.finish(with: Parts.whole, headers: Parts.fields)
        }
        await test.cache.idle()
        for task in tasks { #expect(try await task.value == Parts.whole) }
        try await expect(0, of: 1_000, in: test)
    }

    @Test("What a call has kept counts on while its next attempt adds to it, also if the server begins anew")
    func goesOn() async throws {
        let test = open(1_000)
        let (task, first) = try await test.begin(a)
        first.interrupt(with: Parts.beginning(60))
        let continued = try await test.transport.nextTransfer()
        #expect(continued.request.offset == 60)
        continued.send(progress: 70, of: 100)
        await task.receives(70)
        try await expect(70, of: 1_000, in: test)
        continued.interrupt(with: Parts.part(60..<70))
        let anew = try await test.transport.nextTransfer()
        #expect(anew.request.offset == 70)
        // The server sends the whole: the bytes that are here are held beside it.
        anew.send(progress: 20, of: 100)
        await task.receives(20)
        try await expect(90, of: 1_000, in: test)
        anew.finish(with: Parts.whole, headers: Parts.fields)
        #expect(try await task.value == Parts.whole)
        await test.cache.idle()
        try await expect(0, of: 1_000, in: test)
    }

    @Test(
        "A beginning for which there was no room is continued from disk, and fetched anew if it is kept nowhere",
        arguments: [true, false])
    func leftOnDisk(onDisk: Bool) async throws {
        let test = open(100, onDisk: onDisk)
        let rest = onDisk ? Parts.part(60..<100) : TransferResponse(body: Parts.whole)
        test.transport.script(a, [.interrupted(Parts.beginning(60), .connectionLost), .response(rest)])
        #expect(try await test.cache.getData(a).value == Parts.whole)
        #expect(test.requests(a).map { $0["Range"] } == [nil, onDisk ? "bytes=60-" : nil])
        await test.cache.idle()
        try await expect(0, of: 100, in: test)
    }
}
