import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Caches that share a folder lose nothing of each other's", .timeLimit(.minutes(2)))
struct SharedFolderTests {
    private func pair(
        _ folder: TemporaryFolder, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> (one: DataCache, two: DataCache) {
        let date = ManualDate()
        return (
            TestCache.onDisk(folder, date: date, change).cache, TestCache.onDisk(folder, date: date, change).cache
        )
    }

    private func end(_ one: DataCache, _ two: DataCache) async {
        await one.shutdown()
        await two.shutdown()
    }

    @Test("each sees what the other stores and removes, and both have the same totals")
    func bothSee() async throws {
        let folder = TemporaryFolder()
        let (one, two) = pair(folder)
        let keys = (0..<100).map { "\($0)" }
        async let first: Void = one.keep(keys.map { "one" + $0 }, size: 3_000)
        async let second: Void = two.keep(keys.map { "two" + $0 }, size: 300)
        _ = try await (first, second)
        for key in keys {
            #expect(two.data(for: CacheKey("one" + key)) == DiskBytes.of(3_000, "one" + key))
            #expect(one.data(for: CacheKey("two" + key)) == DiskBytes.of(300, "two" + key))
        }
        #expect(one.diskCount == 200 && two.diskCount == 200 && one.diskSize == two.diskSize)
        #expect(one.listedKeys == two.listedKeys && one.listedKeys.count == 200)
        one.removeData(for: "two7")
        await one.synchronize()
        #expect(two.data(for: "two7") == nil && !two.hasData(for: "two7"))
        let report = await two.verify()
        #expect(report.isSound && report.sound == 199 && report.bytes == one.diskSize, "\(report)")
        two.clear()
        await two.synchronize()
        #expect(one.diskCount == 0 && one.data(for: "one1") == nil)
        try await one.keep(["after"], size: 3_000)
        #expect(two.data(for: "after") != nil)
        await end(one, two)
    }

    @Test("of two versions that both write at once one is there, whole, whatever their sizes")
    func sameKeys() async throws {
        let folder = TemporaryFolder()
        let (one, two) = pair(folder)
        let keys = (0..<8).map { "k\($0)" }
        for round in 0..<12 {
            async let first: Void = one.keep(keys, size: round % 2 == 0 ? 100 : 9_000)
            async let second: Void = two.keep(keys, size: round % 2 == 0 ? 9_000 : 100)
            _ = try await (first, second)
            for key in keys {
                let read = one.data(for: CacheKey(key))
                #expect(read == DiskBytes.of(100, key) || read == DiskBytes.of(9_000, key), "\(round)")
                #expect(two.data(for: CacheKey(key)) == read)
            }
        }
        let report = await one.verify()
        #expect(report.isSound && report.sound == keys.count && report.unlisted == 0, "\(report)")
        #expect(one.diskSize == report.bytes && two.diskCount == keys.count)
        await end(one, two)
    }

    @Test("what one writes while the other removes it is there, or is not: never listed without its bytes")
    func removing() async throws {
        let folder = TemporaryFolder()
        let (one, two) = pair(folder)
        for round in 0..<60 {
            try await one.keep(["a"], size: 9_000)
            one.removeData(for: "a")
            async let removal: Void = one.synchronize()
            try await two.keep(["a"], size: 9_000)
            await removal
            let isListed = two.entry(for: "a") != nil
            #expect((two.data(for: "a") != nil) == isListed && two.diskCount == (isListed ? 1 : 0), "\(round)")
        }
        await end(one, two)
    }

    @Test("what takes the place of a damaged entry is not removed for it", arguments: [100, 9_000])
    func replacedDamage(size: Int) async throws {
        let folder = TemporaryFolder()
        let (reader, writer) = pair(folder)
        for round in 0..<40 {
            try await writer.keep(["a"], size: 9_000)
            let file = try #require(writer.file(for: "a"))
            truncate(file.path, 4_000)
            async let reading: Data? = Task.detached { reader.data(for: "a") }.value
            try await writer.keep(["a"], size: size)
            _ = await reading
            await reader.synchronize()
            #expect(reader.data(for: "a") == DiskBytes.of(size, "a"), "\(round)")
            #expect(reader.entry(for: "a") != nil && reader.diskCount == 1)
        }
        await end(reader, writer)
    }

    @Test("verifying beside a writer removes nothing of what it writes")
    func verifying() async throws {
        let folder = TemporaryFolder()
        let (writer, other) = pair(folder)
        let keys = (0..<200).map { "k\($0)" }
        async let writing: Void = writer.keep(keys, size: 3_000)
        for _ in 0..<10 { #expect(await other.verify().isSound) }
        try await writing
        for key in keys { #expect(writer.data(for: CacheKey(key)) != nil) }
        #expect(await other.verify().sound == keys.count)
        await end(writer, other)
    }

    @Test("the limit holds for what all of them write")
    func limit() async throws {
        let folder = TemporaryFolder()
        let (one, two) = pair(folder) { $0.diskLimit = 100_000 }
        async let first: Void = one.keep((0..<60).map { "one\($0)" }, size: 3_000)
        async let second: Void = two.keep((0..<60).map { "two\($0)" }, size: 3_000)
        _ = try await (first, second)
        #expect(one.diskSize <= 100_000 && one.diskSize > 50_000)
        #expect(await two.verify().bytes == one.diskSize)
        await end(one, two)
    }
}
