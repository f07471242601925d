import TestSupport
import Testing

@Suite("Caches that share a folder lose nothing of each other's", .timeLimit(.minutes(2)))
struct SharedFolderTests {
    private let folder = TemporaryFolder()
    private let one: DataCache
    private let two: DataCache

    init() {
        let date = ManualDate()
        one = TestCache.onDisk(folder, date: date).cache
        two = TestCache.onDisk(folder, date: date).cache
    }

    @Test("each sees what the other stores and removes, and both have the same totals")
    func bothSee() async throws {
        let keys = (0..<100).map { "\($0)" }
        async let first: Void = one.keep(keys.map { "one" + $0 }, size: 3_000)
        async let second: Void = two.keep(keys.map { "two" + $0 }, size: 300)
        _ = try await (first, second)
        for key in keys {
            #expect(two.readData(for: CacheKey("one" + key)) == DiskBytes.of(3_000, "one" + key))
            #expect(one.readData(for: CacheKey("two" + key)) == DiskBytes.of(300, "two" + key))
        }
        #expect(one.diskCount == 200 && two.diskCount == 200 && one.diskSize == two.diskSize)
        #expect(one.listedKeys == two.listedKeys && one.listedKeys.count == 200)
        one.removeData(for: "two7")
        await one.synchronize()
        #expect(two.readData(for: "two7") == nil && !two.hasData(for: "two7"))
        let report = await two.verify()
        #expect(report.isSound && report.sound == 199 && report.bytes == one.diskSize, "\(report)")
        two.clear()
        await two.synchronize()
        #expect(one.diskCount == 0 && one.readData(for: "one1") == nil)
        try await one.keep(["after": 3_000])
        #expect(two.readData(for: "after") != nil)
    }

    @Test("of two versions that both write at once one is there, whole, whatever their sizes")
    func sameKeys() async throws {
        let keys = (0..<8).map { "k\($0)" }
        for round in 0..<12 {
            async let first: Void = one.keep(keys, size: round % 2 == 0 ? 100 : 9_000)
            async let second: Void = two.keep(keys, size: round % 2 == 0 ? 9_000 : 100)
            _ = try await (first, second)
            for key in keys {
                let read = one.readData(for: CacheKey(key))
                #expect(read == DiskBytes.of(100, key) || read == DiskBytes.of(9_000, key), "\(round)")
                #expect(two.readData(for: CacheKey(key)) == read)
            }
        }
        let report = await one.verify()
        #expect(report.isSound && report.sound == keys.count && report.unlisted == 0, "\(report)")
        #expect(one.diskSize == report.bytes && two.diskCount == keys.count)
    }

    @Test("what one writes while the other removes it is there, or is not: never listed without its bytes")
    func removing() async throws {
        for round in 0..<60 {
            try await one.keep(["a": 9_000])
            one.removeData(for: "a")
            async let removal: Void = one.synchronize()
            try await two.keep(["a": 9_000])
            await removal
            let isListed = two.entry(for: "a") != nil
            #expect((two.readData(for: "a") != nil) == isListed && two.diskCount == (isListed ? 1 : 0), "\(round)")
        }
    }

    @Test("what takes the place of a damaged entry is not removed for it", arguments: [100, 9_000])
    func replacedDamage(size: Int) async throws {
        for round in 0..<40 {
            try await two.keep(["a": 9_000])
            truncate(try #require(two.file(for: "a")).path, 4_000)
            async let reading: Data? = Task.detached { [one] in one.readData(for: "a") }.value
            try await two.keep(["a": size])
            _ = await reading
            await one.synchronize()
            #expect(one.readData(for: "a") == DiskBytes.of(size, "a"), "\(round)")
            #expect(one.entry(for: "a") != nil && one.diskCount == 1)
        }
    }

    @Test("verifying beside a writer removes nothing of what it writes")
    func verifying() async throws {
        let keys = (0..<200).map { "k\($0)" }
        async let writing: Void = one.keep(keys, size: 3_000)
        for _ in 0..<10 { #expect(await two.verify().isSound) }
        try await writing
        for key in keys { #expect(one.readData(for: CacheKey(key)) != nil) }
        #expect(await two.verify().sound == keys.count)
    }
}
