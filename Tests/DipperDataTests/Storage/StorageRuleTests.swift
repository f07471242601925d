import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("Rules of the store, as values", .timeLimit(.minutes(2)))
struct StorageRuleTests {
    @Test("a lifetime ends when it says, an access extends it as it says, and times that cannot be count as never")
    func lifetimes() {
        let now = Date(timeIntervalSince1970: 1_000)
        let cases: [(Expiration, AccessExtension, ends: TimeInterval, accessedAt2000: TimeInterval)] = [
            (.after(.seconds(10)), .unchanged, 1_010, 1_010), (.after(.seconds(10)), .cacheTime, 1_010, 2_010),
            (.days(1), .expiration(.after(.seconds(5))), 87_400, 2_005), (.expired, .unchanged, 1_000, 1_000),
            (.date(now + 50), .cacheTime, 1_050, 1_050), (.never, .cacheTime, .infinity, .infinity),
            (.after(.seconds(10)), .expiration(.date(now + 70)), 1_010, 1_070), (.days(-5), .unchanged, 1_000, 1_000),
            (.after(.seconds(10)), .expiration(.never), 1_010, .infinity),
            (.after(.seconds(1e20)), .unchanged, .infinity, .infinity),
            (.days(.max), .cacheTime, .infinity, .infinity), (.after(.seconds(-5)), .unchanged, 995, 995),
        ]
        for (expiration, added, ends, later) in cases {
            let lifetime = Lifetime(expiration, extendedBy: added, now: now)
            #expect(lifetime.expires == ends && lifetime.expires(accessedAt: 2_000) == later, "\(expiration) \(added)")
            #expect(lifetime.isExpired(at: ends) && !lifetime.isExpired(at: ends - 1) || ends == .infinity)
        }
        #expect(!Lifetime.forever.isExpired(at: 1e300))
    }

    @Test("a duration is made of any number, and a number from outside is infinite when it is too large")
    func numbers() {
        let cases: [(Double, bounded: Double, Duration)] = [
            (1.5, 1.5, .milliseconds(1_500)), (-1e13, -1e13, .seconds(-1e13)), (.nan, 0, .zero),
            (1e14, .infinity, .seconds(1e14)), (.infinity, .infinity, .seconds(1e14)),
            (1e300, .infinity, .seconds(1e14)),
            (-1e300, -.infinity, .seconds(-1e14)), (-.infinity, -.infinity, .seconds(-1e14)),
        ]
        for (number, bounded, duration) in cases {
            #expect(number.bounded == bounded && Duration.seconds(clamping: number) == duration, "\(number)")
        }
    }

