import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Entries in memory are found by their URLs", .timeLimit(.minutes(1)))
struct URLIndexTests {
    private let expiries = ExpiryWatch { _ in }
    private let urls = (0..<4).map { "http://host.test/\($0)" }

    private func tier() -> MemoryTier<StoredData> {
        MemoryTier(
            limits: .init(cost: 1_000_000), order: .leastRecentlyUsed, history: RemovalHistory(),
            now: { Date(timeIntervalSince1970: 10) }, expiries: expiries, onCleaned: nil)
    }

    private func key(_ random: inout SeededRandom) -> CacheKey {
        let parts = ["", "", "\n:user=1", "\n#small", "\n:user=1\n#small"]
        let own = random.chance(6) ? "mine" : urls[random.below(urls.count)]
        return CacheKey(verbatim: own + parts[random.below(parts.count)])
    }

    private func info(_ random: inout SeededRandom) -> EntryInfo {
        let names = urls + ["", "provider:"]
        return EntryInfo(
            url: names[random.below(names.count)], asked: random.chance(3) ? urls[random.below(urls.count)] : nil,
            stored: 5)
    }

    @Test("whatever their keys, as a search of all entries would find them", arguments: 0..<10)
    func walk(seed: Int) {
        var random = SeededRandom(UInt64(seed))
        let tier = tier()
        var there: [CacheKey: EntryInfo] = [:]
        for step in 0..<500 {
            let (key, url) = (key(&random), urls[random.below(urls.count)])
            switch random.below(8) {
            case 0:
                tier.remove(key)
                there[key] = nil
            case 1:
                let removed = Set(tier.removeAll(of: url))
                let plain = CacheKey(verbatim: url)
                let expected = there.filter { $0.value.isOf(url) || $0.key == plain }
                #expect(removed == Set(expected.keys).union([plain]), "step \(step)")
                for key in expected.keys { there[key] = nil }
            case 2:
                tier.removeDerived(of: key)
                there = there.filter { !$0.key.isDerived(of: key) }
            default:
                let info = info(&random)
                tier.insert(StoredData(data: Data(), info: info), for: key, cost: 10, lifetime: .forever)
                there[key] = info
            }
            let keys = Set(tier.entries { key, _, _, _, _ in key })
            #expect(keys == Set(there.keys), "step \(step)")
        }
        if seed.isMultiple(of: 2) { tier.removeAll() } else { tier.trim(toCost: 0) }
        #expect(!tier.hasDerived.load(ordering: .relaxed) && !tier.hasElsewhere.load(ordering: .relaxed))
    }

    @Test("while several threads change them, and nothing stays in the index")
    func threads() async {
        let (tier, urls) = (tier(), urls)
        await withTaskGroup(of: Void.self) { group in
            for seed in 0..<4 {
                group.addTask {
                    var random = SeededRandom(UInt64(seed))
                    for _ in 0..<2_000 {
                        let key = key(&random)
                        switch random.below(6) {
                        case 0: tier.remove(key)
                        case 1: tier.removeAll(of: urls[random.below(urls.count)])
                        case 2: tier.removeDerived(of: key)
                        default:
                            let value = StoredData(data: Data(), info: info(&random))
                            tier.insert(value, for: key, cost: 10, lifetime: .forever)
                        }
                    }
                }
            }
        }
        for url in urls { tier.removeAll(of: url) }
        #expect(
            tier.entries { _, value, _, _, _ in value.info }.allSatisfy { info in !urls.contains(where: info.isOf) })
        tier.removeAll()
        #expect(!tier.hasDerived.load(ordering: .relaxed) && !tier.hasElsewhere.load(ordering: .relaxed))
    }
}
