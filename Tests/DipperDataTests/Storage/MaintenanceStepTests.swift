import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("Long work on the disk leaves room for writes", .timeLimit(.minutes(5)))
struct MaintenanceStepTests {
    @Test(
        "a write that comes after it is done before it ends", arguments: ["trim", "limit", "expire", "flush", "verify"])
    func writesBetween(work: String) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.stagingLimit = 64 << 20 }
        for number in 0..<3_000 {
            var record = diskRecord("k\(number)", size: 100, stored: 1_000)
            if work == "expire" { record.lifetime = Lifetime(expires: 2_000, accessExtension: nil) }
            tier.write(record)
        }
        await tier.synchronize()
        let limit = tier.totals.bytes * 2 / 3
        let left = Box(0)
        let hold = DispatchSemaphore(value: 0)
        tier.writer.run { hold.wait() }
        let isDone = Box(false)
        switch work {
        case "trim": tier.trim(toSize: 0)
        case "limit": tier.sizeLimit = limit
        case "expire": tier.removeExpiredLater()
        case "flush": tier.start(Flush(limit: 2_000)) { _ in isDone.update { $0 = true } }
        default:
            tier.start(Verification(problems: [], isCounted: true)) { _ in isDone.update { $0 = true } }
        }
        await withCheckedContinuation { continuation in
            tier.write(diskRecord("urgent", size: 100, stored: 1e9)) { _ in
                let isOver = isDone.value
                left.update { $0 = isOver ? 0 : tier.totals.entries }
                continuation.resume()
            }
            hold.signal()
        }
        #expect(left.value > 1_000, "\(work) was over before the write")
        await tier.synchronize()
        switch work {
        case "trim": #expect(tier.totals.entries == 0)
        case "limit":
            // What is over the limit goes at once, the room below it in steps.
            #expect(tier.totals.bytes <= limit - limit / 10)
            #expect(left.value > tier.totals.entries + 64)
        case "expire", "flush": #expect(tier.totals.entries == 1)
        default: #expect(isDone.value && tier.totals.entries == 3_001)
        }
        await tier.shutdown()
    }

    /// Blocks a disk's thread in the middle of a clearing.
    private func stallWhileClearing(_ cache: DataCache) async throws -> DispatchSemaphore {
        let writer = try #require(cache.store.disk).writer
        let (start, hasBegun, stall) = (DispatchSemaphore(value: 0), Box(false), DispatchSemaphore(value: 0))
        writer.run { start.wait() }
        cache.clear()
        // Behind the first step, and before the next one.
        writer.run {
            hasBegun.update { $0 = true }
            stall.wait()
        }
        start.signal()
        try #require(await settle { hasBegun.value })
        return stall
    }

    @Test("what waits for a clearing is limited, and holds up prefetches, then everything that is fetched")
    func clearing() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.stagingLimit = 10_000 }
        let disk = try #require(test.cache.store.disk)
        // Not more at a time than may wait.
        for start in stride(from: 0, to: 300, by: 50) {
            await fill(disk, (start..<start + 50).map { "k\($0)" }, size: 100)
        }
        await fill(disk, (0..<10).map { "l\($0)" }, size: 3_000)
        let stall = try await stallWhileClearing(test.cache)
        func staged() -> Int { disk.staged.withLock { $0.area.bytes } }
        #expect(!test.cache.hasData(for: "k0") && test.cache.diskCount == 310, "the clearing is under way")
        // Up to the limit everything goes on.
        try test.cache.addData(Data(count: 8_000), for: CacheKey("a"))
        let early = test.cache.slowGetData(url("early"))
        try await test.transport.nextTransfer().finish(with: Data(count: 3_000))
        _ = try await early.value
        #expect((10_001...20_000).contains(staged()))
        // Beyond it no prefetch starts.
        let prefetch = test.cache.slowGetData(url("prefetch"))
        let urgent = test.cache.getData(url("urgent"))
        try await test.transport.nextTransfer().finish(with: Data(count: 12_000))
        _ = try await urgent.value
        #expect((20_001...40_000).contains(staged()))
        // Beyond twice as much nothing does.
        let late = test.cache.getData(url("late"))
        #expect(test.transport.transfers.map(\.request.url) == [url("early"), url("urgent")])
        // What is added by hand is kept in memory, and what does not fit is not kept on disk.
        var most = 0
        for number in 0..<100 {
            try test.cache.addData(Data(count: 5_000), for: CacheKey("h\(number)"))
            most = max(most, staged())
        }
        // A removal of an earlier version takes some hundred bytes.
        #expect(most <= 40_000 + 100 * 300, "\(most)")
        for number in 0..<100 {
            disk.keepPartial(try part(9_000), for: CacheKey("p\(number)"), claim: claim(test, number))
        }
        #expect(disk.partials.withLock { $0.bytes } <= 40_000)
        #expect(test.transport.transfers.count == 2)
        test.transport.script(url("late"), [.body(Data(count: 10))])
        test.transport.script(url("prefetch"), [.body(Data(count: 10))])
        stall.signal()
        #expect(try await late.value.count == 10)
        #expect(try await prefetch.value.count == 10)
        await test.cache.synchronize()
        #expect(staged() == 0)
        test.cache.clearMemory()
        #expect(!test.cache.hasData(for: "k0") && !test.cache.hasData(for: "l0") && !test.cache.hasData(for: "h99"))
        for key in [CacheKey("a"), CacheKey(url("early")), CacheKey(url("urgent"))] {
            #expect(test.cache.hasData(for: key), "\(key)")
        }
        await test.cache.shutdown()
    }

    private func part(_ size: Int) throws -> PartialBody {
        try #require(
            PartialBody(
                TransferResponse(headers: ["ETag": "\"v\"", "Content-Length": "99999"], body: Data(count: size)),
                of: "http://host.test/"))
    }

    private func claim(_ test: TestCache, _ number: Int) -> Claim {
        test.cache.store.history.claim(CacheKey("p\(number)"))
    }

    @Test("a limit that is lowered by much is reached, and kept while writing goes on")
    func lowered() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        await fill(tier, (0..<1_000).map { "k\($0)" }, size: 3_000)
        tier.sizeLimit = 500_000
        for number in 0..<50 { tier.write(diskRecord("n\(number)", size: 3_000)) }
        await tier.synchronize()
        #expect(tier.totals.bytes <= 500_000)
        #expect(tier.totals.bytes > 400_000)
        #expect(folder.files.count { $0.hasPrefix("blobs/") } == tier.totals.entries)
        await tier.shutdown()
    }

    @Test("partial files are bounded in number, the oldest go, and writing one does not list the folder")
    func partials() async throws {
        var account = PartialAccount(listedAt: 0)
        for number in 0..<2_000 {
            let removed = account.trim(to: 1 << 30, count: PartialAccount.mostFiles - 1, writtenAfter: -1)
            #expect(removed == (number < PartialAccount.mostFiles ? [] : ["n\(number - PartialAccount.mostFiles)"]))
            account.note("n\(number)", size: 10, written: TimeInterval(number))
        }
        #expect(account.count == PartialAccount.mostFiles && account.size == 10 * account.count)
        let folder = TemporaryFolder()
        let tier = diskTier(folder)
        let files = try #require(tier.opened.partials)
        try files.write(diskRecord("a", size: 100), named: "first", limit: 10_000, now: 1_000)
        // Listing would find that there is no room for anything else.
        let unseen = "partial/" + KeyDigest.sha256("unseen")
        try folder.put(unseen, String(repeating: "x", count: 9_950))
        try files.write(diskRecord("b", size: 100), named: "second", limit: 10_000, now: 1_001)
        #expect(files.read("first") != nil && files.read("second") != nil)
        for number in 0..<300 {
            try files.write(diskRecord("c", size: 10), named: "n\(number)", limit: 10_000, now: 1_002)
        }
        #expect(!folder.files.contains(unseen), "the folder is listed now and then")
        await tier.shutdown()
    }

    @Test("while another process holds the index nothing is lost, and the network is not held up")
    func heldIndex() async throws {
        let folder = TemporaryFolder()
        let (notices, sink) = AsyncStream.makeStream(of: StorageBacklog.self)
        let tier = DiskTier(
            .init(folder: folder.path, stagingLimit: 10_000), logger: LogLines().logger, now: { Date() },
            onBacklog: { sink.yield($0.backlog) })
        await fill(tier, ["before"], size: 100)
        let (isHeld, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        async let holding: Void = withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                let queue = try? indexQueue(folder)
                try? queue?.inDatabase { db in
                    try db.execute(sql: "BEGIN IMMEDIATE")
                    isHeld.signal()
                    release.wait()
                    try db.execute(sql: "COMMIT")
                }
                continuation.resume()
            }
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                isHeld.wait()
                continuation.resume()
            }
        }
        let keys = (0..<8).map { "k\($0)" }
        for key in keys { tier.write(diskRecord(key, size: 4_000)) }
        var iterator = notices.makeAsyncIterator()
        var seen: [StorageBacklog] = []
        while let notice = await iterator.next() {
            seen.append(notice)
            if notice == .none { break }
        }
        #expect(seen.contains(.full), "\(seen)")
        release.signal()
        await holding
        await tier.synchronize()
        for key in keys { #expect(tier.details(of: CacheKey(key)) != nil, "\(key)") }
        let isStalled = tier.isStalled.load(ordering: .relaxed)
        #expect(!isStalled)
        await tier.shutdown()
    }
}
