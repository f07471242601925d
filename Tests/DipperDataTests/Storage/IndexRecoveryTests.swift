import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("The index is set aside only if it is damaged", .timeLimit(.minutes(5)))
struct IndexRecoveryTests {
    @Test("a damaged one is replaced by the next, under processes that have it open, and none of them harms the other")
    func damaged() async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        let second = diskTier(folder)
        await fill(first, ["a", "b"], size: 9_000)
        let old = try #require(FileIdentity(folder.path + "/index.sqlite"))
        try await indexQueue(folder).write { try $0.execute(sql: "DROP TABLE total") }
        // Both find it damaged, one after the other.
        await fill(first, ["c"], size: 9_000)
        await fill(second, ["d"], size: 9_000)
        await first.synchronize()
        // While the other one holds the index, whether it is damaged is not known yet.
        #expect(await settle { folder.files.contains("index-2.sqlite") })
        #expect(!folder.files.contains("index-3.sqlite"))
        #expect(FileIdentity(folder.path + "/index.sqlite") == old, "it is where it was")
        await fill(first, ["c"], size: 9_000)
        await fill(second, ["d"], size: 9_000)
        await first.reconcile()
        await second.reconcile()
        await first.shutdown()
        for key in ["a", "b", "c", "d"] { #expect(second.entry(for: CacheKey(key)) != nil, "\(key)") }
        #expect(second.totals.entries == 4)
        #expect(await second.verify().isSound)
        second.clear()
        await second.synchronize()
        #expect(!folder.files.contains("index.sqlite"), "what was set aside is cleared, too")
        await second.shutdown()
    }

