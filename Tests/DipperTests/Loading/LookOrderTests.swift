import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper
@testable import DipperData

extension Door {
    /// Blocks a reading thread.
    fileprivate func put(_ cache: ImageCache, _ place: LookUpQueue.Place = .init(.fast, Priority(1))) {
        _ = cache.data.store.read("held up", place) { _ in self.pass() }
    }
}

@Suite("Looks at the disk for processed pictures", .timeLimit(.minutes(5)))
struct LookOrderTests {
    private let picture = Image.sample()
    private let processed = Inverting()

    private func request(_ name: String, _ priority: Priority = .normal) -> ImageRequest {
        ImageRequest(url(name)).processed(by: processed).with(\.priority, priority).with(\.cachePolicy, .cacheOnly)
    }

    private func fill(_ test: TestImageCache, _ names: [String]) async throws {
        for name in names { try test.cache.addImage(picture, for: request(name)) }
        await test.cache.synchronize()
        test.cache.clearMemory()
    }

    /// Returns a cache whose two reading threads wait at doors.
    private func held(_ names: [String]) async throws -> (TestImageCache, Door, Door) {
        let test = TestImageCache(folder: TemporaryFolder())
        try await fill(test, names)
        let (one, other) = (Door(), Door())
        for door in [one, other] {
            door.put(test.cache)
            try #require(await settle { door.arrivals == 1 })
        }
        return (test, one, other)
    }

    private func waiting(_ test: TestImageCache) -> Int { test.cache.data.store.readers?.count ?? 0 }

    @Test("those of calls that were cancelled are never made, also where several calls wait for one")
    func cancelled() async throws {
        let (test, one, other) = try await held(["seen"])
        let flung = (0..<1_000).map { test.cache.getImage(request("flung\($0 / 2)")) }
        let seen = test.cache.getImage(request("seen"))
        #expect(waiting(test) == 501)
        for task in flung.dropLast() { task.cancel() }
        #expect(waiting(test) == 2, "of the last two one still waits")
        flung.last?.cancel()
        #expect(waiting(test) == 1)
        // Asked for again it is looked for again.
        let again = test.cache.getImage(request("seen"))
        seen.cancel()
        #expect(waiting(test) == 1)
        again.cancel()
        #expect(waiting(test) == 0)
        let last = test.cache.getImage(request("seen"))
        #expect(waiting(test) == 1)
        for door in [one, other] { door.open() }
        #expect(try await last.value.pixels == picture.pixels)
        for task in flung + [seen, again] { #expect(await task.error == .cancelled) }
        await test.cache.shutdown()
    }

    @Test("the most urgent is made first, and each moves when its calls change their minds")
    func order() async throws {
        let names = ["first", "raised", "joined", "demoted", "last"]
        let (test, one, other) = try await held(names)
        let door = Door()
        // Behind those that are to be made first.
        door.put(test.cache, .init(.fast, .high))
        let first = test.cache.getImage(request("first", Priority(1)))
        let raised = test.cache.getImage(request("raised", .low))
        let joined = test.cache.getImage(request("joined", .low))
        let demoted = test.cache.getImage(request("demoted", Priority(1)))
        let last = test.cache.getImage(request("last", .normal))
        #expect(waiting(test) == 6)
        raised.priority = Priority(1)
        let urgent = test.cache.getImage(request("joined", Priority(1)))
        demoted.moveToSlowQueue()
        one.open()
        for task in [first, raised, joined, urgent] { #expect(try await task.value.pixels == picture.pixels) }
        // The thread stands behind the next door.
        #expect(await settle { waiting(test) == 2 })
        #expect(demoted.state == .waiting && last.state == .waiting)
        door.open()
        other.open()
        for task in [last, demoted] { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.shutdown()
    }

    @Test("who leaves takes their urgency along")
    func left() async throws {
        let (test, one, other) = try await held(["shared", "seen"])
        let door = Door()
        door.put(test.cache, .init(.fast, .normal))
        let urgent = test.cache.getImage(request("shared", Priority(1)))
        let leisurely = test.cache.getImage(request("shared", .low))
        let seen = test.cache.getImage(request("seen", .high))
        urgent.cancel()
        one.open()
        #expect(try await seen.value.pixels == picture.pixels)
        #expect(await settle { waiting(test) == 1 })
        #expect(leisurely.state == .waiting)
        door.open()
        other.open()
        #expect(try await leisurely.value.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("whatever changes its mind at the same time, each call ends once and nothing is left behind")
    func changes() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try await fill(test, (0..<4).map { "p\($0)" })
        for round in 0..<30 {
            let tasks = (0..<40).map { test.cache.getImage(request("p\($0 % 4)", $0 % 3 == 0 ? .high : .low)) }
            await withTaskGroup { group in
                for (number, task) in tasks.enumerated() {
                    group.addTask {
                        switch (number + round) % 4 {
                        case 0: task.cancel()
                        case 1: task.priority = Priority(1)
                        case 2: task.moveToSlowQueue()
                        default: break
                        }
                    }
                }
            }
            for (number, task) in tasks.enumerated() {
                let error = await task.error
                #expect(error == nil || (error == .cancelled && (number + round) % 4 == 0))
            }
            test.cache.clearMemory()
        }
        #expect(await settle { waiting(test) == 0 })
        await test.cache.shutdown()
    }
}
