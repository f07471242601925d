import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("Long work on the disk leaves room for writes", .timeLimit(.minutes(5)))
struct MaintenanceStepTests {
    private enum Work: CaseIterable { case trim, flush, expire, verify }

    @Test("a write that comes after it is done before it ends", arguments: ["trim", "flush", "verify"])
    func writesBetween(work: String) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.stagingLimit = 64 << 20 }
        for number in 0..<3_000 { tier.write(diskRecord("k\(number)", size: 100, stored: 1_000)) }
        await tier.synchronize()
        let left = Box(0)
        let hold = DispatchSemaphore(value: 0)
        tier.writer.run { hold.wait() }
        let isDone = Box(false)
        switch work {
        case "trim": tier.trim(toSize: 0)
        case "flush": tier.start(Flush(limit: 2_000)) { _ in isDone.update { $0 = true } }
        default:
            tier.start(Verification(problems: [], isCounted: true)) { _ in isDone.update { $0 = true } }
        }
        await withCheckedContinuation { continuation in
            tier.write(diskRecord("urgent", size: 100, stored: 1e9)) { _ in
                left.update { $0 = work == "trim" ? tier.totals.entries : isDone.value ? 0 : 1 }
                continuation.resume()
            }
            hold.signal()
        }
        #expect(left.value > 0, "\(work) was over before the write")
        await tier.synchronize()
        switch work {
        case "trim": #expect(tier.totals.entries == 0)
        case "flush": #expect(tier.totals.entries == 1)
        default: #expect(isDone.value && tier.totals.entries == 3_001)
        }
        await tier.shutdown()
    }

    @Test("a limit that is lowered by much is reached in steps, and kept while writing goes on")
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
        let path = folder.path + "/index.sqlite"
        async let holding: Void = withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                let queue = try? DatabaseQueue(path: path)
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
