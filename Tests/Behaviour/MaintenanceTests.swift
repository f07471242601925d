import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Cleaning up, and what observers hear of it", .timeLimit(.minutes(2)))
struct MaintenanceTests {
    private typealias Cleaning = CacheEvent.Cleaning

    private struct Observed {
        private let record = EventRecord()
        let test: TestCache
        var cache: DataCache { test.cache }

        init(_ folder: TemporaryFolder? = nil, _ change: @escaping (inout DataCache.Configuration) -> Void = { _ in }) {
            test = TestCache(folder: folder) { [record] in
                $0.eventSinks.append(record)
                change(&$0)
            }
        }

        var cleanings: [Cleaning] {
            record.events.compactMap { event in
                guard case .cleaned(let cleaning) = event.kind else { return nil }
                #expect(event.key.isEmpty, "no single entry is named")
                return cleaning
            }
        }
        func told(_ tier: Cleaning.TierName) -> [Cleaning] { cleanings.filter { $0.tier == tier } }
        func entries(_ tier: Cleaning.TierName) -> Int { told(tier).reduce(0) { $0 + $1.entries } }

        func add(_ names: [String], size: Int, expires: Expiration? = nil) async throws {
            for name in names {
                try await cache.addDataAndWait(
                    Data(count: size), for: DataRequest(url(name)).with(\.diskExpiration, expires))
            }
        }
    }

    @Test("what expired goes when asked for, without a limit being reached, and is told once")
    func expired() async throws {
        let observed = Observed(TemporaryFolder())
        try await observed.add(["a", "b"], size: 5_000, expires: .after(.seconds(10)))
        try await observed.add(["c"], size: 100, expires: .after(.seconds(10)))
        try await observed.add(["d"], size: 100)
        let whole = (observed.cache.diskSize, observed.cache.memorySize)
        observed.test.date.advance(by: 11)
        observed.cache.removeExpired()
        await observed.cache.synchronize()
        #expect(observed.cache.diskCount == 1 && observed.cache.memoryCount == 1)
        let left = (observed.cache.diskSize, observed.cache.memorySize)
        #expect(observed.told(.disk) == [.init(tier: .disk, reason: .expired, entries: 3, bytes: whole.0 - left.0)])
        #expect(
            observed.told(.memory) == [.init(tier: .memory, reason: .expired, entries: 3, bytes: whole.1 - left.1)])
        observed.cache.removeExpired()
        await observed.cache.synchronize()
        #expect(observed.cleanings.count == 2, "nothing went")
    }

    @Test("an entry that is found to have expired as it is asked for is told")
    func expiredOnAccess() async throws {
        let observed = Observed()
        try await observed.add(["a"], size: 100, expires: .after(.seconds(10)))
        let size = observed.cache.memorySize
        observed.test.date.advance(by: 10)
        #expect(observed.cache.data(for: url("a")) == nil)
        #expect(observed.cleanings == [.init(tier: .memory, reason: .expired, entries: 1, bytes: size)])
    }

    @Test("what a limit cost is told, in memory and on disk")
    func overLimit() async throws {
        let observed = Observed(TemporaryFolder()) {
            $0.diskLimit = 50_000
            $0.memoryCountLimit = 4
        }
        try await observed.add((0..<20).map { "\($0)" }, size: 5_000)
        await observed.cache.synchronize()
        let (disk, memory) = (observed.told(.disk), observed.told(.memory))
        #expect((disk + memory).allSatisfy { $0.reason == .overLimit })
        #expect(observed.entries(.disk) == 20 - observed.cache.diskCount)
        #expect(observed.entries(.memory) == 16 && observed.cache.memoryCount == 4)
        let each = observed.cache.diskSize / observed.cache.diskCount
        #expect(disk.allSatisfy { abs($0.bytes - $0.entries * each) <= 2 * $0.entries })
        observed.cache.trimMemory(to: 0)
        observed.cache.trim(toDiskSize: 0)
        await observed.cache.synchronize()
        #expect(observed.told(.memory).last?.entries == 4)
        #expect(observed.entries(.disk) == 20)
    }

    @Test("flushing removes what is older, apart from what had expired; clearing removes all, also on disk")
    func flushedAndCleared() async throws {
        let folder = TemporaryFolder()
        let observed = Observed(folder)
        try await observed.add(["brief"], size: 5_000, expires: .after(.seconds(10)))
        try await observed.add(["old", "small"], size: 300)
        observed.test.date.advance(by: 100)
        try await observed.add(["new", "other"], size: 5_000)
        observed.cache.flush(olderThan: .seconds(50))
        for name in ["brief", "old", "small"] { #expect(!observed.cache.hasData(for: url(name)), "at once") }
        await observed.cache.synchronize()
        for tier in Cleaning.TierName.allCases {
            #expect(
                Set(observed.told(tier).map { [$0.reason.rawValue: $0.entries] }) == [["expired": 1], ["flushed": 2]])
        }
        #expect(observed.cache.listedKeys == [url("new").absoluteString, url("other").absoluteString])
        let sizes = (observed.cache.memorySize, observed.cache.diskSize)
        observed.cache.clear()
        #expect(!observed.cache.hasData(for: url("new")) && observed.cache.listedKeys.isEmpty, "at once")
        await observed.cache.synchronize()
        #expect(observed.told(.memory).last == .init(tier: .memory, reason: .cleared, entries: 2, bytes: sizes.0))
        #expect(observed.told(.disk).last == .init(tier: .disk, reason: .cleared, entries: 2, bytes: sizes.1))
        let count = observed.cleanings.count
        observed.cache.clear()
        observed.cache.clearMemory()
        await observed.cache.synchronize()
        #expect(observed.cleanings.count == count, "there was nothing left")
        await observed.cache.shutdown()
        #expect(try folder.finding([String(repeating: "\0", count: 300)]).allSatisfy { !$0.hasPrefix("blobs/") })
    }

    @Test("what is stored after a flush stays, also when the clock has been set back in between")
    func afterFlush() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.cache.flush(olderThan: .zero)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "now")
        test.date.advance(by: -1_000)
        try await test.cache.addDataAndWait(Data(count: 9_000), for: "before")
        for seconds in [0.0, 2_000] {
            test.date.advance(by: seconds)
            test.cache.clearMemory()
            #expect(test.cache.hasData(for: "before") && test.cache.data(for: "now") != nil)
        }
    }
}
