import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("Stores that share a folder lose nothing of each other's", .timeLimit(.minutes(5)))
struct SharedStoreTests {
    /// Damages the record of an entry in place.
    private func damage(_ key: String, _ folder: TemporaryFolder) async throws {
        let name = KeyDigest.sha256(CacheKey(key))
        let path = "\(folder.path)/blobs/\(name.prefix(2))/\(name)"
        if var bytes = FileManager.default.contents(atPath: path) {
            bytes[bytes.count / 2] ^= 0xFF
            return try bytes.write(to: URL(fileURLWithPath: path))
        }
        try await indexQueue(folder).write { db in
            try db.execute(
                sql: "UPDATE small SET record = zeroblob(100) WHERE id = (SELECT id FROM entry WHERE name = ?)",
                arguments: [name])
            #expect(db.changesCount == 1)
        }
    }

    @Test(
        "what takes the place of a damaged entry is not removed for it",
        arguments: [(100, 100), (9_000, 9_000), (100, 9_000), (9_000, 100)])
    func replacedDamage(sizes: (Int, Int)) async throws {
        let folder = TemporaryFolder()
        let (reader, writer) = (diskTier(folder), diskTier(folder))
        await fill(reader, ["a"], size: sizes.0)
        try await damage("a", folder)
        let stall = DispatchSemaphore(value: 0)
        reader.writer.run { stall.wait() }
        #expect(reader.entry(for: "a") == nil)
        await fill(writer, ["a"], size: sizes.1)
        stall.signal()
        await reader.synchronize()
        #expect(reader.entry(for: "a")?.value.data.count == sizes.1)
        #expect(reader.details(of: "a") != nil && reader.totals.entries == 1)
        await reader.shutdown()
        await writer.shutdown()
    }

    @Test("a damaged entry is removed with its row", arguments: [100, 9_000])
    func damage(size: Int) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, ["a"], size: size)
        try await damage("a", folder)
        #expect(tier.entry(for: "a") == nil)
        await tier.synchronize()
        #expect(tier.totals == .init())
        #expect(!folder.files.contains { $0.hasPrefix("blobs/") })
        await tier.shutdown()
    }

    @Test("of a small and a large version that two stores write at once one is there")
    func changingSizes() async throws {
        let folder = TemporaryFolder()
        let (one, two) = (diskTier(folder), diskTier(folder))
        let keys = (0..<8).map { "k\($0)" }
        var missing = 0
        for round in 0..<300 {
            async let first: Void = fill(one, keys, size: round % 2 == 0 ? 100 : 9_000)
            async let second: Void = fill(two, keys, size: round % 2 == 0 ? 9_000 : 100)
            _ = await (first, second)
            missing += keys.filter { one.entry(for: CacheKey($0)) == nil }.count
        }
        #expect(missing == 0)
        let report = await one.verify()
        #expect(report.isSound && report.sound == keys.count && report.unlisted == 0, "\(report)")
        #expect(one.totals.bytes == report.bytes)
        await one.shutdown()
        await two.shutdown()
    }

    @Test("what a store writes while another removes the key before it is there afterwards")
    func removedBefore() async throws {
        let folder = TemporaryFolder()
        let (one, two) = (diskTier(folder), diskTier(folder))
        for round in 0..<300 {
            await fill(one, ["a"], size: 9_000)
            one.remove("a")
            async let removal: Void = one.synchronize()
            await fill(two, ["a"], size: 9_000)
            await removal
            // Whoever came last: file and row are there, or neither is.
            #expect((two.entry(for: "a") != nil) == (two.details(of: "a") != nil), "\(round)")
        }
        await one.shutdown()
        await two.shutdown()
    }

    /// Holds the write lock of the index, as another process may, until the test releases it.
    private func hold(_ folder: TemporaryFolder) async -> DispatchSemaphore {
        let release = DispatchSemaphore(value: 0)
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                let queue = try? indexQueue(folder)
                try? queue?.inDatabase { db in
                    try db.execute(sql: "BEGIN IMMEDIATE")
                    continuation.resume()
                    release.wait()
                    try db.execute(sql: "COMMIT")
                }
            }
        }
        return release
    }

    @Test("a store that is opened while another process holds the index reads files, and keeps what it is given")
    func heldAtOpening() async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["small"], size: 100)
        await fill(first, ["large"], size: 9_000)
        await first.shutdown()
        let release = await hold(folder)
        // Whoever waits for the other process waits two seconds at least, each time; a busy machine is quicker once.
        var quickest = Duration.seconds(60)
        for _ in 0..<5 where quickest >= .seconds(2) {
            let begin = ContinuousClock.now
            let tier = diskTier(folder)
            quickest = min(quickest, ContinuousClock.now - begin)
            await tier.shutdown()
        }
        #expect(quickest < .seconds(2))
        let lines = LogLines()
        let tier = diskTier(folder, lines)
        #expect(tier.opened.problem == nil)
        #expect(tier.entry(for: "large")?.value.data.count == 9_000)
        tier.write(diskRecord("new small", size: 100))
        tier.write(diskRecord("new large", size: 9_000))
        #expect(tier.entry(for: "new small") != nil && tier.entry(for: "new large") != nil)
        #expect(await settle { tier.isStalled.load(ordering: .relaxed) }, "the writer waits for the index")
        release.signal()
        await tier.reconcile()
        for key in ["small", "large", "new small", "new large"] {
            #expect(tier.details(of: CacheKey(key)) != nil && tier.entry(for: CacheKey(key)) != nil, "\(key)")
        }
        #expect(tier.totals.entries == 4)
        #expect(!lines.all.contains { $0.contains("nothing is kept") }, "\(lines.all)")
        let isStalled = tier.isStalled.load(ordering: .relaxed)
        #expect(!isStalled)
        await tier.shutdown()
    }

    @Test("an index that another process holds is opened once it lets go, also if nothing is written")
    func openedLater() async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["small"], size: 100)
        await first.shutdown()
        let release = await hold(folder)
        let tier = diskTier(folder)
        #expect(tier.entry(for: "small") == nil)
        release.signal()
        #expect(await settle { tier.entry(for: "small") != nil }, "the index is open")
        await tier.shutdown()
        let again = await hold(folder)
        let closed = diskTier(folder)
        await closed.shutdown()
        #expect(closed.opened.isClosed, "a shutdown does not wait for the other process")
        again.signal()
    }

    @Test("any disk limit keeps things going", arguments: [Int.min, -1, 0, .max])
    func diskLimits(limit: Int) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.sizeLimit = limit }
        await fill(tier, ["a", "b"], size: 100)
        #expect(tier.totals.entries == (limit == .max ? 2 : 0))
        tier.sizeLimit = nil
        await fill(tier, ["a", "b"], size: 9_000)
        #expect(tier.totals.entries == 2)
        tier.sizeLimit = limit
        await tier.synchronize()
        #expect(tier.totals.entries == (limit == .max ? 2 : 0))
        await tier.shutdown()
    }
}
