import TestSupport
import Testing

@Suite("The memory tier", .timeLimit(.minutes(2)))
struct MemoryTierTests {
    private func cache(_ limit: Int, count: Int? = nil, _ order: EvictionOrder = .adaptive) -> TestCache {
        TestCache {
            $0.memoryLimit = limit
            $0.memoryCountLimit = count
            $0.evictionOrder = order
        }
    }

    @Test(
        "gives back what a naive list of the same rules gives back: an entry of more than a tenth of the limit is not kept",
        arguments: [1, 2, 3] as [UInt64])
    func model(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        var limit = 40_000
        let test = cache(limit, .leastRecentlyUsed)
        // What an entry with a key of two letters costs beside its bytes.
        try test.cache.addData(Data(count: 100), for: "xx")
        let extra = test.cache.memorySize - 100
        test.cache.clearMemory()
        var list: [(key: Int, bytes: Data)] = []  // most recently used first
        func total() -> Int { list.reduce(0) { $0 + $1.bytes.count + extra } }
        for step in 0..<4_000 {
            let key = 10 + random.below(60)
            let name = CacheKey("\(key)")
            switch random.below(100) {
            case ..<30:
                let bytes = DiskBytes.of(random.below(4_400), "\(step)")
                try test.cache.addData(bytes, for: name)
                list.removeAll { $0.key == key }
                if bytes.count + extra <= limit / 10 { list.insert((key, bytes), at: 0) }
                while total() > limit { list.removeLast() }
            case ..<38:
                test.cache.removeData(for: name)
                list.removeAll { $0.key == key }
            case 38:
                limit = 20_000 + random.below(40_000)
                test.cache.memoryLimit = limit
                while total() > limit { list.removeLast() }
            case 39:
                let size = random.below(limit)
                test.cache.trimMemory(to: size)
                while total() > size { list.removeLast() }
            case 40 where random.below(10) == 0:
                test.cache.clearMemory()
                list = []
            case ..<50:
                #expect(test.cache.hasData(for: name) == list.contains { $0.key == key }, "step \(step)")
            default:
                let found = list.firstIndex { $0.key == key }
                #expect(test.cache.readData(for: name) == found.map { list[$0].bytes }, "step \(step)")
                if let found { list.insert(list.remove(at: found), at: 0) }
            }
            try #require(test.cache.memorySize == total() && test.cache.memoryCount == list.count, "step \(step)")
        }
    }

