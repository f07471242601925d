import Testing

@testable import DipperData

@Suite("The table of keys", .timeLimit(.minutes(5)))
struct KeyTableTests {
    @Test("it finds what a dictionary finds, also keys whose hashes are alike or the same", arguments: [0, 2, 32])
    func model(shift: Int) {
        let seed = UInt64.random(in: .min ... .max)
        print("key table: hashes shifted by \(shift), seed \(seed)")
        var random = SplitMix(state: seed)
        var table = KeyTable<JobIndex>()
        var places: [Int: JobIndex] = [:]
        var keys: [JobIndex: Int] = [:]
        var next: UInt32 = 0
        // Eight keys have each hash, and with the greatest shift all entries are in one run.
        func hash(_ key: Int) -> UInt64 { UInt64(key % 64) << shift }
        for _ in 0..<20_000 {
            let key = random.below(512)
            #expect(table.find(hash(key)) { keys[$0] == key } == places[key], "seed \(seed)")
            if let place = places[key] {
                if random.below(2) == 0 {
                    table.remove(hash(key), place)
                    places[key] = nil
                    keys[place] = nil
                }
            } else {
                let place = JobIndex(raw: next)
                places[key] = place
                keys[place] = key
                table.insert(hash(key), place)
                next += 1
            }
            #expect(table.count == places.count)
        }
        for (key, place) in places { #expect(table.find(hash(key)) { keys[$0] == key } == place) }
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
