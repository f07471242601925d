import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("The order of eviction decides who leaves first", .timeLimit(.minutes(2)))
struct EvictionTests {
    private func cache(_ order: EvictionOrder) -> TestCache {
        TestCache {
            $0.memoryCountLimit = 3
            $0.evictionOrder = order
        }
    }

    private func add(_ keys: [String], to test: TestCache) throws {
        for key in keys { try test.cache.addData(Data(count: 10), for: CacheKey(key)) }
    }

    // MARK: Memory

    @Test("memory keeps what was used often, and drops what was used once", arguments: [true, false])
    func inMemory(isFrequency: Bool) async throws {
        #expect(DataCache.Configuration().evictionOrder == .leastRecentlyUsed)
        let test = cache(isFrequency ? .leastFrequentlyUsed : .leastRecentlyUsed)
        try add(["often"], to: test)
        for _ in 0..<3 { #expect(test.cache.data(for: "often") != nil) }
        try add(["b", "c", "d"], to: test)
        #expect(test.cache.hasData(for: "often") == isFrequency && test.cache.hasData(for: "b") == !isFrequency)
        #expect(test.cache.hasData(for: "c") && test.cache.hasData(for: "d") && test.cache.memoryCount == 3)
        await test.cache.shutdown()
    }

    @Test("memory drops an old favourite in the end, and can be emptied however often its entries were used")
    func favourite() async throws {
        let test = cache(.leastFrequentlyUsed)
        try add(["old"], to: test)
        for _ in 0..<1_000 { _ = test.cache.data(for: "old") }
        try add((0..<5).map { "\($0)" }, to: test)
        #expect(test.cache.hasData(for: "old"))
        try add((5..<100).map { "\($0)" }, to: test)
        #expect(!test.cache.hasData(for: "old") && test.cache.hasData(for: "99"), "a new entry is kept")
        for key: CacheKey in ["97", "98", "99"] { for _ in 0..<300 { _ = test.cache.data(for: key) } }
        test.cache.trimMemory(to: 0)
        #expect(test.cache.memoryCount == 0 && test.cache.memorySize == 0)
        await test.cache.shutdown()
    }

    // MARK: Disk

    private func disk(_ folder: TemporaryFolder, _ order: EvictionOrder, _ date: ManualDate) -> DataCache {
        TestCache.onDisk(folder, date: date) { $0.evictionOrder = order }.cache
    }

    /// Stores entries with one-letter keys, each later than the one before it.
    private func fill(_ cache: DataCache, _ keys: String, _ date: ManualDate) async throws {
        for key in keys {
            date.advance(by: 1)
            try await cache.keep([String(key)], size: 3_000)
        }
    }

    /// Trims the disk to the size of four of the entries, and a little more.
    private func trimToFour(_ cache: DataCache) async {
        cache.trim(toDiskSize: 12_950)
        await cache.synchronize()
    }

    private func has(_ cache: DataCache, _ keys: String) -> Bool {
        keys.allSatisfy { cache.hasData(for: CacheKey(String($0))) }
    }

    @Test("the disk keeps what was used often, also over a restart, and drops it in the end", arguments: [true, false])
    func onDisk(isFrequency: Bool) async throws {
        let (folder, date) = (TemporaryFolder(), ManualDate())
        let order = isFrequency ? EvictionOrder.leastFrequentlyUsed : .leastRecentlyUsed
        var cache = disk(folder, order, date)
        try await fill(cache, "a", date)
        for _ in 0..<3 { #expect(cache.data(for: "a") != nil) }
        await cache.shutdown()
        cache = disk(folder, order, date)
        try await fill(cache, "bcdefgh", date)
        for (more, isThere) in [("", true), ("ijkl", true), ("mnop", false)] {
            try await fill(cache, more, date)
            await trimToFour(cache)
            #expect(cache.diskCount == 4)
            #expect(cache.hasData(for: "a") == (isFrequency && isThere), "after \(more)")
        }
        #expect(has(cache, "p") && !cache.hasData(for: "b"))
        #expect(await cache.verify().isSound)
        await cache.shutdown()
    }
}
