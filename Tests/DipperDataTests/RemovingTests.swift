import DipperTesting
import Dispatch
import Foundation
import GRDB
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("Entries are removed by tier, and with all that was made from them", .timeLimit(.minutes(5)))
struct RemovingTests {
    private let origin = CacheKey("http://host.test/a.jpg")
    private var derived: [CacheKey] {
        ["\n#round", "\n#round\n17\nde", "\n#blur(\"3\")", "\n#é"].map { .init(verbatim: origin.string + $0) }
    }
    /// Keys that look much like those.
    private var others: [CacheKey] {
        [
            origin.string, origin.string + "\n", origin.string + "\n17\n#x", origin.string + "#", origin.string + "\n$",
            origin.string + "\n\"", origin.string + "2\n#round", "http://host.test/a.jp\n#round",
            "x" + origin.string + "\n#round",
        ].map { .init(verbatim: $0) }
    }

    private func configuration(_ folder: TemporaryFolder) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.logger.logLevel = .critical
        return configuration
    }

    /// Small ones and large ones.
    private func body(_ key: CacheKey) -> Data {
        Data(repeating: 1, count: key.string.utf8.count % 2 == 0 ? 100 : 5_000)
    }

    // MARK: By tier

    @Test("an entry is removed from the tier that is named, and stays in the other")
    func byTier() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let request = DataRequest(url("a"))
        try await test.cache.addDataAndWait(Data(count: 9_000), for: request)
        test.cache.removeData(for: url("a"), from: .memory)
        #expect(test.cache.cachedSource(for: url("a")) == .disk)
        #expect(test.cache.data(for: url("a"))?.count == 9_000)
        test.cache.removeData(for: request, from: .disk)
        #expect(test.cache.cachedSource(for: url("a")) == .memory)
        await test.cache.synchronize()
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs/") })
        test.cache.removeData(for: CacheKey(url("a")), from: [])
        #expect(test.cache.hasData(for: url("a")))
        test.cache.removeData(for: CacheKey(url("a")))
        #expect(!test.cache.hasData(for: url("a")))
        await test.cache.shutdown()
    }

    // MARK: With all that was made from it

    @Test("a key is derived of its origin alone")
    func keys() {
        for key in derived { #expect(key.isDerived(of: origin) && key.isDerived, "\(key)") }
        for key in others { #expect(!key.isDerived(of: origin), "\(key)") }
        #expect(!CacheKey(url("a"), headers: ["#": "#"]).isDerived)
    }

    @Test("what was made from an entry goes from memory and disk, at once for readers, and nothing else")
    func removesDerived() async throws {
        let folder = TemporaryFolder()
        let cache = DataCache(configuration(folder))
        for key in derived + others { try await cache.addDataAndWait(body(key), for: key) }
        cache.removeDerived(of: origin)
        for key in derived { #expect(!cache.hasData(for: key) && cache.data(for: key) == nil, "\(key)") }
        await cache.synchronize()
        #expect(cache.memoryCount == others.count && cache.diskCount == others.count)
        cache.clearMemory()
        for key in derived { #expect(cache.data(for: key) == nil, "\(key)") }
        for key in others { #expect(cache.data(for: key) == body(key), "\(key)") }
        await cache.shutdown()
    }

    @Test("the same in a folder that was written by an earlier run")
    func reopened() async throws {
        let folder = TemporaryFolder()
        let first = DataCache(configuration(folder))
        for key in derived + others { try await first.addDataAndWait(body(key), for: key) }
        await first.shutdown()
        let second = DataCache(configuration(folder))
        for key in derived { #expect(second.data(for: key) == body(key)) }
        second.removeDerived(of: origin)
        await second.shutdown()
        let third = DataCache(configuration(folder))
        for key in derived { #expect(third.data(for: key) == nil, "\(key)") }
        for key in others { #expect(third.data(for: key) == body(key), "\(key)") }
        #expect(await third.verify().isSound)
        await third.shutdown()
    }

    @Test("a write that was staged before does not survive, one that comes after does")
    func staged() async throws {
        let folder = TemporaryFolder()
        let cache = DataCache(configuration(folder))
        let disk = try #require(cache.store.disk)
        let stall = DispatchSemaphore(value: 0)
        disk.writer.run { stall.wait() }
        for key in derived + others { try cache.addData(body(key), for: key) }
        let after = derived[1]
        cache.removeDerived(of: origin)
        try cache.addData(Data("after".utf8), for: after)
        try cache.addData(Data("new".utf8), for: "new")
        stall.signal()
        await cache.synchronize()
        cache.clearMemory()
        for key in derived where key != after { #expect(cache.data(for: key) == nil, "\(key)") }
        for key in others { #expect(cache.data(for: key) == body(key), "\(key)") }
        #expect(cache.data(for: after) == Data("after".utf8) && cache.data(for: "new") == Data("new".utf8))
        await cache.shutdown()
    }

    @Test("a read from disk that was under way does not bring it back to memory")
    func readUnderWay() async throws {
        let folder = TemporaryFolder()
        let cache = DataCache(configuration(folder))
        let key = derived[0]
        for _ in 0..<50 {
            try await cache.addDataAndWait(body(key), for: key)
            cache.clearMemory()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = cache.data(for: key) }
                group.addTask { cache.removeDerived(of: CacheKey("http://host.test/a.jpg")) }
            }
            #expect(cache.data(for: key) == nil)
        }
        await cache.shutdown()
    }

    @Test("files that a new index does not list yet go as well")
    func rebuilding() async throws {
        let folder = TemporaryFolder()
        let first = DataCache(configuration(folder))
        for key in derived + others { try await first.addDataAndWait(Data(count: 9_000), for: key) }
        await first.shutdown()
        for name in folder.files where name.hasPrefix("index") {
            try FileManager.default.removeItem(atPath: folder.url.path + "/" + name)
        }
        let second = DataCache(configuration(folder))
        second.removeDerived(of: origin)
        await second.synchronize()
        for key in derived { #expect(second.data(for: key) == nil, "\(key)") }
        for key in others { #expect(second.data(for: key) != nil, "\(key)") }
        await second.shutdown()
    }

    @Test("the index that finds them is used")
    func index() async throws {
        let folder = TemporaryFolder()
        let first = DataCache(configuration(folder))
        for key in derived { try await first.addDataAndWait(body(key), for: key) }
        await first.shutdown()
        let path = folder.url.path + "/index.sqlite"
        let second = DataCache(configuration(folder))
        second.removeDerived(of: origin)
        await second.shutdown()
        let plan = try await DatabaseQueue(path: path).read { db in
            try Row.fetchOne(
                db,
                sql: """
                    EXPLAIN QUERY PLAN SELECT name, size FROM entry
                    WHERE instr(key, x'0A23') > 0 AND key >= x'61' AND key < x'62' LIMIT 1
                    """
            )?["detail"] as String?
        }
        #expect(plan?.contains("entry_by_origin (key>? AND key<?)") == true, "\(plan ?? "none")")
        let third = DataCache(configuration(folder))
        #expect(third.diskCount == 0)
        await third.shutdown()
    }

    @Test("a clear that takes away what held everything up lets it go on")
    func clearEndsBacklog() async throws {
        let folder = TemporaryFolder()
        let last = Box(BacklogNotice(backlog: .none, number: 0))
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let tier = DiskTier(
            .init(folder: folder.url.path, stagingLimit: 10_000), logger: logger, now: ManualDate().time,
            onBacklog: { notice in last.update { if notice.number > $0.number { $0 = notice } } })
        let stall = DispatchSemaphore(value: 0)
        tier.writer.run { stall.wait() }
        for number in 0..<5 {
            tier.write(
                EntryRecord(
                    key: CacheKey("\(number)"),
                    value: StoredData(data: Data(count: 5_000), info: EntryInfo(url: "", stored: 0)),
                    lifetime: .forever))
        }
        #expect(last.value.backlog == .full)
        tier.clear()
        #expect(last.value.backlog == .none)
        stall.signal()
        await tier.shutdown()
    }
}