    @Test("a record with an impossible time is damaged, and no answer has an age that ends the program")
    func recordTimes() throws {
        let impossible: [Double] = [.nan, .infinity, -.infinity, 1e300, -1e300, 1e14, -1e14]
        func decoded(stored: Double = 1_000, _ generated: Double, _ until: Double) throws -> StoredData? {
            let info = EntryInfo(
                url: "http://host/a", stored: stored, freshness: Freshness(generated: generated, until: until))
            let record = EntryRecord(
                key: "a", value: StoredData(data: Data(count: 10), info: info), lifetime: .forever)
            let (body, trailer) = try RecordFormat().encode(record)
            return RecordFormat().decode(body, Data(trailer)).record?.value
        }
        for time in impossible {
            #expect(try decoded(time, 2_000) == nil && decoded(stored: time, 1_000, 2_000) == nil, "\(time)")
            let until = try #require(try decoded(1_000, time)).info.freshness.until
            #expect(until == time.bounded && abs(until) != 1e300)
        }
        let response = DataResponse(try #require(try decoded(1_000, .infinity)), source: .disk)
        for time in impossible {
            #expect(response.age(at: Date(timeIntervalSince1970: time)) >= .zero, "\(time)")
        }
        #expect(response.age(at: Date(timeIntervalSince1970: 1_007)) == .seconds(7))
    }

    @Test(
        "an answer that only one client may have stays so, in a form that other versions count as absent",
        arguments: [.off, .gzip, .zstd] as [StorageCompression])
    func clientRecords(compression: StorageCompression) throws {
        let format = RecordFormat(compression: compression)
        func encoded(_ audience: Audience, status: Int = 200) throws -> (body: Data, trailer: Data) {
            let info = EntryInfo(url: "http://host/a", status: status, stored: 1_000, audience: audience)
            let value = StoredData(data: Data(count: 2_000), info: info)
            let (body, trailer) = try format.encode(EntryRecord(key: "a", value: value, lifetime: .forever))
            return (body, Data(trailer))
        }
        for audience in [Audience.client, .cache, .everybody] {
            let (body, trailer) = try encoded(audience)
            #expect(format.decode(body, trailer).record?.value.info.audience == audience)
            #expect(RecordFormat.info(in: trailer)?.audience == audience)
            let version = trailer[trailer.count - 28]
            #expect(version == (compression == .off ? 2 : 3) + (audience == .client ? 3 : 0))
        }
        // As if the status told it.
        let (body, trailer) = try encoded(.cache, status: 200 | 1 << 30)
        #expect(format.decode(body, trailer).record == nil && RecordFormat.info(in: trailer) == nil)
    }

    @Test("removing what was made from many entries takes time for each, not for all others", .timeLimit(.minutes(1)))
    func manyDerived() {
        var area = StagingArea(limit: 1 << 30)
        let keys = (0..<20_000).map { CacheKey(verbatim: "http://host/\($0)") }
        func slot(_ key: CacheKey) -> StagingArea.Slot {
            .init(key: CacheKey(verbatim: key.string + "\n#small\n#round"))
        }
        for key in keys { area.add(nil, for: slot(key)) }
        for key in keys { area.remove(.derived(of: key), storedBefore: 10) }
        #expect(area.bytes == 0 && area.takeDropped().count == keys.count && area.newRemovals.count == keys.count)
        // One expectation, because each takes as long as the rest of the test.
        #expect(keys.allSatisfy { area.goneBefore(slot($0)) == .infinity && area.goneBefore(.init(key: $0)) < 0 })
    }

    @Test("a removal covers what was made from an entry, also from what was made from it, and no other entry")
    func covering() {
        let origins = ["", "a", "ab", "a\n#b", "a\n#b\n#c", "a\n17\nde", "é", "a\n\\#b"].map { CacheKey(verbatim: $0) }
        let keys = origins + origins.map { CacheKey(verbatim: $0.derivedPrefix + "d") }
        for (origin, key) in origins.flatMap({ origin in keys.map { (origin, $0) } }) {
            let scope = StagingArea.Scope.derived(of: origin)
            #expect(scope.covers(.init(key: key)) == key.isDerived(of: origin), "\(origin.string) \(key.string)")
            #expect(!scope.covers(.init(key: key, table: .partial)))
        }
    }

    @Test("reads whose accesses cannot be written yet are remembered for a limited number of entries")
    func manyAccesses() async throws {
        let folder = TemporaryFolder()
        var options = DiskTier.Options(folder: folder.path)
        options.mostAccesses = 10
        let tier = DiskTier(
            options, logger: .silent, history: RemovalHistory(), now: { Date(timeIntervalSince1970: 2_000) },
            expiries: ExpiryWatch { _ in }, onBacklog: {}, events: nil)
        let keys = (0..<30).map { CacheKey(verbatim: "\($0)") }
        for key in keys {
            let info = EntryInfo(url: "", stored: 1_000)
            tier.write(
                EntryRecord(key: key, value: StoredData(data: Data(count: 10), info: info), lifetime: .forever))
        }
        await tier.synchronize()
        for key in keys + keys { #expect(tier.entry(for: key)?.value.data.count == 10) }
        #expect(tier.state.withLock { $0.accesses.count } == 10)
        await tier.shutdown()
    }

    @Test("reads of many entries change the index at most once a minute")
    func rareAccesses() async throws {
        let folder = TemporaryFolder()
        let time = Mutex(2_000.0)
        let tier = DiskTier(
            DiskTier.Options(folder: folder.path), logger: .silent, history: RemovalHistory(),
            now: { Date(timeIntervalSince1970: time.withLock { $0 }) }, expiries: ExpiryWatch { _ in }, onBacklog: {},
            events: nil)
        let keys = (0..<2_048).map { CacheKey(verbatim: "\($0)") }
        for key in keys {
            let info = EntryInfo(url: "", stored: 1_000)
            tier.write(EntryRecord(key: key, value: StoredData(data: Data(count: 1), info: info), lifetime: .forever))
        }
        await tier.synchronize()
        func waitingAfterReads(_ keys: some Sequence<CacheKey>) async -> Int {
            for key in keys { #expect(tier.entry(for: key) != nil) }
            await tier.synchronize()
            return tier.state.withLock { $0.accesses.count }
        }
        #expect(await waitingAfterReads(keys[..<512]) == 0)
        #expect(await waitingAfterReads(keys[512..<1_536]) == 1_024)
        time.withLock { $0 += 61 }
        #expect(await waitingAfterReads(keys[1_536...]) == 0)
        await tier.shutdown()
    }

    @Test("an access that extends an entry's life is written within a minute, because other processes remove by it")
    func extendingAccesses() async {
        let folder = TemporaryFolder()
        let time = Mutex(2_000.0)
        let tier = DiskTier(
            DiskTier.Options(folder: folder.path), logger: .silent, history: RemovalHistory(),
            now: { Date(timeIntervalSince1970: time.withLock { $0 }) }, expiries: ExpiryWatch { _ in }, onBacklog: {},
            events: nil)
        let key = CacheKey(verbatim: "key")
        tier.write(
            EntryRecord(
                key: key, value: StoredData(data: Data(count: 1), info: EntryInfo(url: "", stored: 1_000)),
                lifetime: Lifetime(expires: 2_100, accessExtension: 100)))
        await tier.synchronize()
        func waitingAfterRead() async -> Int {
            #expect(tier.entry(for: key) != nil)
            await tier.synchronize()
            return tier.state.withLock { $0.accesses.count }
        }
        #expect(await waitingAfterRead() == 0)
        #expect(await waitingAfterRead() == 1)
        time.withLock { $0 += 61 }
        #expect(await waitingAfterRead() == 0)
        await tier.shutdown()
    }

    @Test("a confirmation that names fields in another order says nothing new")
    func otherOrder() {
        func info(_ fields: (String, String)...) -> EntryInfo {
            EntryInfo(url: "", headers: HTTPHeaders(fields.map { .init($0.0, $0.1) }), stored: 1)
        }
        let stored = info(("ETag", "1"), ("Date", "then"), ("Vary", "a"), ("X", "2"), ("Vary", "b"))
        #expect(stored.saysTheSame(as: info(("X", "2"), ("Vary", "a"), ("Vary", "b"), ("etag", "1"), ("Age", "5"))))
        #expect(!stored.saysTheSame(as: info(("X", "2"), ("Vary", "b"), ("Vary", "a"), ("ETag", "1"))))
        #expect(!stored.saysTheSame(as: info(("X", "3"), ("Vary", "a"), ("Vary", "b"), ("ETag", "1"))))
    }

    @Test(
        "the extension is that of the URL's path, plain and short, or there is none",
        arguments: [
            ("http://host/a/cat.jpg", ".jpg"), ("http://host/a/Cat.JPEG?size=2.5#x.y", ".jpeg"),
            ("http://host/archive.tar.gz", ".gz"), ("http://host/cat.jpg\n6:accept3:x.y", ".jpg"),
            ("http://host/cat.jpg\n17\nde", ".jpg"), ("avatar.png", ".png"), ("people/1.webp", ".webp"),
            ("http://host/a.12345678", ".12345678"),
            ("http://host.com", ""), ("http://host.com?a.b", ""), ("http://host/a.b/c", ""), ("http://host/", ""),
            ("http://host/.png", ""), ("http://host/a.", ""), ("http://host/a.123456789", ""),
            ("http://host/a.j_g", ""), ("http://host/a.j%67", ""), ("http://host/a.é", ""), ("http://host/a..", ""),
            ("http://host/a.jpg/..", ""), ("http://host/a.\u{212A}", ""), ("a", ""), ("", ""),
            // What was made from it may be of another format, which its bytes show.
            ("http://host/cat.jpg\n#round", ""), ("http://host/cat.jpg\n#round\n17\nx.png", ""),
        ])
    func extensions(key: String, expected: String) {
        let key = CacheKey(verbatim: key)
        #expect(name(of: key, .ofURL) == key.digest + expected)
    }

    private func name(
        of key: CacheKey, _ end: FileExtension, _ data: Data = Data(), wanted: String? = nil
    ) -> String {
        let value = StoredData(data: data, info: EntryInfo(url: "", stored: 0))
        return FileNaming.sha256(extension: end)
            .name(of: EntryRecord(key: key, value: value, lifetime: .forever, fileExtension: wanted))
    }

    @Test(
        "a processed picture has the extension of its own format",
        arguments: [
            ("jpg", [0xFF, 0xD8, 0xFF, 0xE0]), ("png", [0x89, 0x50, 0x4E, 0x47]), ("gif", Array("GIF89a".utf8)),
            ("webp", Array("RIFF1234WEBPVP8L".utf8)), ("avif", Array("1234ftypavif".utf8)), (nil, Array("BM".utf8)),
            (nil, []),
        ] as [(String?, [UInt8])])
    func formats(end: String?, bytes: [UInt8]) {
        let key = CacheKey(verbatim: "http://host/cat.tiff\n#round")
        #expect(name(of: key, .ofURL, Data(bytes)) == key.digest + (end.map { ".\($0)" } ?? ""))
    }

    @Test("a fixed extension is that of all, unless it is no plain one")
    func fixedExtension() {
        let key = CacheKey(verbatim: "a\n#b")
        for text in ["bin", "PNG", "12345678", "", ".bin", "a/b", "../x", "123456789", "é", "a b", "\0"] {
            let expected = ["bin", "PNG", "12345678"].contains(text) ? "\(key.digest).\(text)" : key.digest
            #expect(name(of: key, .fixed(text)) == expected)
            #expect(name(of: key, .ofURL, wanted: text) == expected)
        }
    }

    @Test(
        "a stream that makes more or less than it says is not read, whatever it would make", arguments: [true, false])
    func bombs(isZstd: Bool) throws {
        let compress = isZstd ? Zstd.compress : Gzip.compress
        let decompress = isZstd ? Zstd.decompress : Gzip.decompress
        let zeros = Data(count: 3_000_000)
        let packed = try #require(compress(zeros, zeros.count))
        #expect(packed.count < 4_000)
        // libzstd wants a few bytes more than it writes.
        if !isZstd { #expect(compress(zeros, packed.count) == packed) }
        #expect(compress(zeros, packed.count - 1) == nil)
        packed.withUnsafeBytes { bytes in
            #expect(decompress(bytes, zeros.count) == zeros)
            for count in [0, 1, 1_000, zeros.count - 1, zeros.count + 1, 4_000_000, 1 << 40, .max, -1] {
                #expect(decompress(bytes, count) == nil, "\(count)")
            }
            for count in [0, 1, 17, bytes.count - 1] {
                let part = UnsafeRawBufferPointer(rebasing: bytes.prefix(count))
                #expect(decompress(part, zeros.count) == nil)
            }
        }
        for more in [Data([0]), packed] {
            (packed + more).withUnsafeBytes { #expect(decompress($0, zeros.count) == nil) }
        }
    }
}
