import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Looks at the disk", .timeLimit(.minutes(5)))
struct LookUpQueueTests {
    @Test("the most urgent is done first, what is taken back never, and what is promoted overtakes")
    func order() async throws {
        let queue = LookUpQueue(name: "test", threads: 1)
        let door = Door()
        let done = Box<[String]>([])
        queue.add(.init(.fast, .normal)) { door.pass() }
        try #require(await settle { door.arrivals >= 1 })
        func add(_ name: String, _ place: FetchQueue, _ priority: Priority = .normal) throws -> LookUp {
            try #require(queue.add(.init(place, priority)) { done.update { $0.append(name) } })
        }
        _ = try add("slow", .slow, .high)
        let promoted = try add("promoted", .slow)
        _ = try add("fast", .fast)
        let taken = try add("taken back", .fast)
        let demoted = try add("demoted", .fast)
        _ = try add("important", .fast, .high)
        promoted.move(to: .init(.fast, .high))
        demoted.move(to: .init(.slow, .low))
        taken.cancel()
        #expect(queue.count == 5)
        door.open(1)
        await queue.shutdown()
        #expect(done.value == ["important", "promoted", "fast", "slow", "demoted"])
        #expect(queue.add(.init(.fast, .normal), {}) == nil)
    }

    @Test("work that is not urgent leaves one thread to urgent work")
    func oneThreadIsLeft() async throws {
        let queue = LookUpQueue(name: "test", threads: 2)
        let door = Door()
        for _ in 0..<4 { queue.add(.init(.slow, .high)) { door.pass() } }
        try #require(await settle { door.arrivals >= 1 })
        await withCheckedContinuation { continuation in
            queue.add(.init(.fast, .low)) { continuation.resume() }
        }
        #expect(queue.count == 3)
        door.open(4)
        await queue.shutdown()
    }

    @Test("nothing is read in the place of what has not been delivered yet, not even at the end")
    func delivery() async {
        let queue = LookUpQueue(name: "test", threads: 2)
        let deliveries = Box<[@Sendable () -> Void]>([])
        for _ in 0..<5 { queue.add(.init(.fast, .normal)) { delivered in deliveries.update { $0.append(delivered) } } }
        #expect(await settle { deliveries.value.count == 2 })
        #expect(await stays { deliveries.value.count == 2 })
        deliveries.value[0]()
        #expect(await settle { deliveries.value.count == 3 })
        #expect(await stays { deliveries.value.count == 3 })
        let hasEnded = Box(false)
        let end = Task {
            await queue.shutdown()
            hasEnded.update { $0 = true }
        }
        for number in 1..<5 {
            #expect(await settle { deliveries.value.count > number })
            #expect(await stays { !hasEnded.value }, "\(number)")
            deliveries.value[number]()
        }
        await end.value
    }