    @Test(
        "gives back what two naive lines give back, of new entries and of used ones", arguments: [1, 2, 3] as [UInt64])
    func adaptiveModel(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        var limit = 40_000
        let test = cache(limit)
        try test.cache.addData(Data(count: 100), for: "xxxxx")
        let extra = test.cache.memorySize - 100
        test.cache.clearMemory()
        var lines = NaiveLines()
        // An entry that comes back soon after it has left is no new one, so no key comes back.
        var next = 10_000
        for step in 0..<6_000 {
            let known = lines.keys
            let key = known.isEmpty || random.below(4) == 0 ? next : known[random.below(known.count)]
            let name = CacheKey("\(key)")
            switch random.below(100) {
            case ..<50:
                let bytes = DiskBytes.of(random.below(4_400), "\(step)")
                try test.cache.addData(bytes, for: name)
                lines.add(key, bytes, cost: bytes.count + extra, isKept: bytes.count + extra <= limit / 10)
                lines.trim(to: limit)
                if key == next { next += 1 }
            case ..<54:
                test.cache.removeData(for: name)
                lines.remove(key)
            case 54:
                limit = 20_000 + random.below(40_000)
                test.cache.memoryLimit = limit
                lines.trim(to: limit)
            case 55:
                let size = random.below(limit)
                test.cache.trimMemory(to: size)
                lines.trim(to: size)
            default: #expect(test.cache.readData(for: name) == lines.use(key), "step \(step)")
            }
            try #require(
                test.cache.memorySize == lines.cost && test.cache.memoryCount == lines.keys.count, "step \(step)")
        }
        for key in 10_000..<next {
            #expect(test.cache.hasData(for: CacheKey("\(key)")) == lines.keys.contains(key))
        }
    }

    @Test("a version too large for memory is not followed there by the one it replaces on disk")
    func oversizeOnDisk() async throws {
        let folder = TemporaryFolder()
        let cache = TestCache(folder: folder) { $0.memoryLimit = 100_000 }.cache
        for round in 0..<60 {
            cache.clearMemory()
            let size = round % 2 == 0 ? 50_000 : 5_000
            await withTaskGroup(of: Void.self) { group in
                group.addTask { for _ in 0..<20 { _ = cache.readData(for: url("a")) } }
                group.addTask { try? cache.addData(Data(count: size), for: url("a")) }
            }
            #expect(cache.readData(for: url("a"))?.count == size)
        }
    }

    @Test("the number of entries is limited, and keys and header fields count in the size")
    func countAndSize() async throws {
        let test = cache(1 << 20, count: 3)
        for number in 0..<5 { try test.cache.addData(Data(count: 10), for: CacheKey("\(number)")) }
        #expect((0..<5).map { test.cache.hasData(for: CacheKey("\($0)")) } == [false, false, true, true, true])
        test.cache.memoryLimit = 10 << 20
        test.cache.memoryCountLimit = 1
        #expect(test.cache.memoryCount == 1 && test.cache.hasData(for: "4"))
        let fields = HTTPHeaders((0..<256).map { .init("X-\($0)", String(repeating: "x", count: 1_024)) })
        test.transport.script(url("a"), [.response(TransferResponse(headers: fields, body: Data(count: 10)))])
        _ = try await test.cache.getData(url("a")).value
        #expect(test.cache.memorySize > 256 << 10)
        test.cache.clearMemory()
        try test.cache.addData(Data(), for: CacheKey(String(repeating: "k", count: 10_000)))
        #expect(test.cache.memorySize > 10_000)
    }

    @Test("many threads at a time: the limit holds, and the totals are right in the end")
    func threads() async throws {
        let limit = 50_000
        let cache = cache(limit).cache
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for step in 0..<300 {
                        let key = CacheKey("\(100 + (step * 7 + worker) % 300)")
                        if step % 3 == 0 { try? cache.addData(Data(count: 1_000), for: key) }
                        _ = cache.readData(for: key)
                        if step % 50 == 0 { cache.removeData(for: key) }
                        if step % 90 == 0 { cache.trimMemory(to: 0) }
                    }
                }
            }
        }
        #expect(cache.memorySize <= limit && cache.memorySize >= cache.memoryCount * 1_000)
        let present = (100..<400).filter { cache.hasData(for: CacheKey("\($0)")) }
        #expect(present.count == cache.memoryCount)
        for number in present { cache.removeData(for: CacheKey("\(number)")) }
        #expect(cache.memorySize == 0 && cache.memoryCount == 0)
    }
}

/// The adaptive order in its simplest form: entries from the newest to the oldest.
private struct NaiveLines {
    private struct Entry {
        let key: Int
        let bytes: Data
        let cost: Int
        var uses = 0
        var isUsed = false
    }

    private var trial: [Entry] = []
    private var main: [Entry] = []

    var keys: [Int] { (trial + main).map(\.key) }
    var cost: Int { (trial + main).reduce(0) { $0 + $1.cost } }

    mutating func use(_ key: Int) -> Data? {
        for line in [\NaiveLines.trial, \.main] {
            guard let place = self[keyPath: line].firstIndex(where: { $0.key == key }) else { continue }
            self[keyPath: line][place].uses = min(7, self[keyPath: line][place].uses + 1)
            self[keyPath: line][place].isUsed = true
            return self[keyPath: line][place].bytes
        }
        return nil
    }

    mutating func remove(_ key: Int) {
        trial.removeAll { $0.key == key }
        main.removeAll { $0.key == key }
    }

    mutating func add(_ key: Int, _ bytes: Data, cost: Int, isKept: Bool) {
        let isPresent = use(key) != nil
        let (isInMain, uses) = (main.contains { $0.key == key }, (trial + main).first { $0.key == key }?.uses ?? 0)
        remove(key)
        guard isKept else { return }
        let entry = Entry(key: key, bytes: bytes, cost: cost, uses: uses, isUsed: isPresent)
        if isInMain { main.insert(entry, at: 0) } else { trial.insert(entry, at: 0) }
    }

    mutating func trim(to limit: Int) {
        while cost > limit {
            let onTrial = Double(trial.reduce(0) { $0 + $1.cost })
            let isTrial = main.isEmpty || !trial.isEmpty && onTrial > Double(cost) * 0.3
            var entry = isTrial ? trial.removeLast() : main.removeLast()
            let isProven = entry.uses == 7
            if isTrial, !isProven {
                if entry.isUsed {
                    entry.isUsed = false
                    trial.insert(entry, at: 0)
                }
            } else if entry.uses > 0 {
                entry.uses = isTrial ? 0 : entry.uses - 1
                entry.isUsed = false
                main.insert(entry, at: 0)
            }
        }
    }
}
