import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The order of eviction decides who leaves first", .timeLimit(.minutes(5)))
struct EvictionOrderTests {
    // MARK: The value

    @Test("the least frequently used entry leaves; a use is worth less each time it spares an entry")
    func rule() {
        let order = EvictionOrder.leastFrequentlyUsed
        #expect(order.spared(0) == nil)
        #expect(order.spared(1) == 0)
        #expect(order.spared(2) == 1)
        #expect(order.spared(7) == 3)
        var uses: UInt8? = .max
        var turns = 0
        while let left = uses, turns < 100 {
            uses = order.spared(left)
            turns += 1
        }
        #expect(turns == 9, "spared eight times")
        #expect(EvictionOrder.counted(3) == 4)
        #expect(EvictionOrder.counted(.max) == .max)
    }

    @Test("uses do not matter to the order of last use")
    func recency() {
        for uses: UInt8 in [0, 1, .max] { #expect(EvictionOrder.leastRecentlyUsed.spared(uses) == nil) }
        #expect(DataCache.Configuration().evictionOrder == .leastRecentlyUsed)
    }

    // MARK: Memory

    private func memory(_ order: EvictionOrder) -> MemoryTier<Int> {
        MemoryTier(limits: .init(cost: 1_000, count: 3), order: order, now: { Date(timeIntervalSince1970: 0) })
    }

    @Test("memory keeps what was used often, and drops what was used once", arguments: [true, false])
    func inMemory(isFrequency: Bool) {
        let tier = memory(isFrequency ? .leastFrequentlyUsed : .leastRecentlyUsed)
        tier.insert(1, for: "often", cost: 1, lifetime: .forever)
        for _ in 0..<3 { #expect(tier.value(for: "often") == 1) }
        for key: CacheKey in ["b", "c", "d"] { tier.insert(2, for: key, cost: 1, lifetime: .forever) }
        #expect(tier.contains("often") == isFrequency)
        #expect(tier.contains("b") == !isFrequency)
        #expect(tier.contains("c") && tier.contains("d") && tier.entryCount == 3)
    }

    @Test("memory drops an old favourite in the end")
    func ageing() {
        let tier = memory(.leastFrequentlyUsed)
        tier.insert(1, for: "old", cost: 1, lifetime: .forever)
        for _ in 0..<1_000 { #expect(tier.value(for: "old") == 1) }
        for number in 0..<5 { tier.insert(2, for: CacheKey("\(number)"), cost: 1, lifetime: .forever) }
        #expect(tier.contains("old"))
        for number in 5..<100 { tier.insert(2, for: CacheKey("\(number)"), cost: 1, lifetime: .forever) }
        #expect(!tier.contains("old"))
        #expect(tier.contains("99"), "a new entry is kept")
    }

    @Test("memory can be emptied, however often its entries were used")
    func emptied() {
        let tier = memory(.leastFrequentlyUsed)
        for key: CacheKey in ["a", "b", "c"] {
            tier.insert(1, for: key, cost: 1, lifetime: .forever)
            for _ in 0..<300 { #expect(tier.value(for: key) == 1) }
        }
        tier.trim(toCost: 0)
        #expect(tier.entryCount == 0 && tier.totalCost == 0)
    }

    // MARK: Disk

    /// Returns a disk tier whose clock the test moves on.
    private func disk(_ folder: TemporaryFolder, _ order: EvictionOrder, _ date: ManualDate) -> DiskTier {
        var options = DiskTier.Options(folder: folder.path)
        options.evictionOrder = order
        return DiskTier(options, logger: LogLines().logger, now: date.time)
    }

    /// Writes entries with one-letter keys, each later than the one before it.
    private func fill(_ tier: DiskTier, _ keys: String, _ date: ManualDate) async {
        for key in keys {
            date.advance(by: 1)
            tier.write(diskRecord(String(key), size: 3_000))
            await tier.synchronize()
        }
    }

    /// The size of four of the entries, and a little more.
    private let four = 12_800

    @Test("the disk keeps what was used often, and drops it in the end", arguments: [true, false])
    func onDisk(isFrequency: Bool) async {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let order = isFrequency ? EvictionOrder.leastFrequentlyUsed : .leastRecentlyUsed
        var tier = disk(folder, order, date)
        await fill(tier, "a", date)
        for _ in 0..<3 { #expect(tier.entry(for: "a") != nil) }
        // Writes the accesses.
        await tier.shutdown()
        tier = disk(folder, order, date)
        await fill(tier, "bcdefgh", date)
        for (more, isThere) in [("", true), ("ijkl", true), ("mnop", false)] {
            await fill(tier, more, date)
            tier.trim(toSize: four)
            await tier.synchronize()
            #expect(tier.totals.entries == 4)
            #expect(tier.contains("a") == (isFrequency && isThere), "after \(more)")
        }
        #expect(tier.contains("p") && !tier.contains("b"))
        #expect(await tier.verify().isSound)
        await tier.shutdown()
    }

    @Test("an index that does not count uses begins to, and can be used without again")
    func olderIndex() async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        var tier = disk(folder, .leastRecentlyUsed, date)
        await fill(tier, "abcdefgh", date)
        date.advance(by: 1)
        #expect(tier.entry(for: "a") != nil)
        await tier.shutdown()

        tier = disk(folder, .leastFrequentlyUsed, date)
        #expect(tier.totals.entries == 8)
        tier.trim(toSize: four)
        await tier.synchronize()
        #expect("fgha".allSatisfy { tier.contains(CacheKey(String($0))) }, "the last accesses count")
        await tier.shutdown()

        tier = disk(folder, .leastRecentlyUsed, date)
        await fill(tier, "ijkl", date)
        var index = try #require(tier.opened.index)
        #expect(try index.hasOwnSchema())
        tier.remove("l")
        await tier.synchronize()
        await tier.shutdown()

        tier = disk(folder, .leastFrequentlyUsed, date)
        tier.trim(toSize: four)
        await tier.synchronize()
        #expect(tier.totals.entries == 4)
        #expect("aijk".allSatisfy { tier.contains(CacheKey(String($0))) }, "others' writes are in line as well")
        index = try #require(tier.opened.index)
        #expect(try index.hasOwnSchema())
        #expect(await tier.verify().isSound)
        await tier.shutdown()
    }

    @Test("the limit holds although every entry was used often")
    func limit() async {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let tier = disk(folder, .leastFrequentlyUsed, date)
        await fill(tier, "abcdefgh", date)
        for key in "abcdefgh" {
            for _ in 0..<300 { #expect(tier.entry(for: CacheKey(String(key))) != nil) }
        }
        tier.trim(toSize: four)
        await tier.synchronize()
        #expect(tier.totals.entries == 4)
        tier.trim(toSize: 0)
        await tier.synchronize()
        #expect(tier.totals.entries == 0)
        await tier.shutdown()
    }
}
