import Foundation
import Synchronization
import Testing

@testable import DipperData

@Suite("Things made from an entry are found in memory by its key", .timeLimit(.minutes(5)))
struct DerivedKeysTests {
    private func tier() -> MemoryTier<Int> {
        MemoryTier(limits: .init(cost: 1 << 30, count: nil), now: { Date(timeIntervalSince1970: 0) })
    }

    @Test("removing them takes no longer because there are many other entries")
    func manyOthers() {
        let tier = tier()
        for number in 0..<50_000 {
            tier.insert(1, for: CacheKey(verbatim: "http://host/\(number)\n#round"), cost: 1, lifetime: .forever)
        }
        // Looking at every entry, this would be two billion.
        for number in 0..<40_000 { tier.removeDerived(of: CacheKey("http://host/\(number)")) }
        #expect(tier.entryCount == 10_000)
    }

    @Test("exactly those that were made from it go, however keys were added, replaced and removed before")
    func model() {
        let tier = tier()
        var random = SplitMix(state: 3)
        var model: Set<String> = []
        let origins = ["a", "a\n", "a\n#x", "a\n#x\n#y", "b", "aa", "\n#a"]
        func key() -> String {
            let origin = origins[random.below(origins.count)]
            return random.below(3) == 0 ? origin : origin + "\n#\(random.below(3))"
        }
        for _ in 0..<20_000 {
            let text = key()
            switch random.below(8) {
            case 0:
                tier.removeDerived(of: CacheKey(verbatim: text))
                model = model.filter { !CacheKey(verbatim: $0).isDerived(of: CacheKey(verbatim: text)) }
            case 1:
                tier.remove(CacheKey(verbatim: text))
                model.remove(text)
            default:
                tier.insert(1, for: CacheKey(verbatim: text), cost: 1, lifetime: .forever)
                model.insert(text)
            }
            #expect(tier.entryCount == model.count)
        }
        for text in model { #expect(tier.contains(CacheKey(verbatim: text))) }
    }

    @Test("none is missed while others are added and removed at the same time")
    func concurrent() async {
        let tier = tier()
        let key = CacheKey(verbatim: "a\n#1")
        for _ in 0..<200 {
            await withTaskGroup(of: Void.self) { group in
                for worker in 0..<4 {
                    group.addTask {
                        for number in 0..<50 {
                            if (number + worker) % 3 == 0 {
                                tier.remove(key)
                            } else {
                                tier.insert(number, for: key, cost: 1, lifetime: .forever)
                            }
                        }
                    }
                }
            }
            tier.removeDerived(of: "a")
            #expect(tier.entryCount == 0 && !tier.contains(key))
        }
    }

    @Test("nothing is left behind by entries that have gone")
    func nothingLeft() {
        let keys = DerivedKeys()
        let derived = (0..<10).map { CacheKey(verbatim: "a\n#\($0)") }
        for _ in 0..<2 { for key in derived { keys.add(key) } }
        for key in derived { keys.remove(key) }
        #expect(Set(keys.keys(of: "a")) == Set(derived))
        for key in derived { keys.remove(key) }
        #expect(keys.keys(of: "a").isEmpty && keys.isEmpty)
        keys.add("a")
        keys.remove("b")
        #expect(keys.isEmpty)
    }
}
