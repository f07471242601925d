import FlushLog
import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("A folder is used only if it is the cache's own", .timeLimit(.minutes(5)))
struct FolderSafetyTests {
    /// Makes every kind of change that a cache can make to its folder.
    private func useAll(_ tier: DiskTier) async {
        await fill(tier, ["a"], size: 9_000)
        await fill(tier, ["b"], size: 100)
        tier.remove("a")
        tier.trim(toSize: 0)
        tier.remove(storedBefore: 1e12)
        tier.removeExpiredLater()
        tier.removeDerived(of: "a")
        _ = await tier.verify()
        tier.clear()
        await tier.synchronize()
        await tier.shutdown()
    }

    @Test("one that is neither empty nor marked is refused with one line in the log, and nothing in it changes")
    func foreignFolder() async throws {
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        try other.put("precious", "kept")
        try folder.put("staging/config/app.yml", "a: 1")
        try folder.put("blobs/ab/abfile", "x")
        try folder.put("partial/old", "x")
        try folder.put("index.sqlite-wal", "x")
        try await DatabaseQueue(path: folder.path + "/index.sqlite").write {
            try $0.execute(sql: "CREATE TABLE theirs (x)")
        }
        symlink(other.path, folder.path + "/staging/0123456789abcdef")
        let before = (snapshot(folder.path), snapshot(other.path))
        let lines = LogLines()
        let tier = diskTier(folder, lines)
        #expect(tier.opened.problem?.isRefusal == true)
        await useAll(tier)
        #expect((snapshot(folder.path), snapshot(other.path)) == before)
        #expect(lines.all.count == 1, "\(lines.all)")
        #expect(lines.all.first?.contains("'\(folder.path)' is not a folder of Dipper's") == true)
    }

    @Test("a cache goes on in memory where its folder is refused")
    func inMemory() async throws {
        let folder = TemporaryFolder()
        try folder.put("notes.txt", "mine")
        let test = TestCache(folder: folder)
        try await test.cache.addDataAndWait(Data("here".utf8), for: "a")
        #expect(test.cache.data(for: "a") == Data("here".utf8))
        #expect(test.cache.diskCount == 0)
        await test.cache.shutdown()
        #expect(folder.files == ["notes.txt"])
    }

    @Test(
        "one with a marker of another version, or with none of the cache's, is refused",
        arguments: ["dipper-cache 4\n", "dipper-cache 2\n", "", "something else\n", "dipper-cache 3 or so\n"])
    func otherMarkers(text: String) async throws {
        let folder = TemporaryFolder()
        try folder.put("dipper-cache", text)
        let before = snapshot(folder.path)
        let tier = diskTier(folder)
        #expect(tier.opened.problem?.isRefusal == true)
        await useAll(tier)
        #expect(snapshot(folder.path) == before)
    }

