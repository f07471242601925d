import DipperTesting
import Dispatch
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("What is staged for the disk, and what is told of it", .timeLimit(.minutes(5)))
struct StagedWriteTests {
    private let a = url("a")

    /// Holds the disk's thread up until it is let go.
    private func stall(_ cache: DataCache) throws -> DispatchSemaphore {
        let stall = DispatchSemaphore(value: 0)
        try #require(cache.store.disk).writer.run { stall.wait() }
        return stall
    }

    private func record(_ key: CacheKey, _ size: Int, _ headers: HTTPHeaders = [:]) -> EntryRecord {
        EntryRecord(
            key: key, value: StoredData(data: Data(count: size), info: EntryInfo(url: "", headers: headers, stored: 0)),
            lifetime: .forever)
    }

    private func tier(_ folder: TemporaryFolder, _ change: (inout DiskTier.Options) -> Void = { _ in }) -> DiskTier {
        var options = DiskTier.Options(folder: folder.url.path)
        change(&options)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return DiskTier(options, logger: logger, now: ManualDate().time)
    }

    // MARK: Full disks

    @Test("a version for which the disk has no room takes the earlier one away", arguments: [100, 9_000])
    func noRoom(size: Int) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.stagingLimit = 10_000 }
        try await test.cache.addDataAndWait(Data(repeating: 1, count: size), for: CacheKey(a))
        let stall = try stall(test.cache)
        try test.cache.addData(Data(count: 39_000), for: url("large"))
        try test.cache.addData(Data(repeating: 2, count: 3_000), for: a)
        test.cache.clearMemory()
        #expect(test.cache.data(for: a) == nil)
        stall.signal()
        await test.cache.synchronize()
        #expect(test.cache.data(for: a) == nil && test.cache.data(for: url("large")) != nil)
        let again = await test.reopened(folder)
        #expect(again.cache.data(for: a) == nil && again.cache.diskCount == 1)
        await again.cache.shutdown()
    }

    @Test("a removal is staged however far the disk is behind")
    func removalWithoutRoom() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.stagingLimit = 1 }
        try await test.cache.addDataAndWait(Data(count: 9_000), for: CacheKey(a))
        let stall = try stall(test.cache)
        try test.cache.addData(Data(count: 90_000), for: url("large"))
        test.cache.removeData(for: a)
        #expect(!test.cache.hasData(for: a))
        stall.signal()
        await test.cache.synchronize()
        #expect(!test.cache.hasData(for: a) && test.cache.diskCount == 1)
        await test.cache.shutdown()
    }

    // MARK: Reported errors

    @Test("a durable entry for which the disk has no room is told as not written, and so is the one it replaced")
    func durableWithoutRoom() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.stagingLimit = 10_000 }
        let durable = DataRequest(a).with(\.durability, .durable)
        let stall = try stall(test.cache)
        let cache = test.cache
        let first = Task {
            _ = await #expect(throws: DipperError.notWritten) {
                try await cache.addDataAndWait(Data(count: 100), for: durable)
            }
        }
        let disk = try #require(test.cache.store.disk)
        #expect(await settle { disk.contains(CacheKey(a)) })
        try test.cache.addData(Data(count: 39_000), for: url("large"))
        await #expect(throws: DipperError.notWritten) {
            try await test.cache.addDataAndWait(Data(count: 5_000), for: durable)
        }
        await first.value
        // One that is not durable is no error.
        try await test.cache.addDataAndWait(Data(count: 5_000), for: DataRequest(url("b")))
        stall.signal()
        await test.cache.shutdown()
    }

    @Test("a durable entry that is removed before it is written is told as not written")
    func durableRemoved() async throws {
        let folder = TemporaryFolder()
        for way in 0..<4 {
            let test = TestCache(folder: folder)
            let disk = try #require(test.cache.store.disk)
            let stall = try stall(test.cache)
            let cache = test.cache
            let adding = Task {
                _ = await #expect(throws: DipperError.notWritten) {
                    try await cache.addDataAndWait(
                        Data(count: 100), for: DataRequest(url("a")).with(\.durability, .durable))
                }
            }
            #expect(await settle { disk.contains(CacheKey(a)) })
            test.date.advance(by: 1)
            switch way {
            case 0: test.cache.removeData(for: a)
            case 1: test.cache.clear()
            case 2: test.cache.flush(olderThan: .zero)
            default: disk.remove(CacheKey(a))
            }
            await adding.value
            stall.signal()
            await test.cache.shutdown()
        }
    }

    @Test("without a folder, or in one that cannot be written, no durable entry is told as written")
    func noDisk() async throws {
        let memory = TestCache()
        let folder = TemporaryFolder()
        try FileManager.default.removeItem(at: folder.url)
        try Data().write(to: folder.url)
        let broken = TestCache(folder: folder)
        for test in [memory, broken] {
            let durable = DataRequest(a).with(\.durability, .durable)
            await #expect(throws: DipperError.notWritten) {
                try await test.cache.addDataAndWait(Data(count: 100), for: durable)
            }
            try await test.cache.addDataAndWait(Data(count: 100), for: DataRequest(a))
            test.transport.script(url("b"), [.body(Data(count: 100))])
            let fetch = DataRequest(url("b")).with(\.waitsForDiskWrite, true)
            #expect(await test.cache.getData(fetch.with(\.durability, .durable)).error == .notWritten)
            #expect(await test.cache.getData(fetch.with(\.cachePolicy, .ignoreCache)).error == nil)
            await test.cache.shutdown()
        }
    }

    @Test("an entry added after the shutdown is refused")
    func shutDown() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        await test.cache.shutdown()
        #expect(throws: DipperError.shutDown) { try test.cache.addData(Data(), for: a) }
        await #expect(throws: DipperError.shutDown) { try await test.cache.addDataAndWait(Data(), for: CacheKey(a)) }
        #expect(throws: DipperError.emptyKey) { try test.cache.addData(Data(), for: CacheKey("")) }
    }

    @Test("each write is told of once, whatever takes its place, and at the shutdown at the latest")
    func toldOnce() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder) { $0.stagingLimit = 20_000 }
        let told = Box<[Int: Int]>([:])
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    for number in 0..<300 {
                        let id = worker * 1_000 + number
                        let key = CacheKey("\(number % 7)")
                        tier.write(record(key, id % 5_000), number % 3 == 0 ? .durable : .relaxed) { _ in
                            told.update { $0[id, default: 0] += 1 }
                        }
                        switch number % 50 {
                        case 11: tier.remove(key)
                        case 23: tier.clear()
                        case 37: tier.removeDerived(of: key)
                        case 41: tier.remove(storedBefore: 1)
                        default: break
                        }
                    }
                }
            }
            group.addTask {
                await Task.yield()
                await tier.shutdown()
            }
        }
        await tier.shutdown()
        tier.clear()
        #expect(told.value.count == 1_200 && told.value.values.allSatisfy { $0 == 1 })
    }

    @Test("what waits is written although everything made from an entry is removed while the store is shut down")
    func removalAtShutdown() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        let stall = DispatchSemaphore(value: 0)
        tier.writer.run { stall.wait() }
        let isWritten = Box<Bool?>(nil)
        tier.write(record("a", 9_000)) { written in isWritten.update { $0 = written } }
        async let ending: Void = tier.shutdown()
        #expect(await settle { tier.staged.withLock { $0.isClosed } })
        tier.removeDerived(of: "b")
        stall.signal()
        await ending
        #expect(isWritten.value == true)
        #expect(tier.opened.index == nil, "the store is not opened again")
    }

    // MARK: Disk errors

    @Test("an entry that cannot be replaced in a read-only folder is not served from there any more")
    func readOnly() async throws {
        let folder = TemporaryFolder()
        let first = tier(folder)
        for key in ["small", "large", "other"] { first.write(record(CacheKey(key), key == "small" ? 100 : 9_000)) }
        await first.shutdown()
        let second = tier(folder)
        let files = try BlobFiles(readingOnly: Folder(path: folder.url.path))
        second.replaceOpened(.init(files: files, index: second.opened.index, indexFile: second.opened.indexFile))
        #expect(second.contains("small") && second.contains("large"))
        second.write(record("large", 5_000))
        second.remove("small")
        await second.synchronize()
        #expect(!second.contains("small") && !second.contains("large") && second.contains("other"))
        second.clear()
        await second.synchronize()
        #expect(!second.contains("other"))
        await second.shutdown()
    }

    // MARK: Sizes

    @Test("header fields and keys count, in memory and while they wait")
    func sizes() async throws {
        let folder = TemporaryFolder()
        let fields = HTTPHeaders((0..<256).map { .init("X-\($0)", String(repeating: "x", count: 1_024)) })
        let test = TestCache(folder: folder)
        test.transport.script(a, [.response(TransferResponse(headers: fields, body: Data(count: 10)))])
        let stall = try stall(test.cache)
        _ = try await test.cache.getData(a).value
        #expect(test.cache.memorySize > 256 << 10)
        let disk = try #require(test.cache.store.disk)
        #expect(disk.staged.withLock { $0.area.bytes } > 256 << 10)
        let objects = test.cache.makeObjectTier(limit: 100 << 20, count: nil)
        let info = try #require(test.cache.response(for: a)).info
        objects.insert(.init(Thing(), info), for: "a", cost: 1, lifetime: .forever)
        #expect(objects.totalCost > 256 << 10)
        stall.signal()
        await test.cache.synchronize()
        #expect(disk.staged.withLock { $0.area.bytes } == 0)
        await test.cache.shutdown()
    }

    @Test("what is staged counts once however often it is replaced, and nothing is left of it")
    func accounting() {
        var area = StagingArea()
        for round in 0..<1_000 {
            let key = CacheKey("\(round % 3)")
            _ = area.add(.write(record(key, round)), for: key)
            if round % 10 == 0 { _ = area.add(.remove, for: key) }
        }
        let batch = area.nextBatch(count: .max, bytes: .max)
        #expect(batch.count == 3)
        _ = area.add(.write(record("0", 7)), for: "0")
        _ = area.finish(batch, .init())
        let rest = area.nextBatch(count: .max, bytes: .max)
        #expect(rest.count == 1 && rest.reduce(0) { $0 + $1.bytes } == area.bytes)
        _ = area.finish(rest, .init())
        #expect(area.bytes == 0 && area.nextBatch(count: .max, bytes: .max).isEmpty)
    }
}

private final class Thing: Sendable {}
