import DipperTesting
import Dispatch
import FlushLog
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("A durable entry is on the device when it counts as written", .timeLimit(.minutes(5)))
struct DurabilityTests {
    /// Flushes of what lies in the folder, which every test has for itself.
    private func flushes(_ folder: TemporaryFolder, _ path: String) -> Int {
        Int(flush_log_count(folder.url.lastPathComponent + path))
    }

    /// A request whose file has a name that no other test's has.
    private func durable(_ folder: TemporaryFolder) -> DataRequest {
        DataRequest(url(folder.url.lastPathComponent)).with(\.durability, .durable)
    }

    @Test("a large entry: its file is flushed, then its folder, and the index")
    func large() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: durable(folder))
        let name = try #require(test.cache.file(for: durable(folder).cacheKey)).lastPathComponent
        // It is flushed under the name it has before it is put in place.
        #expect(flush_log_count("/" + name) == 1)
        #expect(flushes(folder, "/blobs/" + name.prefix(2)) == 1)
        #expect(flushes(folder, "/blobs") == 1)
        #expect(flushes(folder, "") >= 1)
        #expect(flushes(folder, "/index.sqlite-wal") >= 1)
        await test.cache.shutdown()
    }

    @Test("a small entry: the index is flushed, and the folder that may have held a larger one")
    func small() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: durable(folder).with(\.durability, .relaxed))
        let before = flushes(folder, "/index.sqlite-wal")
        try await test.cache.addDataAndWait(Data(count: 100), for: durable(folder))
        #expect(flushes(folder, "/index.sqlite-wal") > before)
        #expect(flushes(folder, "/blobs/" + KeyDigest.sha256(durable(folder).cacheKey).prefix(2)) == 1)
        await test.cache.shutdown()
    }

    @Test("nothing is flushed for other entries, not even after a durable one")
    func relaxed() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: durable(folder))
        let before = (flushes(folder, "/index.sqlite-wal"), flushes(folder, "/blobs"))
        for number in 0..<10 {
            try await test.cache.addDataAndWait(
                Data(count: number * 1_000), for: DataRequest(url("\(folder.url.lastPathComponent)/\(number)")))
        }
        #expect(before == (flushes(folder, "/index.sqlite-wal"), flushes(folder, "/blobs")))
        let last = CacheKey(url("\(folder.url.lastPathComponent)/9"))
        let name = try #require(test.cache.file(for: last)).lastPathComponent
        #expect(flush_log_count("/" + name) == 0)
        await test.cache.shutdown()
    }

    @Test("a fetch that waits for the disk waits for the device")
    func fetched() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let request = durable(folder).with(\.waitsForDiskWrite, true)
        test.transport.script(try #require(request.url), [.body(Data(count: 9_000))])
        _ = try await test.cache.getData(request).value
        let name = try #require(test.cache.file(for: request.cacheKey)).lastPathComponent
        #expect(flush_log_count("/" + name) == 1)
        await test.cache.shutdown()
    }

    @Test("of calls that share a fetch one that wants it durable decides", arguments: [true, false])
    func shared(isFirst: Bool) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let request = durable(folder).with(\.waitsForDiskWrite, true)
        let other = request.with(\.durability, .relaxed)
        let tasks = (isFirst ? [request, other] : [other, request]).map { test.cache.getData($0) }
        try await test.transport.nextTransfer().finish(with: Data(count: 9_000))
        for task in tasks { _ = try await task.value }
        let name = try #require(test.cache.file(for: request.cacheKey)).lastPathComponent
        #expect(flush_log_count("/" + name) == 1)
        await test.cache.shutdown()
    }

    @Test("a small durable entry whose folder cannot be flushed is told as not written, and is found all the same")
    func folderFails() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.memoryLimit = 0 }
        let request = durable(folder)
        // The folder is there for the larger entry before it.
        try await test.cache.addDataAndWait(Data(count: 9_000), for: request)
        let shard = "\(folder.url.lastPathComponent)/blobs/\(KeyDigest.sha256(request.cacheKey).prefix(2))"
        let failing = flush_log_fail(shard)
        defer { flush_log_mend(failing) }
        await #expect(throws: DipperError.notWritten) {
            try await test.cache.addDataAndWait(Data(count: 100), for: request)
        }
        #expect(test.cache.data(for: request)?.count == 100)
        // The next batch does not take it away either.
        try await test.cache.addDataAndWait(Data(count: 100), for: CacheKey("other"))
        #expect(test.cache.data(for: request)?.count == 100)
        await test.cache.shutdown()
    }

    @Test("who waits for a durable write waits also for the one that takes its place, which is durable as well")
    func replaced() async throws {
        let folder = TemporaryFolder()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let tier = DiskTier(.init(folder: folder.url.path), logger: logger, now: ManualDate().time)
        let key = CacheKey(folder.url.lastPathComponent)
        func record(_ size: Int) -> EntryRecord {
            EntryRecord(
                key: key, value: StoredData(data: Data(count: size), info: EntryInfo(url: "", stored: 0)),
                lifetime: .forever)
        }
        let stall = DispatchSemaphore(value: 0)
        tier.writer.run { stall.wait() }
        let told = Box<[String]>([])
        tier.write(record(9_000), .durable) { _ in told.update { $0.append("durable") } }
        tier.write(record(8_000)) { _ in told.update { $0.append("relaxed") } }
        tier.write(record(7_000))
        #expect(told.value.isEmpty)
        stall.signal()
        await tier.synchronize()
        #expect(told.value == ["durable", "relaxed"])
        #expect(tier.entry(for: key)?.value.data.count == 7_000)
        #expect(flush_log_count("/" + KeyDigest.sha256(key)) == 1)
        // A removal leaves nothing to wait for.
        let again = DispatchSemaphore(value: 0)
        tier.writer.run { again.wait() }
        tier.write(record(9_000), .durable) { _ in told.update { $0.append("removed") } }
        tier.remove(key)
        #expect(told.value.last == "removed")
        again.signal()
        await tier.shutdown()
    }
}