    @Test(
        "one that is new or empty is marked before anything else, also by many at once",
        arguments: ["", "dip", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"])
    func marking(unfinished: String) async throws {
        let folder = TemporaryFolder()
        // A process that was killed while it marked the folder leaves this file; a power cut may leave zeros in it.
        try folder.put(".new.0123456789abcdef", unfinished)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let tier = diskTier(folder)
                    #expect(tier.opened.problem == nil)
                    await fill(tier, ["k\(number)"], size: 3_000)
                    await tier.shutdown()
                }
            }
        }
        let marker = try String(contentsOf: folder.url.appendingPathComponent("dipper-cache"), encoding: .utf8)
        #expect(marker == "dipper-cache 3\n")
        #expect(!folder.files.contains { $0.hasPrefix(".") })
        let tier = diskTier(folder)
        #expect(tier.totals.entries == 8)
        await tier.shutdown()
    }

    @Test("one without a marker is not empty if it has a file that only has the name of an unfinished marker")
    func foreignMarker() async throws {
        for text in [
            "somebody's text", "dipper-cache 3\nand more", "dipper-cache\t3", "dip\0\0x",
            String(repeating: "\0", count: 16),
        ] {
            let folder = TemporaryFolder()
            try folder.put(".new.0123456789abcdef", text)
            let before = snapshot(folder.path)
            let tier = diskTier(folder)
            #expect(tier.opened.problem?.isRefusal == true, "\(text)")
            await useAll(tier)
            #expect(snapshot(folder.path) == before, "\(text)")
        }
    }

    @Test(
        "a symbolic link in it is not followed, for reading, writing or removing",
        arguments: [
            "blobs", "staging", "partial", "index.sqlite", "index.sqlite-wal", "dipper-cache",
            "staging/0123456789abcdef",
            "shard", "file",
        ])
    func links(place: String) async throws {
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        let first = diskTier(folder)
        await fill(first, ["a"], size: 9_000)
        let file = try #require(first.file(for: "a")).path
        await first.shutdown()
        let name = String(file.split(separator: "/").last!)
        let shard = String(name.prefix(2))
        // There is everything that could be taken for the cache's own.
        try other.put("precious", "kept")
        for target in [name, "\(shard)/\(name)", "0123456789abcdef/\(name)"] { try other.put(target, "theirs") }
        let link =
            switch place {
            case "shard": folder.path + "/blobs/" + shard
            case "file": file
            default: folder.path + "/" + place
            }
        try? FileManager.default.removeItem(atPath: link)
        let isFile = ["file", "index.sqlite", "index.sqlite-wal", "dipper-cache"].contains(place)
        symlink(isFile ? other.path + "/precious" : other.path, link)
        let before = snapshot(other.path)
        let tier = diskTier(folder)
        #expect(
            tier.entry(for: "a") == nil || ["staging", "staging/0123456789abcdef", "partial"].contains(place),
            "\(place)")
        try? tier.opened.partials?.write(diskRecord("a", size: 500), named: name, limit: 1 << 20, now: 1_800_000_000)
        await useAll(tier)
        #expect(snapshot(other.path) == before)
    }

    @Test("files that the cache cannot have made stay, whatever is removed")
    func foreignFiles() async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["a"], size: 9_000)
        await first.shutdown()
        let theirs = [
            "blobs/notes.txt", "blobs/ab/notes.txt", "blobs/ab/abnotes.txt", "blobs/ab/deep/file", "partial/deep/file",
            "staging/notes.txt", "staging/config/app.yml", "notes.txt", "index-notes.sqlite",
            "partial/notes.txt", "staging/0123456789abcdef/notes.txt", ".new.0123456789abcdef",
        ]
        for name in theirs { try folder.put(name, "theirs") }
        await useAll(diskTier(folder))
        #expect(Set(theirs).subtracting(folder.files) == [])
        #expect(!folder.files.contains { $0.hasPrefix("blobs/") && !theirs.contains($0) })
    }

    @Test(
        "one of another user is refused, and another user's file in it counts as not there",
        .enabled(if: geteuid() == 0, "giving files away needs root"))
    func owner() async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["a"], size: 9_000)
        let file = try #require(first.file(for: "a")).path
        await first.shutdown()
        chown(file, 12_345, 12_345)
        let second = diskTier(folder)
        #expect(second.entry(for: "a") == nil)
        await second.shutdown()
        chown(file, 0, 0)
        chown(folder.path, 12_345, 12_345)
        let before = snapshot(folder.path)
        let third = diskTier(folder)
        #expect(third.opened.problem?.isRefusal == true)
        await useAll(third)
        #expect(snapshot(folder.path) == before)
    }

    @Test("without locks nothing is kept on disk, and no staging folder stays behind")
    func noLocks() async throws {
        let folder = TemporaryFolder()
        flush_log_refuse_locks(folder.url.lastPathComponent + "/")
        let lines = LogLines()
        for _ in 0..<3 {
            let tier = diskTier(folder, lines)
            await fill(tier, ["a"], size: 9_000)
            await tier.shutdown()
        }
        flush_log_refuse_locks(nil)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/staging").isEmpty)
        #expect(lines.all.contains { $0.contains("cannot be written") })
    }

    @Test("a file that is put in place by renaming replaces no other")
    func renamedUnlessTaken() throws {
        let temporary = TemporaryFolder()
        try temporary.put("new", "new")
        try temporary.put("taken", "kept")
        let folder = try Folder(path: temporary.path)
        #expect(try !folder.rename("new", to: folder, unlessTaken: "taken"))
        #expect(temporary.text("taken") == "kept" && temporary.text("new") == "new")
        #expect(try folder.rename("new", to: folder, unlessTaken: "free"))
        #expect(temporary.text("free") == "new" && Set(temporary.files) == ["taken", "free"])
    }
}
