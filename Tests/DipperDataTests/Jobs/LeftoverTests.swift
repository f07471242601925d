import DipperTesting
import Dispatch
import FlushLog
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("A look-up, an attempt or an answer does not change what another one of its job left", .timeLimit(.minutes(5)))
struct LeftoverTests {
    private static let whole = Data((0..<100).map { UInt8($0) })
    private let a = url("a")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100", "Cache-Control": "max-age=50"]
    private var beginning: TransferResponse { TransferResponse(headers: fields, body: Self.whole.prefix(60)) }

    /// Has the disk asked for the job under way, and returns when it has answered that it has nothing.
    private func look(_ test: TestCache) async {
        // An urgent call would end the job's wait for its next attempt.
        let call = test.cache.slowGetData(DataRequest(a).with(\.cachePolicy, .cacheOnly))
        #expect(await call.error == .notCached)
    }

    @Test("a removal during a fetch holds although a call has had the disk asked meanwhile", arguments: [false, true])
    func removed(clears: Bool) async throws {
        let test = TestCache(folder: TemporaryFolder())
        let task = test.cache.getData(DataRequest(a).with(\.cachePolicy, .ignoreCache))
        let transfer = try await test.transport.nextTransfer()
        await look(test)
        if clears { test.cache.clear() } else { test.cache.removeData(for: a) }
        transfer.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a))
        await test.cache.shutdown()
    }

    @Test("the beginning of a removed entry is not continued although a call has had the disk asked meanwhile")
    func removedBeginning() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let waits = RetryPolicy.fixed(.seconds(10), retries: 3)
        let task = test.cache.getData(
            DataRequest(a).with(\.cachePolicy, .ignoreCache).with(\.retryPolicy, waits))
        try await test.transport.nextTransfer().interrupt(with: beginning)
        try await test.clock.waitForSleepers(1)
        await look(test)
        test.cache.removeData(for: a)
        test.clock.advance(by: .seconds(11))
        let next = try await test.transport.nextTransfer()
        #expect(next.request.headers["Range"] == nil)
        next.finish(with: Self.whole, headers: fields)
        #expect(try await task.value == Self.whole)
        await test.cache.shutdown()
    }

    @Test("a hook that fails counts as a failure although the attempt before it gave way to urgent work")
    func hookAfterGivingWay() async throws {
        let test = TestCache()
        let count = Box(0)
        let modifier = RequestModifier { (request) async throws(DipperError) in
            count.update { $0 += 1 }
            if count.value > 1 { throw .timedOut }
            return request
        }
        let slow = test.cache.slowGetData(
            DataRequest(a).with(\.modifier, modifier).with(\.retryPolicy, .never))
        let transfer = try await test.transport.nextTransfer()
        let urgent = test.cache.getData(url("b"))
        let other = try await test.transport.nextTransfer()
        #expect(await settle { transfer.isThrottled })
        transfer.interrupt(with: beginning)
        other.finish(with: Data("b".utf8))
        _ = try await urgent.value
        #expect(await slow.error == .timedOut)
        #expect(count.value == 2)
        await test.cache.shutdown()
    }

    @Test("a durable call ends with the write of its own answer, not with that of the one before")
    func writes() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let disk = try #require(test.cache.store.disk)
        let stall = DispatchSemaphore(value: 0)
        disk.writer.run { stall.wait() }
        func request(_ language: String) -> DataRequest {
            DataRequest(a).with(\.headers, ["Accept-Language": language]).with(\.key, "key")
                .with(\.durability, .durable).with(\.waitsForDiskWrite, true)
        }
        let tasks = ["de", "en"].map { test.cache.getData(request($0)) }
        for language in ["de", "en"] {
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.headers["Accept-Language"] == language)
            transfer.finish(
                with: Data(count: 9_000), headers: ["Vary": "Accept-Language", "Cache-Control": "max-age=50"])
        }
        let store = test.cache.store
        #expect(await settle { store.find("key", ["Accept-Language": "en"])?.place ?? "key" != "key" })
        let variant = try #require(store.find("key", ["Accept-Language": "en"])).place
        let failing = flush_log_fail(KeyDigest.sha256(variant))
        defer { flush_log_mend(failing) }
        stall.signal()
        #expect(await tasks[0].error == nil)
        #expect(await tasks[1].error == .notWritten)
        await test.cache.shutdown()
    }
}
