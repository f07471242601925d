import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("After a power cut files and index are brought in step", .timeLimit(.minutes(5)))
struct SweepTests {
    private let keys = (0..<300).map { "k\($0)" }

    /// A folder with large and small entries, as a machine left it that was then started anew.
    private func folder(_ change: (DiskTier, TemporaryFolder) throws -> Void) async throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.boot = "first" }
        await fill(tier, keys, size: 3_000)
        await fill(tier, keys.map { $0 + "small" }, size: 100)
        await tier.shutdown()
        try change(tier, folder)
        return folder
    }

    private func path(_ key: String, _ folder: TemporaryFolder) -> String {
        let name = KeyDigest.sha256(CacheKey(key))
        return "\(folder.path)/blobs/\(name.prefix(2))/\(name)"
    }

    /// Whether number and size are those of what is there, and no file is without a row.
    private func expectRight(_ tier: DiskTier, _ folder: TemporaryFolder, _ entries: Int) async throws {
        #expect(tier.totals.entries == entries)
        let (bytes, listed) = try await DatabaseQueue(path: folder.path + "/index.sqlite").read { db in
            (
                try Int.fetchOne(db, sql: "SELECT ifnull(sum(length(record)), 0) FROM small") ?? 0,
                try String.fetchAll(db, sql: "SELECT name FROM entry WHERE id NOT IN (SELECT id FROM small)")
            )
        }
        let files = folder.files.filter { $0.hasPrefix("blobs/") }
        #expect(Set(files.map { String($0.split(separator: "/").last!) }) == Set(listed))
        let sizes = try files.map {
            try FileManager.default.attributesOfItem(atPath: folder.path + "/" + $0)[.size] as? Int ?? 0
        }
        #expect(tier.totals.bytes == sizes.reduce(bytes, +))
    }

    @Test("rows without files, files without rows, torn files, and files of other sizes are put right by themselves")
    func differences() async throws {
        let folder = try await folder { _, folder in
            for key in keys[0..<10] { unlink(path(key, folder)) }
            for key in keys[10..<20] { truncate(path(key, folder), 1_000) }
            // An earlier version, whose size was another one.
            let record = diskRecord(keys[20], size: 5_000)
            try (record.value.data + Data(record.encodeTrailer())).write(
                to: URL(fileURLWithPath: path(keys[20], folder)))
            // A file that a small entry has replaced, and whose removal was lost.
            let old = diskRecord("k21small", size: 9_000)
            let place = path("k21small", folder)
            try FileManager.default.createDirectory(
                atPath: (place as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            try (old.value.data + Data(old.encodeTrailer())).write(to: URL(fileURLWithPath: place))
            let queue = try DatabaseQueue(path: folder.path + "/index.sqlite")
            for key in keys[30..<40] {
                try queue.write {
                    try $0.execute(
                        sql: "DELETE FROM entry WHERE name = ?", arguments: [KeyDigest.sha256(CacheKey(key))])
                }
            }
        }
        let tier = diskTier(folder) { $0.boot = "second" }
        await tier.reconcile()
        try await expectRight(tier, folder, 580)
        for key in keys[20...] { #expect(tier.entry(for: CacheKey(key)) != nil, "\(key)") }
        #expect(tier.entry(for: "k21small")?.value.data.count == 100)
        let report = await tier.verify()
        #expect(report.isSound && report.sound == 580 && report.unlisted == 0 && report.unfinished == 0, "\(report)")
        await tier.shutdown()
    }

    @Test("within one run of the machine nothing is compared, unless a process was killed")
    func sameBoot() async throws {
        let folder = try await folder { _, folder in unlink(path(keys[0], folder)) }
        let tier = diskTier(folder) { $0.boot = "first" }
        await tier.reconcile()
        #expect(tier.totals.entries == 600)
        await tier.shutdown()
        // As a process leaves it that is killed.
        try folder.put("staging/0123456789abcdef/.lock", "")
        let half = "staging/0123456789abcdef/" + KeyDigest.sha256("half")
        try folder.put(half, "")
        let next = diskTier(folder) { $0.boot = "first" }
        #expect(!folder.files.contains(half))
        await next.reconcile()
        try await expectRight(next, folder, 599)
        await next.shutdown()
    }

    @Test("a comparison that was not finished goes on with the next process")
    func resumed() async throws {
        let folder = try await folder { _, folder in unlink(path(keys[0], folder)) }
        // On a busy machine the comparison may be over before it is broken off. Each start of the machine has another.
        var boot = "second"
        let isLate = Box(true)
        while isLate.value {
            boot += " or later"
            isLate.update { $0 = false }
            let first = diskTier(folder) { [boot] in $0.boot = boot }
            endAmidFiles(first, try #require(first.opened.index), boot, isLate)
            try #require(await settle { first.isClosed || isLate.value }, "a few folders are compared")
            await first.shutdown()
        }
        let (phase, last) = try await DatabaseQueue(path: folder.path + "/index.sqlite").read { db in
            let row = try #require(try Row.fetchOne(db, sql: "SELECT phase, position FROM sweep"))
            return (row["phase"] as Int, row["position"] as String)
        }
        #expect(phase == 0 && last > "" && last < "f", "the comparison has begun and has not ended: \(phase) \(last)")
        // Only somebody who begins anew finds what came into a folder that has been compared.
        let early = try #require((0...).lazy.map { "early\($0)" }.first { KeyDigest.sha256(CacheKey($0)) < last })
        let record = diskRecord(early, size: 3_000)
        try folder.put(String(path(early, folder).dropFirst(folder.path.utf8.count + 1)), "")
        try (record.value.data + Data(record.encodeTrailer())).write(to: URL(fileURLWithPath: path(early, folder)))
        let tier = diskTier(folder) { [boot] in $0.boot = boot }
        await tier.reconcile()
        #expect(tier.details(of: CacheKey(early)) == nil, "earlier folders are not read again")
        unlink(path(early, folder))
        try await expectRight(tier, folder, 599)
        #expect(try tier.opened.index?.sweepPosition() == nil)
        #expect(try tier.opened.index?.sweptBoot() == boot)
        await tier.shutdown()
    }

    /// Closes the tier, as a shutdown does, between two steps of the comparison, once some folders have been compared.
    /// - Parameter isLate: set if most folders have been compared by then.
    private func endAmidFiles(_ tier: DiskTier, _ index: EntryIndex, _ boot: String, _ isLate: Box<Bool>) {
        tier.writer.run {
            let last = (try? index.sweepPosition()).flatMap { $0.phase == .files ? $0.last : nil } ?? "g"
            if (try? index.sweptBoot()) != boot || last < "04" {
                endAmidFiles(tier, index, boot, isLate)
            } else if last < "e" {
                tier.staged.withLock { $0.isClosed = true }
            } else {
                isLate.update { $0 = true }
            }
        }
    }
}
