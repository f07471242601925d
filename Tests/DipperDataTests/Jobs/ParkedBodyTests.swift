import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Bodies of calls that wait", .timeLimit(.minutes(5)))
struct ParkedBodyTests {
    private static let whole = Data((0..<100).map { UInt8($0) })
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]
    private func beginning(_ count: Int) -> TransferResponse {
        TransferResponse(headers: fields, body: Self.whole.prefix(count))
    }

    private func rest(from start: Int) -> TransferResponse {
        TransferResponse(
            status: 206, headers: ["ETag": "\"v\"", "Content-Range": "bytes \(start)-99/100"],
            body: Self.whole[start...])
    }

    /// The number of received bytes that jobs keep.
    private func kept(_ test: TestCache, _ names: [String]) -> Int {
        names.reduce(0) { sum, name in
            let job = test.cache.engine.inspect { $0.job(for: CacheKey(url(name))).flatMap($0.work) }
            return sum + (job?.snapshot.findings.partial?.bytes.count ?? 0)
        }
    }

    @Test("calls that wait hold a quarter of the budget at most, and keep nothing else from starting")
    func parked() async throws {
        let test = TestCache { $0.inFlightLimit = 1_000 }
        let engine = test.cache.engine
        let names = (0..<40).map { "\($0)" }
        let waits = RetryPolicy.fixed(.seconds(3_600), retries: 3)
        var tasks: [DataTask] = []
        for name in names {
            tasks.append(test.cache.getData(DataRequest(url(name)).with(\.retryPolicy, waits)))
            let transfer = try await test.transport.nextTransfer()
            transfer.send(progress: 60, of: 100)
            transfer.interrupt(with: beginning(60))
        }
        #expect(kept(test, names) == 240 && engine.bodies.parked == 240 && engine.bodies.used == 240)
        let others = ["a", "b"].map { test.cache.getData(url($0)) }
        var transfers: [ScriptedTransfer] = []
        for _ in 0..<2 { transfers.append(try await test.transport.nextTransfer()) }
        // What waits counts: 240 of 1,000 bytes are taken.
        transfers[0].send(progress: 750, of: 2_000)
        #expect(transfers.allSatisfy { !$0.isThrottled })
        transfers[1].send(progress: 10, of: 2_000)
        #expect(await settle { transfers.map(\.isThrottled) == [false, true] })
        transfers[0].finish(with: Data(count: 750))
        #expect(await settle { !transfers[1].isThrottled })
        transfers[1].finish(with: Data(count: 10))
        for other in others { _ = try await other.value }
        for task in tasks { task.cancel() }
        #expect(await settle { engine.bodies.used == 0 && engine.bodies.parked == 0 })
        await test.cache.shutdown()
    }

    @Test("a call that is cancelled while it waits gives back what it kept, and transfers that were held back go on")
    func cancelled() async throws {
        let test = TestCache { $0.inFlightLimit = 400 }
        let waits = RetryPolicy.fixed(.seconds(3_600), retries: 3)
        let parked = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, waits))
        try await test.transport.nextTransfer().interrupt(with: beginning(99))
        for name in ["b", "c"] { test.cache.getData(url(name)) }
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        transfers[1].send(progress: 250, of: 2_000)
        transfers[0].send(progress: 51, of: 2_000)
        #expect(await settle { transfers.map(\.isThrottled) == [false, true] && test.cache.engine.bodies.used == 400 })
        // Not below three quarters of the budget.
        parked.cancel()
        #expect(await settle { test.cache.engine.bodies.used == 301 })
        #expect(await settle { transfers[1].isThrottled })
        transfers[0].send(progress: 50, of: 2_000)
        #expect(await settle { !transfers[1].isThrottled })
        await test.cache.shutdown()
    }

    @Test("what a call has kept counts on while its next attempt adds to it")
    func goesOn() async throws {
        let test = TestCache {
            $0.inFlightLimit = 1_000
            $0.retryPolicy = .fixed(.zero, retries: 5)
        }
        let engine = test.cache.engine
        let task = test.cache.getData(url("a"))
        try await test.transport.nextTransfer().interrupt(with: beginning(60))
        let continued = try await test.transport.nextTransfer()
        #expect(continued.request.offset == 60 && engine.bodies.used == 60 && engine.bodies.parked == 0)
        continued.send(progress: 70, of: 100)
        #expect(engine.bodies.used == 70)
        // Cut off once more: the server then sends the whole, beside which what is here is held.
        continued.interrupt(
            with: TransferResponse(status: 206, headers: rest(from: 60).headers, body: Self.whole[60..<70]))
        let anew = try await test.transport.nextTransfer()
        #expect(anew.request.offset == 70 && engine.bodies.used == 70)
        anew.send(progress: 20, of: 100)
        #expect(engine.bodies.used == 90)
        anew.send(progress: 100, of: 100)
        #expect(engine.bodies.used == 170)
        anew.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        #expect(await settle { engine.bodies.used == 0 && engine.bodies.parked == 0 })
        await test.cache.shutdown()
    }

    @Test("what the next attempt holds counts although the thread of the last one is still at work")
    func lateThread() async throws {
        let test = TestCache {
            $0.callbackQueue = .inPlace
            $0.retryPolicy = .fixed(.seconds(1), retries: 5)
        }
        let engine = test.cache.engine
        let door = Door()
        let isBack = Box(false)
        test.cache.getData(url("a")).onFail { _, _ in door.pass() }
        let transfer = try await test.transport.nextTransfer()
        let response = beginning(60)
        Thread.detachNewThread {
            transfer.interrupt(with: response)
            isBack.update { $0 = true }
        }
        try #require(await settle { door.arrivals == 1 })
        test.clock.advance(by: .seconds(1))
        let continued = try await test.transport.nextTransfer()
        #expect(continued.request.offset == 60 && engine.bodies.used == 60)
        door.stayOpen()
        try #require(await settle { isBack.value })
        #expect(engine.bodies.used == 60)
        await test.cache.shutdown()
    }

    @Test("a beginning for which there was no room is read from disk and continued; without a disk it is fetched anew")
    func leftOnDisk() async throws {
        for hasDisk in [true, false] {
            let test = TestCache(folder: hasDisk ? TemporaryFolder() : nil) {
                $0.inFlightLimit = 100
                $0.retryPolicy = .fixed(.zero, retries: 5)
            }
            let a = url("a")
            test.transport.script(
                a,
                [.interrupted(beginning(60), .connectionLost), hasDisk ? .response(rest(from: 60)) : .body(Self.whole)])
            #expect(try await test.cache.getData(a).value == Self.whole)
            let ranges = test.transport.transfers(of: a).map { $0.request.headers["Range"] }
            #expect(ranges == [nil, hasDisk ? "bytes=60-" : nil])
            #expect(await settle { test.cache.engine.bodies.used == 0 })
            await test.cache.shutdown()
        }
    }

    @Test("an entry that is removed while its call waits is not continued from disk")
    func removed() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.inFlightLimit = 100 }
        let a = url("a")
        let task = test.cache.getData(
            DataRequest(a).with(\.retryPolicy, .fixed(.seconds(10), retries: 3)))
        try await test.transport.nextTransfer().interrupt(with: beginning(60))
        test.cache.removeData(for: a)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(11))
        let next = try await test.transport.nextTransfer()
        #expect(next.request.headers["Range"] == nil)
        next.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.shutdown()
    }
}
