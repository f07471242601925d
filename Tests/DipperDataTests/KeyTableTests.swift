import Testing

@testable import DipperData

@Suite("The table of keys", .timeLimit(.minutes(5)))
struct KeyTableTests {
    @Test("it finds what a dictionary finds, with hashes that collide", arguments: [3, 60, 64])
    func model(bits: UInt64) {
        let seed = UInt64.random(in: .min ... .max)
        print("key table: \(bits) bits, seed \(seed)")
        var random = SplitMix(state: seed)
        var table = KeyTable()
        var model: [UInt64: Int32] = [:]
        var hashes: [Int32: UInt64] = [:]
        var next: Int32 = 0
        for _ in 0..<20_000 {
            // Few distinct hashes make long runs.
            let spread: UInt64 = bits == 3 ? 1 : 0x9E37_79B9_7F4A_7C15
            let hash = (random.next() % 512) &* spread & (bits == 64 ? .max : (1 << bits) - 1)
            if let slot = model[hash] {
                #expect(table.find(hash) { hashes[$0] == hash } == slot, "seed \(seed)")
                if random.below(2) == 0 {
                    table.remove(hash, slot)
                    model[hash] = nil
                    hashes[slot] = nil
                }
            } else {
                #expect(table.find(hash) { hashes[$0] == hash } == -1, "seed \(seed)")
                model[hash] = next
                hashes[next] = hash
                table.insert(hash, next)
                next += 1
            }
            #expect(table.count == model.count)
        }
        for (hash, slot) in model { #expect(table.find(hash) { hashes[$0] == hash } == slot) }
    }
}
