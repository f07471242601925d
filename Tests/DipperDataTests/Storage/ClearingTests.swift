import TestSupport
import Testing

@testable import DipperData

@Suite("Clearing the disk", .timeLimit(.minutes(2)))
struct ClearingTests {
    private let folder = TemporaryFolder()

    private func open() -> DataCache {
        var configuration = DataCache.Configuration(directory: folder.url)
        configuration.memoryLimit = 0
        return DataCache(configuration)
    }

    private func add(_ sizes: KeyValuePairs<String, Int>, to cache: DataCache) async throws {
        for (key, size) in sizes { try await cache.addDataAndWait(Data(count: size), for: CacheKey(verbatim: key)) }
    }

    private var blobs: Int { folder.files.count { $0.hasPrefix("blobs/") } }

    @Test("what is there is gone for every store at once, and what comes while it is removed stays")
    func sharedFolder() async throws {
        let (one, two) = (open(), open())
        for number in 0..<1_500 { try one.addData(Data(count: 100), for: CacheKey(verbatim: "\(number)")) }
        try await add(["large": 9_000, "larger": 20_000], to: one)
        #expect(two.diskCount == 1_502)
        one.clear()
        try await add(["new": 9_000, "7": 200, "large": 10], to: one)
        for cache in [one, two] {
            #expect(cache.diskCount == 3 && cache.diskSize == one.diskSize)
            #expect(
                cache.readData(for: "larger") == nil && cache.entry(for: "larger") == nil && !cache.hasData(for: "8"))
            #expect(cache.readData(for: "7")?.count == 200 && cache.readData(for: "large")?.count == 10)
            var listed: Set<String> = []
            cache.forEachEntry { listed.insert($0.key.string) }
            #expect(listed == ["7", "large", "new"])
        }
        await one.synchronize()
        #expect(blobs == 1)
        two.trimDisk(to: 0)
        await two.synchronize()
        #expect(one.diskCount == 0 && one.diskSize == 0 && blobs == 0)
        for cache in [one, two] { await cache.shutdown() }
    }

    @Test(
        "all of a URL goes, in many steps, also from an index that cannot search by URL, as an earlier version made it")
    func olderIndex() async throws {
        let first = open()
        for number in 0..<300 {
            let request = DataRequest(url("a")).with(\.key, CacheKey("\(number)"))
            try first.addData(Data(count: number % 10 == 0 ? 9_000 : 100), for: request)
        }
        try await first.addDataAndWait(Data(count: 10), for: DataRequest(url("b")).with(\.key, "b"))
        await first.shutdown()
        let index = try EntryIndex(path: folder.path + "/index.sqlite", boot: Boot.current)
        let plan = try index.read { db in
            let query = "EXPLAIN QUERY PLAN SELECT id FROM entry WHERE \(EntryIndex.isOfURL) LIMIT 1"
            return try db.all(query, Data(), Data(), Data()) { $0.text(3) }.compactMap { $0 }
        }
        #expect(plan.count { $0.contains("entry_by_url") } == 2 && plan.count { $0.contains("entry_by_asked") } == 1)
        try index.transaction { try $0.run(script: "DROP INDEX entry_by_url; DROP INDEX entry_by_asked") }
        index.close()
        let cache = open()
        cache.removeData(for: url("a"))
        #expect(!cache.hasData(for: "7") && cache.entry(for: "10") == nil && cache.hasData(for: "b"))
        await cache.synchronize()
        #expect(cache.diskCount == 1 && cache.hasData(for: "b") && blobs == 0)
        await cache.shutdown()
    }

    @Test(
        "a clearing that a kill has cut short is ended by another store; verifying and the limit count right meanwhile",
        arguments: [false, true])
    func cutShort(isOpen: Bool) async throws {
        let first = open()
        for number in 0..<300 { try await add(["\(number)": number % 10 == 0 ? 9_000 : 100], to: first) }
        await first.synchronize()
        #expect(blobs == 30)
        if !isOpen { await first.shutdown() }
        let index = try EntryIndex(path: folder.path + "/index.sqlite", boot: Boot.current)
        #expect(try index.clear().0.entries == 300)
        #expect(try index.isCounted() && index.hasCleared() && index.firstExpiration() == nil)
        let removed = try index.removeSome(of: .oldest(untilSize: 0))
        #expect(removed.totals == .init() && removed.blobs.isEmpty && removed.rest == nil)
        index.close()
        let next = isOpen ? first : open()
        try await add(["5": 9_000], to: next)
        #expect(next.diskCount == 1 && next.readData(for: "5")?.count == 9_000 && next.readData(for: "6") == nil)
        let report = await next.verify()
        #expect(report.isSound && report.sound == 1, "\(report)")
        await next.reconcile()
        #expect(blobs == 1 && next.diskCount == 1)
        await next.shutdown()
    }
}
