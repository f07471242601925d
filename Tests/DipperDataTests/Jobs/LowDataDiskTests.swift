import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Constrained networks and the disk", .timeLimit(.minutes(5)))
struct LowDataDiskTests {
    private let large = url("large")
    private let small = url("small")

    private func test(_ folder: TemporaryFolder) -> TestCache {
        let test = TestCache(folder: folder)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        test.transport.script(small, [.body(Data("small".utf8))])
        test.transport.script(large, [.body(Data("large".utf8))])
        return test
    }

    private var request: DataRequest { DataRequest(large).with(\.lowDataURL, small) }

    /// Blocks every look at the disk until the test opens it.
    private func block(_ cache: DataCache) async -> DispatchSemaphore {
        let door = DispatchSemaphore(value: 0)
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                _ = cache.store.read("held up", .init(.fast, .normal)) { _ in
                    continuation.resume()
                    door.wait()
                }
            }
        }
        return door
    }

    @Test("a call returns while the disk is slow; if it has nothing, the smaller source is fetched under its own key")
    func missing() async throws {
        let test = test(TemporaryFolder())
        let door = await block(test.cache)
        let task = test.cache.getData(request)
        #expect(task.key == CacheKey(large) && task.state == .waiting)
        for _ in 0..<2 { door.signal() }
        #expect(try await String(decoding: task.value, as: UTF8.self) == "small")
        #expect(task.key == CacheKey(small) && test.requests(large).isEmpty)
        #expect(test.cache.hasData(for: small) && !test.cache.hasData(for: large))
        await test.cache.shutdown()
    }

    @Test("what the disk has of the URL is the answer")
    func there() async throws {
        let test = test(TemporaryFolder())
        try await test.cache.addDataAndWait(Data("kept".utf8), for: CacheKey(large))
        test.cache.clearMemory()
        #expect(try await String(decoding: test.cache.getData(request).value, as: UTF8.self) == "kept")
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("a call that has turned to the smaller source is cancelled, demoted and joined like any other")
    func afterTurning() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let first = test.cache.getData(request)
        let plain = test.cache.getData(small)
        let transfer = try await test.transport.nextTransfer()
        #expect(await settle { first.key == CacheKey(small) })
        #expect(transfer.request.url == small && test.cache.queueCounts.fastRunning == 1)
        first.moveToSlowQueue()
        #expect(first.queue == .slow && plain.queue == .fast)
        first.cancel()
        #expect(await first.error == .cancelled)
        transfer.finish(with: Data("small".utf8))
        #expect(try await String(decoding: plain.value, as: UTF8.self) == "small")
        let undecided = Box<DataTask?>(nil)
        let door = await block(test.cache)
        undecided.update { $0 = test.cache.getData(DataRequest(url("other")).with(\.lowDataURL, url("tiny"))) }
        undecided.value?.cancel()
        #expect(await undecided.value?.error == .cancelled)
        for _ in 0..<2 { door.signal() }
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }
}
