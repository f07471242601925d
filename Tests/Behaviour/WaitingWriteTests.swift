import TestSupport
import Testing

@Suite("While the disk is behind", .timeLimit(.minutes(2)))
struct WaitingWriteTests {
    private let a = url("a")

    private func cache(
        _ folder: TemporaryFolder, _ door: DoorCodec, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache.onDisk(folder) {
            $0.recordCodec = door
            change(&$0)
        }
    }

    @Test("reads see what waits to be written, the latest of it, and removals; the shutdown writes it")
    func reads() async throws {
        let (folder, door) = (TemporaryFolder(), DoorCodec())
        let test = cache(folder, door)
        try await test.cache.keep(["b"], size: 5_000)
        door.shut()
        for version in 1...3 { try test.cache.addData(DiskBytes.of(5_000, "\(version)"), for: a) }
        try await door.waitForWrite()
        for version in 4...5 { try test.cache.addData(DiskBytes.of(5_000, "\(version)"), for: a) }
        try test.cache.addData(Data(count: 10), for: "c")
        test.cache.removeData(for: "b")
        test.cache.removeData(for: "c")
        #expect(test.cache.readData(for: a) == DiskBytes.of(5_000, "5") && test.cache.cachedSource(for: a) == .disk)
        for key: CacheKey in ["b", "c"] {
            #expect(test.cache.readData(for: key) == nil && !test.cache.hasData(for: key))
            #expect(test.cache.entry(for: key) == nil && !test.cache.listedKeys.contains(key.string))
        }
        async let ending: Void = test.cache.shutdown()
        door.open()
        await ending
        let again = cache(folder, DoorCodec()).cache
        #expect(again.readData(for: a) == DiskBytes.of(5_000, "5") && again.diskCount == 1)
    }

    @Test("a program that never stops adding holds up nothing: no waiting, cleaning or verifying")
    func adding() async throws {
        let (folder, add) = (TemporaryFolder(), Box<(@Sendable () -> Void)?>(nil))
        let cache = TestCache.onDisk(folder) { $0.recordCodec = WatchedCodec(onWrite: { _ in add.value?() }) }.cache
        try await cache.keep(["a", "b"], size: 10)
        // Whenever an entry is written, the next one waits already.
        let added = Box(0)
        add.update { add in
            add = { try? cache.addData(Data(count: 10), for: CacheKey(verbatim: "\(added.increment())")) }
        }
        try cache.addData(Data(count: 10), for: "0")
        await cache.synchronize()
        let report = await cache.verify()
        #expect(report.isSound && report.sound >= 3)
        cache.flush(olderThan: .zero)
        cache.clear()
        await cache.synchronize()
        #expect(!cache.hasData(for: "a"))
        add.update { $0 = nil }
        #expect(added.value > 2)
    }

    @Test("what is removed while it waits does not come to disk, nor do the entries before it", arguments: 0..<3)
    func removed(way: Int) async throws {
        let (folder, door) = (TemporaryFolder(), DoorCodec())
        let test = cache(folder, door)
        for key in ["a", "b"] { try await test.cache.addDataAndWait(Data(count: 5_000), for: CacheKey(url(key))) }
        test.date.advance(by: 1)
        door.shut()
        try test.cache.addData(Data(count: 6_000), for: a)
        try await door.waitForWrite()
        test.date.advance(by: 1)
        switch way {
        case 0: for key in ["a", "b"] { test.cache.removeData(for: url(key)) }
        case 1: test.cache.clear()
        default: test.cache.flush(olderThan: .seconds(0.5))
        }
        func expectGone(_ test: TestCache) {
            #expect(test.cache.readData(for: a) == nil && !test.cache.hasData(for: url("b")))
            #expect(test.cache.listedKeys.isEmpty && test.cache.file(for: CacheKey(url("b"))) == nil)
        }
        expectGone(test)
        try test.cache.addData(Data(count: 7_000), for: "after")
        door.open()
        await test.cache.synchronize()
        #expect(test.cache.readData(for: "after")?.count == 7_000 && test.cache.diskCount == 1)
        test.cache.removeData(for: "after")
        await test.cache.shutdown()
        expectGone(cache(folder, DoorCodec()))
    }

