import Testing

@testable import DipperData

@Suite("The table of keys", .timeLimit(.minutes(5)))
struct KeyTableTests {
    @Test("it finds what a dictionary finds, with hashes that collide", arguments: [3, 60, 64])
    func model(bits: UInt64) {
        let seed = UInt64.random(in: .min ... .max)
        print("key table: \(bits) bits, seed \(seed)")
        var random = SplitMix(state: seed)
        var table = KeyTable<JobIndex>()
        var model: [UInt64: JobIndex] = [:]
        var hashes: [JobIndex: UInt64] = [:]
        var next: UInt32 = 0
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
                #expect(table.find(hash) { hashes[$0] == hash } == nil, "seed \(seed)")
                let slot = JobIndex(raw: next)
                model[hash] = slot
                hashes[slot] = hash
                table.insert(hash, slot)
                next += 1
            }
            #expect(table.count == model.count)
        }
        for (hash, slot) in model { #expect(table.find(hash) { hashes[$0] == hash } == slot) }
    }

    @Test("it moves entries, and shrinks when less than a quarter of it is in use")
    func shrinks() {
        var table = KeyTable<JobIndex>()
        func hash(_ number: UInt32) -> UInt64 { UInt64(number) &* 0x9E37_79B9_7F4A_7C15 }
        for number in 0..<10_000 as Range<UInt32> { table.insert(hash(number), JobIndex(raw: number)) }
        #expect(table.capacity == 16_384)
        for number in 20..<10_000 as Range<UInt32> {
            table.remove(hash(number), JobIndex(raw: number))
            #expect(table.capacity == 16 || table.count * 4 >= table.capacity)
        }
        #expect(table.capacity == 64)
        for number in 0..<20 as Range<UInt32> {
            let moved = JobIndex(raw: number + 100)
            table.move(hash(number), from: JobIndex(raw: number), to: moved)
            #expect(table.find(hash(number)) { $0 == moved } == moved)
        }
    }
}
