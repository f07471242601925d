import TestSupport
import Testing

@Suite("What a tier of the program's own that fails or hangs holds up", .timeLimit(.minutes(2)))
struct FailingTierTests {
    private let a = url("a")

    /// Makes a tier that fails begin its rest.
    private func exhaust(_ test: TestCache) async throws {
        for number in 0..<3 { try await test.keep("x", for: url("failing/\(number)")) }
    }

    @Test("code that hears that a tier begins to rest holds up no call")
    func slowLog() async throws {
        let door = Door()
        let test = TestCache {
            $0.tiers = [Shelf { .fails }]
            $0.logger = .recording { line in if line.contains("a tier fails and rests") { door.pass() } }
        }
        try await exhaust(test)
        try await door.waitForArrivals(1)
        try await test.keep("b", for: url("b"))
        door.stayOpen()
        await test.cache.shutdown()
    }

    @Test("a shutdown asks nothing more of a tier that rests, though a look-up was still under way")
    func shutdown() async throws {
        let mood = Box(Shelf.Mood.hangs)
        let (isResting, late) = (Box(false), Box(0))
        let shelf = Shelf {
            if isResting.value { late.update { $0 += 1 } }
            return mood.value
        }
        let test = TestCache { $0.tiers = [shelf] }
        let hanging = test.cache.getData(a)
        try await shelf.lookUps.wait { $0 == 1 }
        mood.update { $0 = .fails }
        try await exhaust(test)
        mood.update { $0 = .works }
        test.cache.removeData(for: url("b"))
        await test.cache.synchronize()
        isResting.update { $0 = true }
        await test.cache.shutdown()
        #expect(await hanging.error == .cancelled)
        // By now, code that was still to run has run.
        let next = TestCache { $0.tiers = [Shelf()] }
        for number in 0..<20 { try await next.keep("x", for: url("\(number)")) }
        #expect(late.value == 0)
    }

    @Test("a partial body on disk is not read for a call that a tier answers, and is continued for another")
    func partialBody() async throws {
        let folder = TemporaryFolder()
        let left = TestCache(folder: folder)
        let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "100000"]
        for name in ["a", "b"] {
            try await left.leave(TransferResponse(headers: fields, body: Data(count: 40_000)), of: url(name))
        }
        await left.cache.shutdown()
        let shelf = Shelf()
        let filling = TestCache { $0.tiers = [shelf] }
        for name in ["a", "c"] { try await filling.keep("here", ["Cache-Control": "max-age=500"], for: url(name)) }
        await filling.cache.synchronize()
        let disk = WatchedDisk()
        let test = TestCache(folder: folder) {
            $0.diskFaults = disk
            $0.tiers = [
                Shelf {
                    disk.isWatched.update { $0 = false }
                    return .works
                }, shelf,
            ]
        }
        func reads(_ name: String) async throws -> Int {
            await test.cache.synchronize()
            disk.reads.update { $0 = 0 }
            disk.isWatched.update { $0 = true }
            #expect(try await test.ask(url(name)) == "here from shared")
            return disk.reads.value
        }
        let withoutPartial = try await reads("c")
        #expect(try await reads("a") == withoutPartial)
        #expect(try await test.nextFields(of: url("b"))["Range"] == "bytes=40000-")
    }
}

/// A disk that works, and counts reads while it is watched.
private final class WatchedDisk: DiskFaults {
    let isWatched = Box(false)
    let reads = Box(0)

    func error(for operation: DiskOperation) -> Int32? {
        if case .read = operation, isWatched.value { reads.update { $0 += 1 } }
        return nil
    }
}
