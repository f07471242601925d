import TestSupport
import Testing

@Suite("Limits of the disk, and cleaning up", .timeLimit(.minutes(2)))
struct DiskLimitTests {
    private let folder = TemporaryFolder()

    @Test("the limit is kept while writing, and what was used longest ago goes first")
    func limit() async throws {
        let test = TestCache.onDisk(folder) { $0.diskLimit = 100_000 }
        for number in 0..<60 {
            test.date.advance(by: 1)
            try await test.cache.keep(["k\(number)": 5_000])
            if number >= 5 { #expect(test.cache.readData(for: "k5") != nil, "k5 is used all the time: \(number)") }
            #expect(test.cache.diskSize <= 100_000)
        }
        #expect(test.cache.diskSize > 60_000)
        #expect(test.cache.readData(for: "k59") != nil && test.cache.readData(for: "k0") == nil)
        await test.cache.shutdown()
        let bytes = try folder.files.filter { $0 != "reserve" }.reduce(0) { sum, file in
            try sum + Data(contentsOf: folder.url.appendingPathComponent(file)).count
        }
        #expect(bytes < 200_000, "the files are gone, too")
    }

    @Test("an entry that is larger than the limit pushes no other out", arguments: [95_000, 200_000, 4 << 20])
    func tooLarge(size: Int) async throws {
        let test = TestCache.onDisk(folder) { $0.diskLimit = 100_000 }
        try await test.cache.keep((0..<4).map { "k\($0)" }, size: 20_000)
        try test.cache.addData(Data(count: size), for: "k0")
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 3 && !test.cache.hasData(for: "k0", in: .disk))
        let durable = DataRequest(url("a")).with(\.durability, .durable)
        await #expect(throws: DipperError.notWritten) {
            try await test.cache.addDataAndWait(Data(count: size), for: durable)
        }
        #expect(test.cache.diskCount == 3)
    }

    @Test("expired entries make room first")
    func expiredFirst() async throws {
        let test = TestCache.onDisk(TemporaryFolder()) { $0.diskLimit = 50_000 }
        try await test.cache.keep(["old": 5_000])
        test.date.advance(by: 1)
        let brief = DataRequest(url("brief")).with(\.diskExpiration, .after(.seconds(10)))
        for number in 0..<7 {
            try await test.cache.addDataAndWait(Data(count: 5_000), for: brief.with(\.key, CacheKey("b\(number)")))
        }
        test.date.advance(by: 11)
        try await test.cache.keep((0..<6).map { "k\($0)" }, size: 5_000)
        #expect(test.cache.diskSize <= 50_000)
        #expect(test.cache.readData(for: "old") != nil)
    }

    @Test("any limit keeps things going, from the start or set later", arguments: [Int.min, -1, 0, .max])
    func anyLimit(limit: Int) async throws {
        let cache = TestCache.onDisk(folder) { $0.diskLimit = limit }.cache
        let expected = limit == .max ? 2 : 0
        try await cache.keep(["a": 100, "b": 100])
        #expect(cache.diskCount == expected)
        cache.diskLimit = nil
        try await cache.keep(["a": 9_000, "b": 9_000])
        #expect(cache.diskCount == 2)
        cache.diskLimit = limit
        await cache.synchronize()
        #expect(cache.diskCount == expected)
    }

    @Test("trimming removes what was used longest ago, and no more than it must")
    func trim() async throws {
        let test = TestCache.onDisk(TemporaryFolder())
        for (key, size) in [("a", 5_000), ("b", 5_000), ("c", 100), ("d", 5_000), ("e", 5_000)] {
            test.date.advance(by: 1)
            try await test.cache.keep([key: size])
        }
        test.date.advance(by: 1)
        #expect(test.cache.readData(for: "a") != nil)
        let size = ["d", "e", "a"].compactMap { test.cache.entry(for: CacheKey($0))?.size }.reduce(0, +)
        let steps: [(Int, left: Set<String>, Int)] = [
            (size, ["d", "e", "a"], size), (.max, ["d", "e", "a"], size), (-1, [], 0),
        ]
        for (limit, left, size) in steps {
            test.cache.trimDisk(to: limit)
            await test.cache.synchronize()
            #expect(test.cache.listedKeys == left && test.cache.diskSize == size)
            #expect(test.cache.diskCount == left.count)
        }
    }

    // MARK: Lifetimes

    @Test(
        "an entry that never expires, or that an access keeps for ever, stays, and so do all others",
        arguments: [
            (.never, .cacheTime), (.never, .expiration(.never)), (.days(1), .expiration(.never)),
            (.after(.seconds(1e16)), .cacheTime), (.after(.seconds(1e20)), .expiration(.after(.seconds(1e15)))),
            (.after(.seconds(1e14)), .unchanged),
            (.days(.max), .cacheTime),
        ] as [(Expiration, AccessExtension)])
    func endless(expiration: Expiration, added: AccessExtension) async throws {
        let first = TestCache.onDisk(folder)
        let request = DataRequest(url("a")).with(\.diskExpiration, expiration).with(\.diskAccessExtension, added)
        for (key, size) in [("small", 100), ("large", 9_000)] as [(CacheKey, Int)] {
            try await first.cache.addDataAndWait(Data(count: size), for: request.with(\.key, key))
            #expect(first.cache.readData(for: key) != nil)
        }
        try await first.cache.keep(["other": 100])
        await first.cache.shutdown()
        first.date.advance(by: 1e9)
        let cache = TestCache.onDisk(folder, date: first.date).cache
        #expect(cache.entry(for: "small")?.expires == nil && cache.listedKeys.count == 3)
        cache.removeExpired()
        await cache.synchronize()
        for key: CacheKey in ["small", "large", "other"] { #expect(cache.readData(for: key) != nil) }
        #expect(await cache.verify().isSound)
    }

    // MARK: Cleaning up, and what observers hear of it

    private typealias Cleaning = CacheEvent.Cleaning

    private let record = EventRecord()

    private var cleanings: [Cleaning] {
        record.events.compactMap { event in
            guard case .cleaned(let cleaning) = event.kind else { return nil }
            #expect(event.key.isEmpty, "no single entry is named")
            return cleaning
        }
    }

    private func told(_ tier: Cleaning.TierName) -> [Cleaning] { cleanings.filter { $0.tier == tier } }
    private func entries(_ tier: Cleaning.TierName) -> Int { told(tier).reduce(0) { $0 + $1.entries } }

    private func add(_ names: [String], size: Int, expires: Expiration? = nil, to cache: DataCache) async throws {
        for name in names {
            let request = DataRequest(url(name)).with(\.diskExpiration, expires)
            try await cache.addDataAndWait(Data(count: size), for: request)
        }
    }

    @Test("what expired goes when asked for, without a limit being reached, and is told once")
    func expired() async throws {
        let test = TestCache(folder: TemporaryFolder(), sink: record)
        try await add(["a", "b"], size: 5_000, expires: .after(.seconds(10)), to: test.cache)
        try await add(["c"], size: 100, expires: .after(.seconds(10)), to: test.cache)
        try await add(["d"], size: 100, to: test.cache)
        let whole = (test.cache.diskSize, test.cache.memorySize)
        test.date.advance(by: 11)
        test.cache.removeExpired()
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 1 && test.cache.memoryCount == 1)
        let left = (test.cache.diskSize, test.cache.memorySize)
        #expect(told(.disk) == [.init(tier: .disk, reason: .expired, entries: 3, bytes: whole.0 - left.0)])
        #expect(
            told(.memory) == [.init(tier: .memory, reason: .expired, entries: 3, bytes: whole.1 - left.1)])
        test.cache.removeExpired()
        await test.cache.synchronize()
        #expect(cleanings.count == 2, "nothing went")
    }

    @Test("an entry that is found to have expired as it is asked for is told")
    func expiredOnAccess() async throws {
        let test = TestCache(sink: record)
        try await add(["a"], size: 100, expires: .after(.seconds(10)), to: test.cache)
        let size = test.cache.memorySize
        test.date.advance(by: 10)
        #expect(test.cache.readData(for: url("a")) == nil)
        #expect(cleanings == [.init(tier: .memory, reason: .expired, entries: 1, bytes: size)])
    }

    @Test("what a limit cost is told, in memory and on disk")
    func overLimit() async throws {
        let test = TestCache(folder: TemporaryFolder(), sink: record) {
            $0.diskLimit = 50_000
            $0.memoryCountLimit = 4
        }
        try await add((0..<20).map { "\($0)" }, size: 5_000, to: test.cache)
        await test.cache.synchronize()
        let (disk, memory) = (told(.disk), told(.memory))
        #expect((disk + memory).allSatisfy { $0.reason == .overLimit })
        #expect(entries(.disk) == 20 - test.cache.diskCount)
        #expect(entries(.memory) == 16 && test.cache.memoryCount == 4)
        let each = test.cache.diskSize / test.cache.diskCount
        #expect(disk.allSatisfy { abs($0.bytes - $0.entries * each) <= 2 * $0.entries })
        test.cache.trimMemory(to: 0)
        test.cache.trimDisk(to: 0)
        await test.cache.synchronize()
        #expect(told(.memory).last?.entries == 4)
        #expect(entries(.disk) == 20)
    }

    @Test("flushing removes what is older, apart from what had expired; clearing removes all, also on disk")
    func flushedAndCleared() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder, sink: record)
        try await add(["brief"], size: 5_000, expires: .after(.seconds(10)), to: test.cache)
        try await add(["old", "small"], size: 300, to: test.cache)
        test.date.advance(by: 100)
        try await add(["new", "other"], size: 5_000, to: test.cache)
        test.cache.flush(olderThan: .seconds(50))
        for name in ["brief", "old", "small"] { #expect(!test.cache.hasData(for: url(name)), "at once") }
        await test.cache.synchronize()
        for tier in Cleaning.TierName.allCases {
            #expect(
                Set(told(tier).map { [$0.reason.rawValue: $0.entries] }) == [["expired": 1], ["flushed": 2]])
        }
        #expect(test.cache.listedKeys == [url("new").absoluteString, url("other").absoluteString])
        let sizes = (test.cache.memorySize, test.cache.diskSize)
        test.cache.clear()
        #expect(!test.cache.hasData(for: url("new")) && test.cache.listedKeys.isEmpty, "at once")
        await test.cache.synchronize()
        #expect(told(.memory).last == .init(tier: .memory, reason: .cleared, entries: 2, bytes: sizes.0))
        #expect(told(.disk).last == .init(tier: .disk, reason: .cleared, entries: 2, bytes: sizes.1))
        let count = cleanings.count
        test.cache.clear()
        test.cache.clearMemory()
        await test.cache.synchronize()
        #expect(cleanings.count == count, "there was nothing left")
        await test.cache.shutdown()
        #expect(try folder.finding([String(repeating: "\0", count: 300)]).allSatisfy { !$0.hasPrefix("blobs/") })
    }

    @Test("what is stored after a flush stays, also when the clock has been set back in between")
    func afterFlush() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.cache.flush(olderThan: .zero)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "now")
        test.date.advance(by: -1_000)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "before")
        for seconds in [0.0, 2_000] {
            test.date.advance(by: seconds)
            test.cache.clearMemory()
            #expect(test.cache.hasData(for: "before") && test.cache.readData(for: "now") != nil)
        }
    }
}
