import Foundation
import Testing

@testable import DipperData

@Suite("Objects that somebody holds are found, until they are removed", .timeLimit(.minutes(1)))
struct HeldObjectsTests {
    private final class Picture: Sendable {}

    private let pressure = PressureRelay(nil) { _ in }
    private let expiries = ExpiryWatch { _ in }
    private let a = CacheKey(verbatim: "a"), part = CacheKey(verbatim: "a\n#part")

    private func tier(limit: Int = 1_000_000) -> ObjectMemoryTier {
        ObjectMemoryTier(
            limit: limit, count: nil, order: .leastRecentlyUsed, history: RemovalHistory(),
            now: { Date(timeIntervalSince1970: 10) },
            expiries: expiries, pressure: pressure, onCleaned: nil)
    }

    private func entry(_ picture: Picture, digest: UInt64 = 1, isAdded: Bool = false) -> ObjectMemoryTier.Entry {
        .init(
            product: Product(picture, cost: 10) { picture in { [weak picture] in picture } }, digest: digest,
            isAdded: isAdded, info: EntryInfo(url: "", stored: 5))
    }

    @Test("one that leaves memory while something is removed is not remembered; afterwards others are")
    func duringRemoval() {
        let (held, picture) = (HeldObjects(), Picture())
        func leave() {
            held.leaves(
                MemoryEntry(key: a, value: entry(picture), cost: 10, lifetime: .forever, stored: 5, entered: 5))
        }
        leave()
        #expect(held[a, at: 10]?.entry() != nil)
        held.remove(a) { leave() }
        #expect(held[a, at: 10] == nil)
        held.remove(where: { _ in true }) { leave() }
        held.remove(a, family: true, where: { _ in true }) { leave() }
        held.removeDerived(of: part) { leave() }
        #expect(held[a, at: 10] == nil)
        leave()
        #expect(held[a, at: 10]?.entry() != nil)
    }

    @Test("what is made of other bytes is removed, in memory and where it is held, with what is derived from it")
    func superseded() {
        let (tier, pictures) = (tier(), [Picture(), Picture()])
        for isEvicted in [false, true] {
            for (key, picture) in zip([a, part], pictures) {
                tier.insert(entry(picture, digest: 1), for: key, lifetime: .forever)
            }
            if isEvicted { tier.trim(to: 0) }
            tier.remove(a, family: true) { $0.digest != 1 }
            #expect(tier.contains(a) && tier.contains(part) && tier.family(of: a).count == 2)
            if isEvicted { tier.trim(to: 0) }
            tier.remove(a, family: true) { $0.digest != 2 }
            #expect(!tier.contains(a) && !tier.contains(part) && tier.family(of: a).isEmpty)
        }
    }

    @Test("an added one stays if only others are to be removed")
    func added() {
        let (tier, picture) = (tier(), Picture())
        for isEvicted in [false, true] {
            tier.insert(entry(picture, isAdded: true), for: a, lifetime: .forever)
            tier.insert(entry(picture), for: part, lifetime: .forever)
            if isEvicted { tier.trim(to: 0) }
            for key in [a, part] { tier.remove(key) { !$0.isAdded } }
            #expect(tier.contains(a) && !tier.contains(part))
        }
    }

    @Test("whatever threads evict, find, insert and remove at the same time, what was removed last is not found")
    func threads() async {
        let (tier, picture) = (tier(), Picture())
        for round in 0..<2_000 {
            tier.insert(entry(picture, digest: 1), for: part, lifetime: .forever)
            await withTaskGroup { group in
                group.addTask { tier.trim(to: 0) }
                group.addTask { _ = tier.entry(for: part) }
                group.addTask {
                    if round.isMultiple(of: 2) { tier.remove(part) } else { tier.remove(a, family: true) { _ in true } }
                }
            }
            #expect(tier.entry(for: part) == nil)
        }
        withExtendedLifetime(picture) {}
    }
}