    @Test("no prefetch starts while more waits than may, and nothing at all while twice as much waits")
    func backlog() async throws {
        let (folder, door) = (TemporaryFolder(), DoorCodec())
        let test = cache(folder, door) { $0.stagingLimit = 10_000 }
        door.shut()
        try test.cache.addData(Data(count: 15_000), for: "first")
        try await door.waitForWrite()
        // These calls are not looked up on disk first.
        let past = DataRequest.CachePolicy.ignoreCache
        let prefetch = test.cache.slowGetData(DataRequest(url("prefetch")).with(\.cachePolicy, past))
        let urgent = test.cache.getRemoteData(url("urgent"))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == url("urgent"))
        transfer.finish(with: Data(count: 10))
        _ = try await urgent.value
        #expect(test.cache.queueCounts == QueueCounts(slowWaiting: 1))
        try test.cache.addData(Data(count: 10_000), for: "second")
        let late = test.cache.getRemoteData(url("late"))
        #expect(test.cache.queueCounts == QueueCounts(fastWaiting: 1, slowWaiting: 1))
        #expect(test.transport.transfers.count == 1)
        door.open()
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url == url("late"))
        next.finish(with: Data(count: 20))
        try await test.transport.nextTransfer().finish(with: Data(count: 30))
        #expect(try await late.value.count == 20)
        #expect(try await prefetch.value.count == 30)
        await test.cache.idle()
        #expect(test.cache.diskCount == 5)
    }

    @Test("long bodies that wait to be written keep neither each other nor short ones from the disk")
    func longBodies() async throws {
        let (folder, door) = (TemporaryFolder(), DoorCodec())
        let test = cache(folder, door) { $0.stagingLimit = 10_000 }
        door.shut()
        let sizes = ["first": 100, "long": 90_000, "longer": 150_000, "short": 200]
        for (key, size) in sizes { try test.cache.addData(Data(count: size), for: CacheKey(key)) }
        door.open()
        await test.cache.shutdown()
        let again = cache(folder, DoorCodec()).cache
        for (key, size) in sizes { #expect(again.readData(for: CacheKey(key))?.count == size, "\(key)") }
    }

    @Test("a version for which there is no room on its way to disk never leaves the earlier one to be found")
    func noRoom() async throws {
        let (folder, door) = (TemporaryFolder(), DoorCodec())
        let test = cache(folder, door) { $0.stagingLimit = 10_000 }
        try await test.cache.keep(["a", "b"], size: 3_000)
        door.shut()
        for number in 0..<16 { try test.cache.addData(Data(count: 3_000), for: "waiting \(number)") }
        try await door.waitForWrite()
        try test.cache.addData(DiskBytes.of(3_000, "new"), for: "a")
        test.cache.removeData(for: "b")
        func expectNothingOld(_ cache: DataCache) {
            #expect(cache.readData(for: "a") != DiskBytes.of(3_000, "a") && cache.readData(for: "b") == nil)
        }
        expectNothingOld(test.cache)
        door.open()
        await test.cache.synchronize()
        await test.cache.shutdown()
        expectNothingOld(cache(folder, DoorCodec()).cache)
    }

    @Test("any limit of what may wait keeps things going", arguments: [Int.min, -1, 0, 1, Int.max])
    func limits(limit: Int) async throws {
        let test = TestCache.onDisk(TemporaryFolder()) { $0.stagingLimit = limit }
        for number in 0..<20 {
            test.transport.script(url("\(number)"), [.body(Data(count: 5_000))])
            test.cache.slowGetData(url("\(number)"))
        }
        await test.cache.idle()
        #expect(test.cache.statistics.networkAnswers == 20)
    }
}
