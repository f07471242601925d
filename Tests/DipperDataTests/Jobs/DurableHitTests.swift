import DipperTesting
import Dispatch
import FlushLog
import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("A durable call that the cache answers ends when the entry is on the device", .timeLimit(.minutes(5)))
struct DurableHitTests {
    private let folder = TemporaryFolder()

    /// A request whose file has a name that no other test's has.
    private var request: DataRequest {
        DataRequest(url(folder.url.lastPathComponent)).with(\.durability, .durable).with(\.waitsForDiskWrite, true)
    }

    private var relaxed: DataRequest { request.with(\.durability, .relaxed) }

    /// The number of times that the entry's file has been flushed.
    private var flushes: Int { Int(flush_log_count("/" + KeyDigest.sha256(request.cacheKey))) }

    /// Holds the disk's thread up until it is let go.
    private func stall(_ cache: DataCache) throws -> DispatchSemaphore {
        let stall = DispatchSemaphore(value: 0)
        try #require(cache.store.disk).writer.run { stall.wait() }
        return stall
    }

    @Test("bytes that are staged, in memory or not, are waited for, and written as durable", arguments: [true, false])
    func staged(isInMemory: Bool) async throws {
        let test = TestCache(folder: folder)
        let stall = try stall(test.cache)
        try test.cache.addData(Data(count: 9_000), for: relaxed)
        if !isInMemory { test.cache.clearMemory() }
        let disk = try #require(test.cache.store.disk)
        let hasEnded = Box(false)
        let task = test.cache.getData(request).onEnd { _ in hasEnded.update { $0 = true } }
        let key = request.cacheKey
        #expect(await settle { disk.staged.withLock { $0.area[key]?.durability } == .durable })
        #expect(!hasEnded.value)
        stall.signal()
        #expect(try await task.value.count == 9_000)
        #expect(flushes == 1)
        await test.cache.shutdown()
    }

    @Test("bytes that are just being written are written once more, as durable")
    func beingWritten() {
        let key = request.cacheKey
        var area = StagingArea()
        let told = Box<[String]>([])
        let record = EntryRecord(
            key: key, value: StoredData(data: Data(count: 10), info: EntryInfo(url: "", stored: 0)), lifetime: .forever)
        _ = area.add(.write(record), for: key) { isDone in told.update { $0.append("first \(isDone)") } }
        let batch = area.nextBatch(count: 9, bytes: 9)
        #expect(area.join(key, .relaxed) { _ in told.update { $0.append("joined") } })
        #expect(area.join(key, .durable) { _ in told.update { $0.append("durable") } })
        #expect(!area.join("other", .durable) { _ in })
        #expect(area.finish(batch, .init()).isEmpty, "a durable write has taken its place")
        let next = area.nextBatch(count: 9, bytes: 9)
        #expect(next.map(\.durability) == [.durable])
        for (item, isDone) in area.finish(next, .init()) { for tell in item.whenDone { tell(isDone) } }
        #expect(told.value == ["first true", "joined", "durable"])
    }

    @Test("what was written without being flushed is flushed")
    func onDisk() async throws {
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        #expect(flushes == 0)
        let log = folder.url.lastPathComponent + "/index.sqlite-wal"
        let before = flush_log_count(log)
        #expect(try await test.cache.getData(request).response.source == .memory)
        #expect(flushes == 1)
        #expect(flush_log_count(log) > before)
        #expect(try await test.cache.getData(relaxed).response.source == .memory)
        #expect(flushes == 1)
        await test.cache.shutdown()
    }

    @Test("a file without a row, as a killed process leaves it, gets its row and is flushed, though memory has nothing")
    func unlisted() async throws {
        let test = TestCache(folder: folder) { $0.memoryLimit = 0 }
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        let index = try indexQueue(folder)
        try await index.write {
            try $0.execute(sql: "DELETE FROM entry")
            #expect($0.changesCount == 1)
        }
        let response = try await test.cache.getData(request).response
        #expect(response.source == .disk && response.data.count == 9_000)
        #expect(flushes == 1)
        #expect(try await index.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") } == 1)
        #expect(try await index.read { try Int.fetchOne($0, sql: "SELECT bytes > 9000 FROM total") } == 1)
        await test.cache.shutdown()
    }

    @Test("what the disk does not have is written")
    func notOnDisk() async throws {
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        test.cache.removeData(for: request, from: .disk)
        await test.cache.synchronize()
        #expect(try await test.cache.getData(request).value.count == 9_000)
        #expect(flushes == 1)
        #expect(test.cache.file(for: request.cacheKey) != nil)
        await test.cache.shutdown()
    }

    @Test("a disk that fails fails the call, as a fetch, and no other", arguments: [true, false])
    func fails(isStaged: Bool) async throws {
        let test = TestCache(folder: folder)
        let stall = isStaged ? try stall(test.cache) : nil
        let failing = flush_log_fail(folder.url.lastPathComponent + "/blobs")
        defer { flush_log_mend(failing) }
        try test.cache.addData(Data(count: 9_000), for: relaxed)
        if !isStaged { await test.cache.synchronize() }
        let task = test.cache.getData(request)
        stall?.signal()
        #expect(await task.error == .notWritten)
        #expect(await test.cache.getData(relaxed).error == nil)
        await test.cache.shutdown()
    }

    @Test("an entry that is removed or replaced meanwhile does not come back", arguments: [true, false])
    func removed(isReplaced: Bool) async throws {
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: relaxed)
        test.cache.removeData(for: request, from: .disk)
        await test.cache.synchronize()
        let stall = try stall(test.cache)
        let task = test.cache.getData(request)
        if isReplaced {
            try test.cache.addData(Data(count: 8_000), for: relaxed)
        } else {
            test.cache.removeData(for: request)
        }
        stall.signal()
        #expect(await task.error == (isReplaced ? nil : .notWritten))
        await test.cache.synchronize()
        test.cache.clearMemory()
        #expect(test.cache.data(for: request)?.count == (isReplaced ? 8_000 : nil))
        #expect(flushes == (isReplaced ? 1 : 0))
        await test.cache.shutdown()
    }

    @Test("without a disk no durable call ends well")
    func noDisk() async throws {
        let test = TestCache()
        try test.cache.addData(Data(count: 10), for: relaxed)
        #expect(await test.cache.getData(request).error == .notWritten)
        #expect(await test.cache.getData(relaxed).error == nil)
        await test.cache.shutdown()
    }
}
