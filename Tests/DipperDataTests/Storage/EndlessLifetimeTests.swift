import DipperTesting
import Foundation
import GRDB
import TestSupport
import Testing

@testable import DipperData

@Suite("Entries that never expire, and times that cannot be", .timeLimit(.minutes(5)))
struct EndlessLifetimeTests {
    private static let endless: [(Expiration, AccessExtension)] = [
        (.never, .cacheTime), (.never, .expiration(.never)), (.days(1), .expiration(.never)),
        (.seconds(1e16), .cacheTime), (.seconds(1e300), .expiration(.seconds(1e15))), (.seconds(1e14), .unchanged),
        (.days(.max), .cacheTime),
    ]

    @Test(
        "an entry that never expires, or that an access keeps for ever, stays, and so do all others", arguments: endless
    )
    func stays(expiration: Expiration, added: AccessExtension) async throws {
        let folder = TemporaryFolder()
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        for size in [100, 9_000] {
            let first = diskTier(folder)
            await fill(first, ["other"], size: 100)
            var record = diskRecord("a", size: size)
            record.lifetime = Lifetime(expiration, extendedBy: added, now: now)
            first.write(record)
            await first.synchronize()
            #expect(first.entry(for: "a")?.lifetime == record.lifetime)
            first.writer.run { first.writeAccesses() }
            await first.synchronize()
            await first.shutdown()
            let tier = diskTier(folder)
            var listed: [CachedEntry] = []
            tier.forEachEntry { listed.append($0) }
            #expect(listed.count == 2)
            #expect(tier.details(of: "a")?.expires == nil)
            tier.removeExpiredLater()
            await tier.synchronize()
            #expect(tier.entry(for: "a") != nil && tier.entry(for: "other") != nil)
            #expect(await tier.verify().isSound)
            await tier.shutdown()
        }
        #expect(!folder.files.contains("index-2.sqlite"))
    }

    @Test("an access may make a lifetime endless")
    func extended() async throws {
        let folder = TemporaryFolder()
        let date = ManualDate()
        let tier = DiskTier(.init(folder: folder.path), logger: LogLines().logger, now: date.time)
        var record = diskRecord("a", size: 100)
        record.lifetime = Lifetime(.days(1), extendedBy: .expiration(.never), now: date.now)
        tier.write(record)
        await tier.synchronize()
        #expect(tier.entry(for: "a") != nil)
        tier.writer.run { tier.writeAccesses() }
        await tier.synchronize()
        date.advance(by: 1e9)
        #expect(tier.entry(for: "a") != nil)
        await tier.shutdown()
    }

    @Test(
        "a time that cannot be is its row's fault alone",
        arguments: [
            "expires = 9e999", "expires = 'never'", "extension = 9e999", "extension = 1e16", "expires = -1e300",
            "stored = 9e999", "accessed = 1e200", "stored = 'then'",
        ])
    func impossibleTimes(change: String) async throws {
        let folder = TemporaryFolder()
        let first = diskTier(folder)
        await fill(first, ["a", "b", "c"], size: 100)
        await first.shutdown()
        try await DatabaseQueue(path: folder.path + "/index.sqlite").write { db in
            try db.execute(
                sql: "UPDATE entry SET \(change) WHERE name = ?", arguments: [KeyDigest.sha256(CacheKey("b"))])
        }
        let tier = diskTier(folder)
        var listed: Set<String> = []
        tier.forEachEntry { listed.insert($0.key.string) }
        #expect(listed.isSuperset(of: ["a", "c"]))
        _ = tier.details(of: "b")
        await tier.synchronize()
        #expect(tier.entry(for: "a") != nil && tier.entry(for: "c") != nil)
        #expect(!folder.files.contains("index-2.sqlite"))
        await tier.shutdown()
    }
}
