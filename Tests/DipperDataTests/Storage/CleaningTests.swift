import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Observers hear of what the tiers remove by themselves", .timeLimit(.minutes(5)))
struct CleaningTests {
    private typealias Cleaning = CacheEvent.Cleaning

    /// A cache that records its cleanings.
    private struct Observed {
        let cleanings = Box<[CacheEvent.Cleaning]>([])
        let keys = Box<[CacheKey]>([])
        let test: TestCache

        init(_ folder: TemporaryFolder? = nil, _ change: @escaping (inout DataCache.Configuration) -> Void = { _ in }) {
            let (cleanings, keys) = (cleanings, keys)
            test = TestCache(folder: folder) {
                $0.observe { event in
                    guard case .cleaned(let cleaning) = event.kind else { return }
                    cleanings.update { $0.append(cleaning) }
                    keys.update { $0.append(event.key) }
                }
                change(&$0)
            }
        }

        var cache: DataCache { test.cache }

        func told(_ tier: CacheEvent.Cleaning.TierName) -> [CacheEvent.Cleaning] {
            cleanings.value.filter { $0.tier == tier }
        }

        func add(_ names: [String], size: Int, expires: Expiration? = nil) async throws {
            for name in names {
                try await cache.addDataAndWait(
                    Data(count: size), for: DataRequest(url(name)).with(\.diskExpiration, expires))
            }
        }
    }

    @Test("what expired, with number and size, once; and of no key")
    func expired() async throws {
        let observed = Observed(TemporaryFolder())
        try await observed.add(["a", "b"], size: 5_000, expires: .seconds(10))
        try await observed.add(["c"], size: 100, expires: .seconds(10))
        try await observed.add(["d"], size: 100)
        let whole = (observed.cache.diskSize, observed.cache.memorySize)
        observed.test.date.advance(by: 11)
        observed.cache.removeExpired()
        await observed.cache.synchronize()
        #expect(observed.cache.diskCount == 1 && observed.cache.memoryCount == 1)
        let left = (observed.cache.diskSize, observed.cache.memorySize)
        #expect(
            observed.told(.disk) == [.init(tier: .disk, reason: .expired, entries: 3, bytes: whole.0 - left.0)])
        #expect(
            observed.told(.memory) == [.init(tier: .memory, reason: .expired, entries: 3, bytes: whole.1 - left.1)])
        observed.cache.removeExpired()
        await observed.cache.synchronize()
        #expect(observed.cleanings.value.count == 2, "nothing went")
        #expect(observed.keys.value.allSatisfy { $0.isEmpty })
        await observed.cache.shutdown()
    }

    @Test("an entry that is found to have expired as it is asked for")
    func expiredOnAccess() async throws {
        let observed = Observed()
        try await observed.add(["a"], size: 100, expires: .seconds(10))
        let size = observed.cache.memorySize
        observed.test.date.advance(by: 10)
        #expect(observed.cache.data(for: url("a")) == nil)
        #expect(observed.cleanings.value == [.init(tier: .memory, reason: .expired, entries: 1, bytes: size)])
        await observed.cache.shutdown()
    }

    @Test("what a limit cost, in memory and on disk")
    func overLimit() async throws {
        let observed = Observed(TemporaryFolder()) {
            $0.diskLimit = 50_000
            $0.memoryCountLimit = 4
        }
        try await observed.add((0..<20).map { "\($0)" }, size: 5_000)
        await observed.cache.synchronize()
        let (disk, memory) = (observed.told(.disk), observed.told(.memory))
        #expect(disk.allSatisfy { $0.reason == .overLimit } && memory.allSatisfy { $0.reason == .overLimit })
        #expect(disk.reduce(0) { $0 + $1.entries } == 20 - observed.cache.diskCount)
        #expect(memory.reduce(0) { $0 + $1.entries } == 16 && observed.cache.memoryCount == 4)
        let each = observed.cache.diskSize / observed.cache.diskCount
        #expect(disk.allSatisfy { abs($0.bytes - $0.entries * each) <= 2 * $0.entries })
        observed.cache.trimMemory(to: 0)
        observed.cache.trim(toDiskSize: 0)
        await observed.cache.synchronize()
        #expect(observed.told(.memory).last?.entries == 4)
        #expect(observed.told(.disk).reduce(0) { $0 + $1.entries } == 20)
        await observed.cache.shutdown()
    }

    @Test("what was flushed for its age, apart from what had expired, and what was cleared")
    func flushedAndCleared() async throws {
        let observed = Observed(TemporaryFolder())
        try await observed.add(["brief"], size: 5_000, expires: .seconds(10))
        try await observed.add(["old", "small"], size: 300)
        observed.test.date.advance(by: 100)
        try await observed.add(["new", "other"], size: 5_000)
        observed.cache.flush(olderThan: .seconds(50))
        await observed.cache.synchronize()
        for tier in Cleaning.TierName.allCases {
            #expect(
                Set(observed.told(tier).map { [$0.reason.rawValue: $0.entries] }) == [["expired": 1], ["flushed": 2]])
        }
        let sizes = (observed.cache.memorySize, observed.cache.diskSize)
        observed.cache.clear()
        await observed.cache.synchronize()
        #expect(observed.told(.memory).last == .init(tier: .memory, reason: .cleared, entries: 2, bytes: sizes.0))
        #expect(observed.told(.disk).last == .init(tier: .disk, reason: .cleared, entries: 2, bytes: sizes.1))
        let count = observed.cleanings.value.count
        observed.cache.clear()
        observed.cache.clearMemory()
        await observed.cache.synchronize()
        #expect(observed.cleanings.value.count == count, "there was nothing left")
        await observed.cache.shutdown()
    }

    @Test("what is removed by name or replaced is no news")
    func named() async throws {
        let observed = Observed(TemporaryFolder())
        try await observed.add(["a", "a", "b"], size: 5_000)
        observed.cache.removeData(for: url("a"))
        observed.cache.removeDerived(of: CacheKey(url("b")))
        await observed.cache.synchronize()
        #expect(observed.cleanings.value.isEmpty)
        await observed.cache.shutdown()
    }

    @Test("a timeline draws nothing of it")
    func timeline() {
        let timeline = Timeline()
        let before = timeline.svg()
        timeline.receive(
            CacheEvent(
                time: .seconds(5), key: "",
                kind: .cleaned(.init(tier: .disk, reason: .expired, entries: 1, bytes: 1))))
        #expect(timeline.svg() == before)
    }

    @Test("what has expired on disk, and the beginnings of bodies that are too old, go without a limit being reached")
    func removesExpired() async throws {
        let folder = TemporaryFolder()
        let observed = Observed(folder)
        try await observed.add(["a"], size: 5_000, expires: .seconds(10))
        let partial = folder.url.appendingPathComponent("partial")
        try FileManager.default.createDirectory(at: partial, withIntermediateDirectories: true)
        let (old, new) = (KeyDigest.sha256("old"), KeyDigest.sha256("new"))
        for (name, days) in [(old, 8.0), (new, 6)] {
            let file = partial.appendingPathComponent(name)
            try Data("x".utf8).write(to: file)
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -days * 86_400)], ofItemAtPath: file.path)
        }
        observed.test.date.advance(by: 10)
        observed.cache.removeExpired()
        await observed.cache.synchronize()
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs/") })
        #expect(folder.files.contains("partial/" + new) && !folder.files.contains("partial/" + old))
        await observed.cache.shutdown()
    }
}
