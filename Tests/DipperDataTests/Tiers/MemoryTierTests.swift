import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The memory tier", .timeLimit(.minutes(5)))
struct MemoryTierTests {
    private func tier(_ cost: Int, count: Int? = nil, _ date: ManualDate = ManualDate()) -> MemoryTier<Int> {
        MemoryTier(limits: .init(cost: cost, count: count), now: { date.now })
    }

    @Test("it gives back what a naive list of the same rules gives back")
    func model() {
        let seed = UInt64.random(in: .min ... .max)
        print("memory tier: seed \(seed)")
        var random = SplitMix(state: seed)
        let tier = tier(1_000)
        var list: [(key: Int, value: Int, cost: Int)] = []  // most recently used first
        for step in 0..<20_000 {
            let key = random.below(60)
            switch random.below(4) {
            case 0:
                let cost = random.below(120)
                list.removeAll { $0.key == key }
                if cost <= 100 { list.insert((key, step, cost), at: 0) }
                while list.reduce(0, { $0 + $1.cost }) > 1_000 { list.removeLast() }
                tier.insert(step, for: CacheKey("\(key)"), cost: cost, lifetime: .forever)
            case 1 where random.below(4) == 0:
                list.removeAll { $0.key == key }
                tier.remove(CacheKey("\(key)"))
            default:
                let found = list.firstIndex { $0.key == key }
                #expect(tier.value(for: CacheKey("\(key)")) == found.map { list[$0].value }, "seed \(seed)")
                if let found { list.insert(list.remove(at: found), at: 0) }
            }
            #expect(tier.totalCost == list.reduce(0) { $0 + $1.cost }, "seed \(seed)")
            #expect(tier.entryCount == list.count)
        }
    }

    @Test("a value that costs more than a tenth of the limit is not kept, and neither is the one before it")
    func oversize() {
        let tier = tier(1_000)
        tier.insert(1, for: "a", cost: 100, lifetime: .forever)
        tier.insert(2, for: "a", cost: 101, lifetime: .forever)
        #expect(tier.value(for: "a") == nil)
        #expect(tier.totalCost == 0)
    }

    @Test("the number of entries is limited too")
    func countLimit() {
        let tier = tier(1_000, count: 3)
        for number in 0..<5 { tier.insert(number, for: CacheKey("\(number)"), cost: 1, lifetime: .forever) }
        #expect((0..<5).map { tier.value(for: CacheKey("\($0)")) } == [nil, nil, 2, 3, 4])
    }

    @Test("trimming goes on while another thread removes the entries that it is about to remove")
    func trimsDuringRemovals() {
        let tier = tier(1_000_000)
        let keys = (0..<32).map { CacheKey("\($0)") }
        for round in 0..<workload(2_000) {
            for (number, key) in keys.enumerated() { tier.insert(number, for: key, cost: 1, lifetime: .forever) }
            DispatchQueue.concurrentPerform(iterations: 2) { thread in
                if thread == 0 { tier.trim(toCost: 0) } else { for key in keys.dropLast(2) { tier.remove(key) } }
            }
            #expect(tier.entryCount == 0, "round \(round)")
        }
    }

    @Test("after trims to nothing the limit is what it was")
    func trims() {
        let tier = tier(1_000)
        for _ in 0..<3 {
            for number in 0..<10 { tier.insert(number, for: CacheKey("\(number)"), cost: 100, lifetime: .forever) }
            #expect(tier.entryCount == 10)
            tier.trim(toCost: 0)
            tier.trim(toCost: 0)
            #expect(tier.entryCount == 0)
        }
    }

    @Test("entries expire, and accesses extend the life of those that say so")
    func lifetimes() {
        let date = ManualDate()
        let tier = tier(1_000, date)
        let start = date.now.timeIntervalSince1970
        tier.insert(1, for: "fixed", cost: 1, lifetime: Lifetime(expires: start + 10, accessExtension: nil))
        tier.insert(2, for: "extended", cost: 1, lifetime: Lifetime(expires: start + 10, accessExtension: 10))
        for _ in 0..<3 {
            date.advance(by: 6)
            #expect(tier.value(for: "extended") == 2)
        }
        #expect(tier.value(for: "fixed") == nil)
        #expect(tier.entryCount == 1)
        date.advance(by: 10)
        #expect(!tier.contains("extended"))
        tier.removeExpired()
        #expect(tier.entryCount == 0)
    }

    @Test("many threads at a time: the limit holds and the count is right in the end")
    func threads() async {
        let tier = tier(10_000)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for step in 0..<5_000 {
                        let key = CacheKey("\((step * 7 + worker) % 300)")
                        if step % 3 == 0 { tier.insert(step, for: key, cost: 100, lifetime: .forever) }
                        _ = tier.value(for: key)
                        if step % 50 == 0 { tier.remove(key) }
                    }
                }
            }
        }
        #expect(tier.totalCost <= 10_000)
        #expect(tier.totalCost == tier.entryCount * 100)
        tier.removeAll()
        #expect(tier.totalCost == 0 && tier.entryCount == 0)
    }
}
