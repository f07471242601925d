import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Limits of the disk", .timeLimit(.minutes(2)))
struct DiskLimitTests {
    private let folder = TemporaryFolder()

    @Test("the limit is kept while writing, and what was used longest ago goes first")
    func limit() async throws {
        let test = TestCache.onDisk(folder) { $0.diskLimit = 100_000 }
        for number in 0..<60 {
            test.date.advance(by: 1)
            try await test.cache.keep(["k\(number)": 5_000])
            if number >= 5 { #expect(test.cache.data(for: "k5") != nil, "k5 is used all the time: \(number)") }
            #expect(test.cache.diskSize <= 100_000)
        }
        #expect(test.cache.diskSize > 60_000)
        #expect(test.cache.data(for: "k59") != nil && test.cache.data(for: "k0") == nil)
        await test.cache.shutdown()
        let bytes = try folder.files.reduce(0) { sum, file in
            try sum + Data(contentsOf: folder.url.appendingPathComponent(file)).count
        }
        #expect(bytes < 200_000, "the files are gone, too")
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
        #expect(test.cache.data(for: "old") != nil)
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
        #expect(test.cache.data(for: "a") != nil)
        let size = ["d", "e", "a"].compactMap { test.cache.entry(for: CacheKey($0))?.size }.reduce(0, +)
        let steps: [(Int, left: Set<String>, Int)] = [
            (size, ["d", "e", "a"], size), (.max, ["d", "e", "a"], size), (-1, [], 0),
        ]
        for (limit, left, size) in steps {
            test.cache.trim(toDiskSize: limit)
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
            #expect(first.cache.data(for: key) != nil)
        }
        try await first.cache.keep(["other": 100])
        await first.cache.shutdown()
        first.date.advance(by: 1e9)
        let cache = TestCache.onDisk(folder, date: first.date).cache
        #expect(cache.entry(for: "small")?.expires == nil && cache.listedKeys.count == 3)
        cache.removeExpired()
        await cache.synchronize()
        for key: CacheKey in ["small", "large", "other"] { #expect(cache.data(for: key) != nil) }
        #expect(await cache.verify().isSound)
    }
}