    @Test("one that many make at once is nobody else's")
    func madeByMany() async throws {
        let failures = Box<[String]>([])
        for _ in 0..<150 {
            let folder = TemporaryFolder()
            try folder.put("index.sqlite", "")
            let path = folder.path + "/index.sqlite"
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        await withCheckedContinuation { continuation in
                            Thread.detachNewThread {
                                do {
                                    try EntryIndex(path: path, boot: "boot").close()
                                } catch {
                                    if IndexFailure(error) != .busy { failures.update { $0.append("\(error)") } }
                                }
                                continuation.resume()
                            }
                        }
                    }
                }
            }
        }
        #expect(failures.value.isEmpty)
    }

    @Test(
        "one of another program, or of a later version, is left alone, and nothing is kept on disk",
        arguments: ["PRAGMA application_id = 17", "PRAGMA user_version = 99"])
    func foreign(sql: String) async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["a"], size: 9_000)
        await first.shutdown()
        try await DatabaseQueue(path: folder.path + "/index.sqlite").write { try $0.execute(sql: sql) }
        let before = try #require(FileIdentity(folder.path + "/index.sqlite"))
        let lines = LogLines()
        let tier = diskTier(folder, lines)
        #expect(tier.opened.problem?.isRefusal == true)
        await fill(tier, ["a"], size: 100)
        tier.clear()
        await tier.shutdown()
        #expect(FileIdentity(folder.path + "/index.sqlite") == before)
        let (rows, value) = try await DatabaseQueue(path: folder.path + "/index.sqlite").read { db in
            (
                try Int.fetchOne(db, sql: "SELECT count(*) FROM entry"),
                try Int.fetchOne(db, sql: String(sql.prefix { $0 != "=" }))
            )
        }
        #expect(rows == 1 && value == Int(sql.split(separator: " ").last!))
        #expect(folder.files.contains { $0.hasPrefix("blobs/") }, "files that it lists stay")
        #expect(!folder.files.contains("index-2.sqlite"))
        #expect(lines.all.count == 1, "\(lines.all)")
    }

    @Test("what the machine or another process does to it is not taken for damage")
    func otherFailures() {
        let harmless: [ResultCode] = [
            .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL, .SQLITE_IOERR, .SQLITE_FULL, .SQLITE_CANTOPEN,
            .SQLITE_NOMEM, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH, .SQLITE_ABORT, .SQLITE_INTERRUPT,
            .SQLITE_MISUSE, .SQLITE_TOOBIG, .SQLITE_NOLFS, .SQLITE_SCHEMA, .SQLITE_IOERR_LOCK, .SQLITE_BUSY_RECOVERY,
        ]
        for code in harmless {
            let failure = IndexFailure(DatabaseError(resultCode: code))
            #expect(failure == .busy || failure == .machine, "\(code)")
        }
        for code in [ResultCode.SQLITE_CORRUPT, .SQLITE_NOTADB] {
            #expect(IndexFailure(DatabaseError(resultCode: code)) == .damage)
        }
    }

    @Test("a failure that only looks like damage leaves it in place")
    func suspicion() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, ["a"], size: 100)
        let index = try #require(tier.opened.index)
        tier.indexFailed(IndexError(cause: DatabaseError(resultCode: .SQLITE_ERROR), index: index))
        await tier.synchronize()
        #expect(tier.opened.index === index)
        #expect(tier.entry(for: "a") != nil)
        await tier.shutdown()
    }

    @Test("a failure of an index that has been replaced is not put down to the new one")
    func earlierIndex() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, ["a"], size: 9_000)
        let old = try #require(tier.opened.index)
        tier.indexFailed(IndexError(cause: EntryIndex.Damage(), index: old))
        await tier.synchronize()
        let new = try #require(tier.opened.index)
        #expect(new !== old)
        tier.indexFailed(IndexError(cause: EntryIndex.Damage(), index: old))
        await tier.synchronize()
        #expect(tier.opened.index === new)
        #expect(!folder.files.contains("index-3.sqlite"))
        await tier.shutdown()
    }

    @Test("keys and URLs with a zero byte are kept whole, told apart, and found sound")
    func zeroBytes() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        let keys = ["same\0one", "same\0two", "\0", "same"]
        await fill(tier, keys, size: 100)
        await fill(tier, keys.map { $0 + "/large" }, size: 9_000)
        var listed: Set<String> = []
        tier.forEachEntry { listed.insert($0.key.string) }
        #expect(listed == Set(keys + keys.map { $0 + "/large" }))
        #expect(tier.details(of: "same\0one")?.key == "same\0one")
        let report = await tier.verify()
        #expect(report.isSound && report.sound == 8, "\(report)")
        for key in keys { #expect(tier.entry(for: CacheKey(key)) != nil) }
        await tier.shutdown()
    }

    @Test("what is made from an entry whose key has a zero byte goes with it, and no more")
    func derivedOfZeroBytes() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        let (one, two) = (CacheKey("same\0one"), CacheKey("same\0two"))
        let derived = [one, two].map { $0.derivedPrefix + "small" }
        for key in derived {
            tier.write(
                EntryRecord(
                    key: CacheKey(verbatim: key),
                    value: StoredData(data: Data(count: 9), info: .init(url: "", stored: 0)),
                    lifetime: .forever))
        }
        await tier.synchronize()
        tier.removeDerived(of: one)
        await tier.synchronize()
        #expect(tier.entry(for: CacheKey(verbatim: derived[0])) == nil)
        #expect(tier.entry(for: CacheKey(verbatim: derived[1])) != nil)
        await tier.shutdown()
    }

    @Test("a folder removed behind the cache's back counts as empty at once")
    func removedFolder() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, ["a"], size: 9_000)
        await fill(tier, ["b"], size: 100)
        #expect(tier.totals.entries == 2)
        try FileManager.default.removeItem(at: folder.url)
        #expect(tier.totals == .init())
        tier.forEachEntry { _ in Issue.record("there are none") }
        #expect(tier.details(of: "a") == nil)
        await fill(tier, ["c"], size: 9_000)
        #expect(tier.totals.entries == 1)
        await tier.shutdown()
    }

    @Test("a list is not called complete if the folder is removed before or during it", arguments: [true, false])
    func removedWhileListing(isBefore: Bool) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, ["a"], size: 9_000)
        #expect(tier.forEachEntry { _ in })
        if isBefore { try FileManager.default.removeItem(at: folder.url) }
        var listed = 0
        let isComplete = tier.forEachEntry { _ in
            listed += 1
            try? FileManager.default.removeItem(at: folder.url)
        }
        #expect(!isComplete && listed == (isBefore ? 0 : 1))
        await tier.shutdown()
    }
}
