import DipperTesting
import Dispatch
import Foundation
import GRDB
import Logging
import TestSupport
import Testing

@testable import DipperData

extension DiskTierTests {
    // MARK: Damage

    @Test("a flipped byte in a file is a miss, and the file goes", arguments: [0, 2_500, 5_000, -1])
    func flippedFile(offset: Int) async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        await fill(tier, ["a"], size: 5_000)
        let file = try #require(tier.file(for: "a"))
        var bytes = try Data(contentsOf: file)
        bytes[offset < 0 ? bytes.count + offset : offset] ^= 0x40
        try bytes.write(to: file)
        #expect(tier.entry(for: "a") == nil)
        await tier.synchronize()
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(tier.totals == .init())
        await fill(tier, ["a"], size: 5_000)
        #expect(tier.entry(for: "a") != nil, "fetched again, it is kept again")
        await tier.shutdown()
    }

    @Test("a file that vanished or was cut behind our back is a miss")
    func vanished() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        await fill(tier, ["a", "b"], size: 5_000)
        try FileManager.default.removeItem(at: #require(tier.file(for: "a")))
        truncate(try #require(tier.file(for: "b")).path, 100)
        #expect(tier.entry(for: "a") == nil)
        #expect(tier.entry(for: "b") == nil)
        await tier.shutdown()
    }

    @Test("flipped bytes anywhere in the database serve no wrong byte and crash nothing", arguments: 0..<12)
    func flippedDatabase(part: Int) async throws {
        let folder = TemporaryFolder()
        let first = tier(folder)
        let keys = (0..<200).map { "k\($0)" }
        await fill(first, keys, size: 400)
        await fill(first, ["large"], size: 9_000)
        await first.shutdown()
        let path = folder.url.path + "/index.sqlite"
        // What is in the log is brought into the file, so that a flip hits something that is used.
        try await DatabaseQueue(path: path).writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        for step in 0..<40 {
            bytes[(part * 7_919 + step * bytes.count / 40) % bytes.count] ^= UInt8(1 << (part % 8))
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        let second = tier(folder)
        for key in keys + ["large"] {
            let size = key == "large" ? 9_000 : 400
            if let read = second.entry(for: CacheKey(key)) {
                #expect(read.value.data == record(key, size: size).value.data)
            }
        }
        #expect(second.entry(for: "large") != nil, "a file is found whatever the index says")
        // Listing, eviction and verification come to an end, too.
        second.forEachEntry { _ in }
        second.remove(storedBefore: 0)
        second.trim(toSize: 20_000)
        _ = await second.verify()
        await second.synchronize()
        await fill(second, ["after"], size: 400)
        await second.synchronize()
        await fill(second, ["after"], size: 400)
        #expect(second.entry(for: "after") != nil)
        await second.shutdown()
    }

    @Test(
        "a database that is none, or is missing, is replaced and the files are listed again", arguments: [0, 1])
    func foreignDatabase(kind: Int) async throws {
        let folder = TemporaryFolder()
        let first = tier(folder)
        await fill(first, ["a", "b", "c"], size: 5_000)
        await first.shutdown()
        for name in folder.files where name.hasPrefix("index") {
            try FileManager.default.removeItem(atPath: folder.url.path + "/" + name)
        }
        let path = folder.url.path + "/index.sqlite"
        switch kind {
        case 0:
            try Data("this is no database, but long enough to be looked at".utf8).write(to: URL(fileURLWithPath: path))
        default: break
        }
        let second = tier(folder)
        #expect(second.entry(for: "b") != nil)
        await second.synchronize()
        await second.reconcile()
        #expect(second.totals.entries == 3)
        #expect(second.totals.bytes > 15_000)
        await second.shutdown()
        #expect(folder.files.contains("index-2.sqlite") == (kind == 0))
    }

    @Test(
        "values of another kind in the index are damage, not a crash",
        arguments: [
            "UPDATE entry SET size = 'abc'", "UPDATE total SET bytes = 'x'",
            "UPDATE entry SET size = -9223372036854775808",
            "UPDATE entry SET stored = -1e300", "UPDATE entry SET accessed = 'never', expires = x'00'",
            "DELETE FROM total", "DROP TABLE small", "UPDATE small SET record = 17",
        ])
    func wrongTypes(sql: String) async throws {
        let folder = TemporaryFolder()
        let first = tier(folder)
        await fill(first, ["a", "b"], size: 300)
        await fill(first, ["large"], size: 9_000)
        await first.shutdown()
        try await DatabaseQueue(path: folder.url.path + "/index.sqlite").write { try $0.execute(sql: sql) }
        let second = tier(folder)
        _ = second.totals
        second.forEachEntry { _ in }
        _ = second.entry(for: "a")
        #expect(second.entry(for: "large") != nil)
        second.trim(toSize: 0)
        _ = await second.verify()
        await fill(second, ["after"], size: 300)
        await fill(second, ["after"], size: 300)
        #expect(second.entry(for: "after") != nil)
        await second.shutdown()
    }

    @Test("a named pipe in place of a file is a miss, and holds nobody up")
    func pipe() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        await fill(tier, ["a"], size: 5_000)
        let file = try #require(tier.file(for: "a")).path
        unlink(file)
        mkfifo(file, 0o600)
        #expect(tier.entry(for: "a") == nil)
        #expect(!tier.contains("a"))
        await fill(tier, ["a"], size: 6_000)
        #expect(tier.entry(for: "a")?.value.data.count == 6_000)
        await tier.shutdown()
    }

    @Test("a store that cannot be opened is not called sound")
    func unopenable() async throws {
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(
            at: folder.url.appendingPathComponent("index.sqlite/x"), withIntermediateDirectories: true)
        let tier = tier(folder)
        #expect(await tier.verify().isSound == false)
        await tier.shutdown()
    }

    @Test("any staging limit keeps things going", arguments: [Int.min, -1, 0, 1, Int.max])
    func stagingLimits(limit: Int) async throws {
        let folder = TemporaryFolder()
        let last = Box(BacklogNotice(backlog: .none, number: 0))
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let tier = DiskTier(
            .init(folder: folder.url.path, stagingLimit: limit), logger: logger, now: { Date() },
            onBacklog: { notice in last.update { if notice.number > $0.number { $0 = notice } } })
        await fill(tier, (0..<20).map { "k\($0)" }, size: 5_000)
        #expect(last.value.backlog == .none)
        await tier.shutdown()
    }

    @Test("a second clear does not take what came after the first")
    func clearTwice() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        for round in 0..<50 {
            tier.clear()
            tier.clear()
            tier.write(record("k\(round)", size: 3_000))
            await tier.synchronize()
            #expect(tier.entry(for: CacheKey("k\(round)")) != nil)
        }
        await tier.shutdown()
    }

    @Test("verifying beside a writer removes nothing of what it writes")
    func verifyBesideWriter() async throws {
        let folder = TemporaryFolder()
        let writer = DiskTier(
            .init(folder: folder.url.path), logger: Logger(label: "test"), now: { Date() })
        let other = DiskTier(
            .init(folder: folder.url.path), logger: Logger(label: "test"), now: { Date() })
        let keys = (0..<600).map { "k\($0)" }
        async let writing: Void = fill(writer, keys, size: 3_000)
        for _ in 0..<10 { #expect(await other.verify().isSound) }
        await writing
        for key in keys { #expect(writer.entry(for: CacheKey(key)) != nil) }
        #expect(await other.verify().sound == 600)
        await writer.shutdown()
        await other.shutdown()
    }

    @Test("a folder removed behind our back is made anew with the next write")
    func removedFolder() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        await fill(tier, ["a"], size: 5_000)
        try FileManager.default.removeItem(at: folder.url)
        #expect(tier.entry(for: "a") == nil)
        await fill(tier, ["b", "c"], size: 5_000)
        #expect(tier.entry(for: "b") != nil)
        #expect(tier.totals.entries == 2)
        await tier.shutdown()
    }
}
