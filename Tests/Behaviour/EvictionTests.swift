import TestSupport
import Testing

@Suite("The order of eviction decides who leaves first", .timeLimit(.minutes(2)))
struct EvictionTests {
    private func memory(_ order: EvictionOrder, count: Int = 3) -> DataCache {
        TestCache {
            $0.memoryCountLimit = count
            $0.evictionOrder = order
        }.cache
    }

    private func add(_ keys: [String], to cache: DataCache) throws {
        for key in keys { try cache.addData(Data(count: 10), for: CacheKey(key)) }
    }

    @Test("memory keeps what was used often, and drops what was used once", arguments: [true, false])
    func inMemory(isFrequency: Bool) throws {
        #expect(DataCache.Configuration().evictionOrder == .adaptive)
        let cache = memory(isFrequency ? .leastFrequentlyUsed : .leastRecentlyUsed)
        try add(["often"], to: cache)
        for _ in 0..<3 { #expect(cache.readData(for: "often") != nil) }
        try add(["b", "c", "d"], to: cache)
        #expect(cache.hasData(for: "often") == isFrequency && cache.hasData(for: "b") == !isFrequency)
        #expect(cache.hasData(for: "c") && cache.hasData(for: "d") && cache.memoryCount == 3)
    }

    @Test("memory drops an old favourite in the end, and can be emptied however often its entries were used")
    func favourite() throws {
        let cache = memory(.leastFrequentlyUsed)
        try add(["old"], to: cache)
        for _ in 0..<1_000 { _ = cache.readData(for: "old") }
        try add((0..<5).map { "\($0)" }, to: cache)
        #expect(cache.hasData(for: "old"))
        try add((5..<100).map { "\($0)" }, to: cache)
        #expect(!cache.hasData(for: "old") && cache.hasData(for: "99"), "a new entry is kept")
        for key: CacheKey in ["97", "98", "99"] { for _ in 0..<300 { _ = cache.readData(for: key) } }
        cache.trimMemory(to: 0)
        #expect(cache.memoryCount == 0 && cache.memorySize == 0)
    }

    @Test("by default memory keeps what is used often over a long scan, and drops it when others are used instead")
    func scan() throws {
        let cache = memory(.adaptive, count: 10)
        try add(["a", "b"], to: cache)
        for _ in 0..<7 { #expect(cache.readData(for: "a") != nil && cache.readData(for: "b") != nil) }
        try add((0..<200).map { "\($0)" }, to: cache)
        #expect(cache.hasData(for: "a") && cache.hasData(for: "b") && cache.memoryCount == 10)
        #expect((193..<200).allSatisfy { cache.hasData(for: CacheKey("\($0)")) }, "the newest are there")
        for number in 200..<300 {
            try add(["\(number)"], to: cache)
            for _ in 0..<7 { #expect(cache.readData(for: CacheKey("\(number)")) != nil) }
        }
        #expect(!cache.hasData(for: "a") && !cache.hasData(for: "b") && cache.memoryCount == 10)
    }

    @Test("by default an entry that comes back soon after it has left counts as used")
    func comesBack() throws {
        let cache = memory(.adaptive, count: 1_000)
        try add((0..<1_000).map { "\($0)" }, to: cache)
        // The first hundred leave, come back, and stay while a thousand others come and go.
        try add((1_000..<1_100).map { "\($0)" }, to: cache)
        #expect((0..<100).allSatisfy { !cache.hasData(for: CacheKey("\($0)")) })
        try add((0..<100).map { "\($0)" }, to: cache)
        try add((2_000..<3_500).map { "\($0)" }, to: cache)
        let kept = (0..<100).count { cache.hasData(for: CacheKey("\($0)")) }
        #expect(kept > 50, "\(kept) of 100: a few are forgotten, because marks share places")
    }

    @Test("the disk keeps what was used often, also over a restart, and drops it in the end", arguments: [true, false])
    func onDisk(isFrequency: Bool) async throws {
        let (folder, date) = (TemporaryFolder(), ManualDate())
        func open() -> DataCache {
            let order = isFrequency ? EvictionOrder.leastFrequentlyUsed : .adaptive
            return TestCache.onDisk(folder, date: date) { $0.evictionOrder = order }.cache
        }
        /// Stores entries with one-letter keys, each later than the one before it.
        func fill(_ cache: DataCache, _ keys: String) async throws {
            for key in keys {
                date.advance(by: 1)
                try await cache.keep([String(key): 3_000])
            }
        }
        var cache = open()
        try await fill(cache, "a")
        for _ in 0..<3 { #expect(cache.readData(for: "a") != nil) }
        await cache.shutdown()
        cache = open()
        try await fill(cache, "bcdefgh")
        for (more, isThere) in [("", true), ("ijkl", true), ("mnop", false)] {
            try await fill(cache, more)
            // The size of four of the entries, and a little more.
            cache.trimDisk(to: 12_950)
            await cache.synchronize()
            #expect(cache.diskCount == 4)
            #expect(cache.hasData(for: "a") == (isFrequency && isThere), "after \(more)")
        }
        #expect(cache.hasData(for: "p") && !cache.hasData(for: "b"))
        #expect(await cache.verify().isSound)
    }
}
