import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Local sources have places of their own", .timeLimit(.minutes(2)))
struct LocalSourceTests {
    private let download = url("download")

    @Test("a file is read beside a download that takes all places, also for a prefetch, and holds up no prefetch")
    func beside() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place("local", at: "file")
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let (running, transfer) = try await test.begin(download)
        #expect(try await test.cache.getData(DataRequest(FileProvider(file))).value == Data("local".utf8))
        let again = DataRequest(FileProvider(file)).with(\.key, "2")
        #expect(try await test.cache.slowGetData(again).value == Data("local".utf8))
        transfer.finish(with: Data())
        #expect(await running.error == nil)
        // A prefetch of the network begins while a local source is still being read for an urgent call.
        let (gate, order) = (Gate(), Box<[String]>([]))
        let reading = test.cache.getData(DataRequest(LocalProvider(name: "slow", gate: gate, order: order)))
        try await order.wait { $0 == ["slow"] }
        let (prefetch, later) = try await test.begin(url("later"), in: .slow)
        later.finish(with: Data())
        #expect(await prefetch.error == nil)
        gate.open()
        #expect(await reading.error == nil)
    }

    @Test("four are read at a time, the fourth only for an urgent call, and none while the queue is suspended")
    func bounded() async throws {
        let order = Box<[String]>([])
        let gates = (0..<8).map { _ in Gate() }
        func request(_ number: Int) -> DataRequest {
            DataRequest(LocalProvider(name: "\(number)", gate: gates[number], order: order))
        }
        let test = TestCache()
        let prefetches = (0..<5).map { test.cache.slowGetData(request($0)) }
        try await order.wait { $0.count == 3 }
        #expect(test.cache.queueCounts.slowRunning == 3 && test.cache.queueCounts.slowWaiting == 2)
        let first = test.cache.getData(request(5))
        try await order.wait { $0.last == "5" }
        let second = test.cache.getData(request(6))
        #expect(test.cache.queueCounts.fastRunning == 1 && test.cache.queueCounts.fastWaiting == 1)
        gates[Int(order.value[0]) ?? 0].open()
        try await order.wait { $0.count == 5 }
        #expect(order.value.last == "6", "urgent ones come first")
        for gate in gates { gate.open() }
        for task in prefetches + [first, second] { #expect(await task.error == nil) }
        test.cache.fastQueue.isSuspended = true
        let waiting = test.cache.getData(request(7))
        #expect(test.cache.queueCounts.fastWaiting == 1)
        test.cache.fastQueue.isSuspended = false
        #expect(await waiting.error == nil)
    }
}

/// A provider whose bytes are at hand, but which waits at a gate.
private struct LocalProvider: DataProvider {
    let name: String
    let gate: Gate
    let order: Box<[String]>

    var cacheKey: CacheKey { CacheKey(name) }
    var isLocal: Bool { true }

    func data() async throws -> Data {
        order.update { $0.append(name) }
        await gate.pass()
        return Data(name.utf8)
    }
}