    @Test("while another thread is held up on its way to the callers, no more is read than it has been given")
    func heldUpDelivery() async throws {
        let folder = TemporaryFolder()
        let (drainer, readers) = (Door(), Door())
        let test = TestCache(folder: folder) { configuration in
            configuration.memoryLimit = 0
            configuration.observe { event in
                // Changes of jobs are told by whoever carries out.
                if event.key == CacheKey(url("holds up")), case .queued = event.kind { drainer.pass() }
            }
        }
        let urls = (0..<20).map { url("\($0)") }
        for url in urls { try await test.cache.addDataAndWait(Data(count: 5_000), for: CacheKey(url)) }
        for _ in 0..<2 { _ = test.cache.store.read("held up", .init(.fast, .normal)) { _ in readers.pass() } }
        try #require(await settle { readers.arrivals == 2 })
        let tasks = urls.map { test.cache.getData($0) }
        let lookUps = try #require(test.cache.store.readers)
        #expect(lookUps.count == 20)
        let caller = Thread { test.cache.slowGetData(url("holds up")) }
        caller.start()
        try #require(await settle { drainer.arrivals == 1 })
        readers.open(2)
        #expect(await settle { lookUps.count == 18 })
        #expect(await stays { lookUps.count == 18 })
        drainer.open()
        for task in tasks { #expect(try await task.value.count == 5_000) }
        await test.cache.shutdown()
    }

    @Test("work that may not begin waits, and is done before the end")
    func heldBack() async {
        let queue = LookUpQueue(name: "test", threads: 2)
        let done = Box<[String]>([])
        queue.allow(downTo: nil)
        queue.add(.init(.slow, .high)) { done.update { $0.append("slow") } }
        queue.add(.init(.fast, .low)) { done.update { $0.append("urgent") } }
        queue.allow(downTo: .urgent)
        #expect(await settle { done.value == ["urgent"] })
        #expect(queue.count == 1)
        queue.allow(downTo: .background)
        #expect(await settle { done.value == ["urgent", "slow"] })
        queue.allow(downTo: nil)
        queue.add(.init(.fast, .high)) { done.update { $0.append("last") } }
        await queue.shutdown()
        #expect(done.value == ["urgent", "slow", "last"])
    }

    @Test(
        "after a fling through 10,000 cached entries those that can be seen come first, and the others are never read")
    func fling() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let visible = (0..<20).map { url("visible\($0)") }
        for url in visible { try await test.cache.addDataAndWait(Data("\(url)".utf8), for: CacheKey(url)) }
        test.cache.clearMemory()
        // A slow disk: both threads are at work.
        let door = Door()
        for _ in 0..<2 { _ = test.cache.store.read("held up", .init(.fast, .normal)) { _ in door.pass() } }
        try #require(await settle { door.arrivals >= 2 })

        let ended = Box<[String]>([])
        func get(_ url: URL, _ name: String) -> DataTask {
            test.cache.getData(DataRequest(url).with(\.cachePolicy, .cacheOnly)).onEnd { result in
                if case .failure(.cancelled) = result { return }
                ended.update { $0.append(name) }
            }
        }
        let flung = (0..<10_000).map { get(url("flung\($0)"), "flung") }
        let seen = visible.map { get($0, "visible") }
        // Scrolled past: most calls are given up, some become prefetches.
        for task in flung.dropLast(100) { task.cancel() }
        for task in flung.suffix(100) { task.moveToSlowQueue() }
        // Prefetches wait in their queue while urgent work is there, but for what had begun to be looked up.
        let readers = try #require(test.cache.store.readers)
        #expect(readers.count == 120)
        // Urgent look-ups alone: those of the prefetches have become less urgent.
        readers.allow(downTo: .urgent)
        door.open(2)
        for task in seen { _ = try await task.value }
        #expect(await settle { ended.value == Array(repeating: "visible", count: 20) })
        #expect(readers.count == 100)
        readers.allow(downTo: .background)
        for task in flung.suffix(100) { #expect(await task.error == .notCached) }
        #expect(await settle { ended.value.count == 120 })
        await test.cache.shutdown()
    }

    @Test("an urgent call promotes the look of a prefetch")
    func promotion() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder)
        let door = Door()
        for _ in 0..<2 { _ = test.cache.store.read("held up", .init(.fast, .normal)) { _ in door.pass() } }
        try #require(await settle { door.arrivals >= 2 })
        let ended = Box<[String]>([])
        let slow = DataRequest(url("slow")).with(\.cachePolicy, .cacheOnly).with(\.priority, .low)
        let tell: @Sendable (String) -> Void = { name in ended.update { $0.append(name) } }
        let prefetch = test.cache.slowGetData(slow)
        _ = test.cache.store.read("first", .init(.fast, .normal)) { _ in tell("urgent") }
        test.cache.getData(slow.with(\.priority, .high)).onEnd { _ in tell("promoted") }
        _ = test.cache.store.read("last", .init(.slow, .high)) { _ in tell("slow") }
        // One thread does all of it.
        door.open(1)
        #expect(await prefetch.error == .notCached)
        #expect(await settle { ended.value.count == 3 })
        #expect(ended.value == ["promoted", "urgent", "slow"])
        door.open(1)
        await test.cache.shutdown()
    }
}
