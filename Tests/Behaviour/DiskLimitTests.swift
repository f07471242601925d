import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Limits of the disk", .timeLimit(.minutes(2)))
struct DiskLimitTests {
    @Test("the limit is kept while writing, and what was used longest ago goes first")
    func limit() async throws {
        let folder = TemporaryFolder()
        let test = TestCache.onDisk(folder) { $0.diskLimit = 100_000 }
        var largest = 0
        for number in 0..<60 {
            test.date.advance(by: 1)
            try await test.cache.keep(["k\(number)"], size: 5_000)
            if number >= 5 { #expect(test.cache.data(for: "k5") != nil, "k5 is used all the time: \(number)") }
            largest = max(largest, test.cache.diskSize)
        }
        #expect(largest <= 100_000 && test.cache.diskSize > 60_000)
        #expect(test.cache.data(for: "k59") != nil && test.cache.data(for: "k0") == nil)
        await test.cache.shutdown()
        let bytes = try folder.files.reduce(0) { sum, file in
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/" + file)
            return sum + (attributes[.size] as? Int ?? 0)
        }
        #expect(bytes < 200_000, "the files are gone, too")
    }

    @Test("expired entries make room first")
    func expiredFirst() async throws {
        let test = TestCache.onDisk(TemporaryFolder()) { $0.diskLimit = 50_000 }
        try await test.cache.keep(["old"], size: 5_000)
        test.date.advance(by: 1)
        let brief = DataRequest(url("brief")).with(\.diskExpiration, .seconds(10))
        for number in 0..<7 {
            try await test.cache.addDataAndWait(Data(count: 5_000), for: brief.with(\.key, CacheKey("b\(number)")))
        }
        test.date.advance(by: 11)
        try await test.cache.keep((0..<6).map { "k\($0)" }, size: 5_000)
        #expect(test.cache.diskSize <= 50_000)
        #expect(test.cache.data(for: "old") != nil)
        await test.cache.shutdown()
    }

    @Test("any limit keeps things going, from the start or set later", arguments: [Int.min, -1, 0, .max])
    func anyLimit(limit: Int) async throws {
        let test = TestCache.onDisk(TemporaryFolder()) { $0.diskLimit = limit }
        let expected = limit == .max ? 2 : 0
        try await test.cache.keep(["a", "b"], size: 100)
        #expect(test.cache.diskCount == expected)
        test.cache.setDiskLimit(nil)
        try await test.cache.keep(["a", "b"], size: 9_000)
        #expect(test.cache.diskCount == 2)
        test.cache.setDiskLimit(limit)
        await test.cache.synchronize()
        #expect(test.cache.diskCount == expected)
        await test.cache.shutdown()
    }

    @Test("trimming removes what was used longest ago, and no more than it must")
    func trim() async throws {
        let test = TestCache.onDisk(TemporaryFolder())
        for key in ["a", "b", "c", "d", "e"] {
            test.date.advance(by: 1)
            try await test.cache.keep([key], size: key == "c" ? 100 : 5_000)
        }
        test.date.advance(by: 1)
        #expect(test.cache.data(for: "a") != nil)
        let sizes = ["d", "e", "a"].compactMap { test.cache.entry(for: CacheKey($0))?.size }
        let size = sizes.reduce(0, +)
        test.cache.trim(toDiskSize: size)
        await test.cache.synchronize()
        #expect(test.cache.listedKeys == ["d", "e", "a"] && test.cache.diskSize == size)
        test.cache.trim(toDiskSize: .max)
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 3)
        test.cache.trim(toDiskSize: -1)
        await test.cache.synchronize()
        #expect(test.cache.diskCount == 0 && test.cache.diskSize == 0)
        await test.cache.shutdown()
    }

    @Test("an entry counts once whatever its size becomes, as the list has it")
    func totals() async throws {
        let folder = TemporaryFolder()
        let test = TestCache.onDisk(folder)
        for size in [100, 50_000, 200, 60_000, 0, 2_048] {
            try await test.cache.keep(["a"], size: size)
            #expect(test.cache.data(for: "a") == DiskBytes.of(size, "a"))
            let entry = try #require(test.cache.entry(for: "a"))
            #expect(test.cache.diskCount == 1 && test.cache.diskSize == entry.size)
            #expect(entry.size >= size && entry.size < size + 1_000)
            #expect((test.cache.file(for: "a") != nil) == (size > 2_048) || size == 2_048)
        }
        let other = TestCache(folder: folder)
        #expect(other.cache.diskSize == test.cache.diskSize && other.cache.diskCount == 1)
        await other.cache.shutdown()
        await test.cache.shutdown()
    }

    // MARK: Lifetimes

    @Test(
        "an entry that never expires, or that an access keeps for ever, stays, and so do all others",
        arguments: [
            (.never, .cacheTime), (.never, .expiration(.never)), (.days(1), .expiration(.never)),
            (.seconds(1e16), .cacheTime), (.seconds(1e300), .expiration(.seconds(1e15))), (.seconds(1e14), .unchanged),
            (.days(.max), .cacheTime),
        ] as [(Expiration, AccessExtension)])
    func endless(expiration: Expiration, added: AccessExtension) async throws {
        let folder = TemporaryFolder()
        let first = TestCache.onDisk(folder)
        let request = DataRequest(url("a")).with(\.diskExpiration, expiration).with(\.diskAccessExtension, added)
        for (key, size) in [("small", 100), ("large", 9_000)] as [(CacheKey, Int)] {
            try await first.cache.addDataAndWait(Data(count: size), for: request.with(\.key, key))
            #expect(first.cache.data(for: key) != nil)
        }
        try await first.cache.keep(["other"], size: 100)
        await first.cache.shutdown()
        let date = first.date
        date.advance(by: 1e9)
        let test = TestCache.onDisk(folder, date: date)
        #expect(test.cache.entry(for: "small")?.expires == nil && test.cache.listedKeys.count == 3)
        test.cache.removeExpired()
        await test.cache.synchronize()
        for key: CacheKey in ["small", "large", "other"] { #expect(test.cache.data(for: key) != nil) }
        #expect(await test.cache.verify().isSound)
        await test.cache.shutdown()
    }
}
