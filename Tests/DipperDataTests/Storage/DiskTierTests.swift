import DipperTesting
import Dispatch
import Foundation
import GRDB
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("The disk tier", .timeLimit(.minutes(5)))
struct DiskTierTests {
    /// Returns a tier that logs only critical messages.
    func tier(
        _ folder: TemporaryFolder, limit: Int? = nil, date: ManualDate = ManualDate(), naming: FileNaming = .sha256
    ) -> DiskTier {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return DiskTier(
            .init(folder: folder.url.path, sizeLimit: limit, naming: naming), logger: logger, now: { date.now })
    }

    func record(_ key: String, size: Int, seed: UInt8 = 1) -> EntryRecord {
        EntryRecord(
            key: CacheKey(key),
            value: StoredData(
                data: Data((0..<size).map { UInt8(truncatingIfNeeded: $0) &* 31 &+ seed }),
                info: EntryInfo(url: "http://host/\(key)", headers: ["ETag": "x"], stored: 1_800_000_000)),
            lifetime: .forever)
    }

    func fill(_ tier: DiskTier, _ keys: [String], size: Int) async {
        for key in keys { tier.write(record(key, size: size)) }
        await tier.synchronize()
    }

    // MARK: Records

    @Test("a record comes back as it was, with everything known of it")
    func roundTrip() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        for size in [0, 10, 5_000] {
            var original = record("k\(size)", size: size)
            original.lifetime = Lifetime(expires: 1_900_000_000, accessExtension: 60)
            tier.write(original)
            await tier.synchronize()
            let read = try #require(tier.entry(for: original.key))
            #expect(read.value.data == original.value.data)
            #expect(read.value.info.url == original.value.info.url)
            #expect(read.value.info.headers == original.value.info.headers)
            #expect(read.lifetime == original.lifetime)
        }
        await tier.shutdown()
    }

    @Test("what was written is there once the disk has been synchronized, whoever else writes at that moment")
    func synchronizing() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        let missed = await withTaskGroup(of: Int.self) { group in
            for task in 0..<4 {
                group.addTask {
                    var missed = 0
                    for round in 0..<300 {
                        let record = record("\(task)/\(round)", size: 10)
                        tier.write(record)
                        await tier.synchronize()
                        let row = try? tier.opened.index?.smallRecord(tier.options.naming.name(record.key))
                        if row == nil { missed += 1 }
                    }
                    return missed
                }
            }
            return await group.reduce(0, +)
        }
        #expect(missed == 0)
        await tier.shutdown()
    }

    @Test("no truncation and no flipped bit of a record is taken for whole")
    func damagedRecords() {
        let record = record("key", size: 300)
        let whole = [UInt8](record.value.data) + record.encodeTrailer()
        func decodes(_ bytes: [UInt8]) -> Bool {
            bytes.withUnsafeBytes { EntryRecord.decode($0) { _ in Data() } } != nil
        }
        #expect(decodes(whole))
        for count in 0..<whole.count { #expect(!decodes(Array(whole.prefix(count)))) }
        for index in whole.indices {
            for bit in 0..<8 {
                var flipped = whole
                flipped[index] ^= 1 << bit
                #expect(!decodes(flipped), "byte \(index) bit \(bit)")
            }
        }
        #expect(!decodes(whole + [0]))
    }

    // MARK: Limits

    @Test("the limit is kept while writing, and what was used longest ago goes first")
    func limit() async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let tier = tier(folder, limit: 100_000, date: date)
        var largest = 0
        for number in 0..<60 {
            date.advance(by: 1)
            await fill(tier, ["k\(number)"], size: 5_000)
            if number >= 5 { #expect(tier.entry(for: "k5") != nil, "k5 is used all the time: \(number)") }
            largest = max(largest, tier.totals.bytes)
        }
        #expect(largest <= 100_000)
        #expect(tier.totals.bytes > 60_000)
        #expect(tier.entry(for: "k59") != nil)
        #expect(tier.entry(for: "k0") == nil)
        let onDisk = folder.files.filter { $0.hasPrefix("blobs") }.count
        #expect(onDisk == tier.totals.entries)
        await tier.shutdown()
    }

    @Test("expired entries make room first")
    func expiredFirst() async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let tier = tier(folder, limit: 50_000, date: date)
        await fill(tier, ["old"], size: 5_000)
        var brief = record("brief", size: 5_000)
        brief.lifetime = Lifetime(expires: date.now.timeIntervalSince1970 + 10, accessExtension: nil)
        tier.write(brief)
        date.advance(by: 11)
        await fill(tier, (0..<8).map { "k\($0)" }, size: 5_000)
        #expect(tier.entry(for: "brief") == nil)
        #expect(tier.totals.bytes <= 50_000)
        await tier.shutdown()
    }

    @Test("a hit writes nothing")
    func hitsDoNotWrite() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        await fill(tier, ["small"], size: 100)
        await fill(tier, ["large"], size: 50_000)
        func state() throws -> [String: Date] {
            var dates: [String: Date] = [:]
            for file in folder.files where !file.hasSuffix("-shm") {
                let attributes = try FileManager.default.attributesOfItem(atPath: folder.url.path + "/" + file)
                dates[file] = attributes[.modificationDate] as? Date
            }
            return dates
        }
        let before = try state()
        for _ in 0..<100 {
            #expect(tier.entry(for: "small") != nil)
            #expect(tier.entry(for: "large") != nil)
        }
        await tier.synchronize()
        #expect(try state() == before)
        await tier.shutdown()
    }

    // MARK: Staging

    @Test("reads see what is staged, the latest of it, and removals")
    func staging() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        let stall = DispatchSemaphore(value: 0)
        tier.writer.run { stall.wait() }
        for seed in 1...3 { tier.write(record("a", size: 5_000, seed: UInt8(seed))) }
        tier.write(record("b", size: 5_000))
        tier.remove("b")
        #expect(tier.entry(for: "a")?.value.data == record("a", size: 5_000, seed: 3).value.data)
        #expect(tier.contains("a"))
        #expect(tier.entry(for: "b") == nil)
        #expect(!tier.contains("b"))
        stall.signal()
        await tier.synchronize()
        #expect(tier.entry(for: "a")?.value.data == record("a", size: 5_000, seed: 3).value.data)
        #expect(tier.entry(for: "b") == nil)
        #expect(tier.totals.entries == 1)
        await tier.shutdown()
    }

    @Test("an entry that changes its size moves between file and index, and counts once")
    func sizeChanges() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        for size in [100, 50_000, 200, 60_000, 0] {
            await fill(tier, ["a"], size: size)
            #expect(tier.entry(for: "a")?.value.data.count == size)
            #expect(tier.totals.entries == 1)
            #expect((tier.file(for: "a") != nil) == (size > 2_000))
        }
        await tier.shutdown()
    }

    // MARK: Names

    @Test(
        "file names of one's own cannot leave the folder, and a shared name mixes no keys up",
        arguments: [
            "../../escape", "/etc/passwd", "..", ".", "", ".hidden", "a/b", "nul\0byte",
            String(repeating: "x", count: 300),
            "plain", "ab",
        ])
    func names(name: String) async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder, naming: .custom { _ in name })
        await fill(tier, ["one"], size: 5_000)
        #expect(tier.entry(for: "one") != nil)
        let parent = folder.url.deletingLastPathComponent().path
        #expect(
            tier.file(for: "one")!.resolvingSymlinksInPath().path.hasPrefix(
                folder.url.resolvingSymlinksInPath().path + "/blobs/"))
        #expect(!FileManager.default.fileExists(atPath: parent + "/escape"))
        if tier.options.naming.name("one") == tier.options.naming.name("two") {
            await fill(tier, ["two"], size: 6_000)
            #expect(tier.entry(for: "one") == nil)
            #expect(tier.entry(for: "two")?.value.data.count == 6_000)
        }
        await tier.shutdown()
    }

    @Test(
        "names by digest are those of the digest",
        arguments: [
            (FileNaming.md5, "900150983cd24fb0d6963f7d28e17f72"), (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ])
    func digests(naming: FileNaming, expected: String) {
        #expect(naming.name("abc") == expected)
    }

    // MARK: Sharing

    @Test("two stores on one folder see each other's entries, and neither takes the other's staging away")
    func shared() async throws {
        let folder = TemporaryFolder()
        let one = tier(folder)
        let two = tier(folder)
        async let first: Void = fill(one, (0..<100).map { "one\($0)" }, size: 3_000)
        async let second: Void = fill(two, (0..<100).map { "two\($0)" }, size: 300)
        _ = await (first, second)
        for number in 0..<100 {
            #expect(two.entry(for: CacheKey("one\(number)")) != nil)
            #expect(one.entry(for: CacheKey("two\(number)")) != nil)
        }
        #expect(one.totals.entries == 200)
        #expect(one.totals == two.totals)
        one.remove("two7")
        await one.synchronize()
        #expect(two.entry(for: "two7") == nil)
        let report = await two.verify()
        #expect(report.isSound && report.sound == 199 && report.unlisted == 0)
        await one.shutdown()
        await two.shutdown()
    }

    @Test("the folder is for its owner alone")
    func mode() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder)
        let mode = try FileManager.default.attributesOfItem(atPath: folder.url.path)[.posixPermissions] as? Int
        #expect(mode == 0o700)
        await tier.shutdown()
    }
}

/// A small file system for one test.
final class Mount {
    static let isPossible = getuid() == 0
    let folder = TemporaryFolder()

    struct Failed: Error { let code: Int32 }

    init(megabytes: Int) throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        guard mount("tmpfs", folder.url.path, "tmpfs", 0, "size=\(megabytes)m") == 0 else { throw Failed(code: errno) }
    }

    func makeReadOnly() throws {
        guard mount("tmpfs", folder.url.path, "tmpfs", UInt(MS_REMOUNT | MS_RDONLY), nil) == 0 else {
            throw Failed(code: errno)
        }
    }

    deinit { umount2(folder.url.path, Int32(MNT_DETACH)) }
}
