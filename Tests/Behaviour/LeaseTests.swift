import TestSupport
import Testing

@Suite("Caches that share a folder fetch a key once for all", .timeLimit(.minutes(2)))
struct LeaseTests {
    private let folder = TemporaryFolder()
    private let date = ManualDate()
    private let a = url("a")
    private let b = url("b")

    private func cache(_ change: (inout DataCache.Configuration) -> Void = { _ in }) -> TestCache {
        TestCache(folder: folder, date: date, change)
    }

    /// Begins a fetch in one cache, and a call for it in another, which waits.
    private func begin(
        _ one: TestCache, _ two: TestCache, _ target: URL = url("a")
    ) async throws -> (transfer: ScriptedTransfer, waiting: DataTask) {
        let (_, transfer) = try await one.begin(target)
        let waiting = two.call(target, in: .fast)
        try await two.cache.waitForParked()
        return (transfer, waiting)
    }

    private func finish(_ transfer: ScriptedTransfer, _ text: String, _ headers: HTTPHeaders = [:]) {
        transfer.finish(with: Data(text.utf8), headers: headers)
    }

    @Test("one asks the server, the others take the entry from disk, and say meanwhile why they wait")
    func once() async throws {
        let (one, two, three) = (cache(), cache(), cache())
        let (transfer, second) = try await begin(one, two)
        let third = three.call(a, in: .slow)
        try await three.cache.waitForParked()
        let waiting = two.cache.queueSnapshot().fetches.first
        #expect(waiting?.wait == .elsewhere && waiting?.state == .parked && waiting?.attempts == 0)
        #expect("\(waiting?.wait ?? .turn)" == "another process fetches it")
        let (_, other) = try await three.begin(b, in: .slow)
        finish(other, "a prefetch does not wait for one that is parked")
        finish(transfer, "bytes")
        #expect(try await second.response.told == "bytes from disk")
        #expect(try await third.response.told == "bytes from disk")
        #expect(two.transport.transfers.isEmpty && three.transport.transfers.count == 1)
    }

    @Test("who looked the key up before the other had it looks again before asking")
    func lookedUpBefore() async throws {
        let record = EventRecord()
        let one = cache()
        let two = cache {
            $0.fastQueue = QueueConfiguration(maxConcurrent: 1)
            $0.eventSinks.append(record)
        }
        let (_, busy) = try await two.begin(b)
        let late = two.call(a, in: .fast)
        try await record.wait { [a] events in events.contains { $0.key == CacheKey(a) && $0.kind == .queued(.fast) } }
        let (first, transfer) = try await one.begin(a)
        finish(transfer, "bytes")
        _ = try await first.value
        await one.cache.synchronize()
        finish(busy, "b")
        #expect(try await late.response.told == "bytes from disk")
        #expect(two.transport.transfers.count == 1)
    }

    @Test("a failure is shared: a 404 is asked once, and a 503 as well")
    func failures() async throws {
        for status in [404, 403, 503] {
            let (one, two) = (cache { $0.retryPolicy = .never }, cache { $0.retryPolicy = .never })
            let (transfer, second) = try await begin(one, two, url("\(status)"))
            transfer.finish(with: Data(), status: status)
            #expect(await second.error?.status == status)
            #expect(two.transport.transfers.isEmpty, "\(status)")
            await one.cache.shutdown()
            await two.cache.shutdown()
        }
        let three = cache()
        let error = await three.cache.getData(url("404")).error
        #expect(error?.status == 404 && error?.isRemembered == true)
    }

    @Test("the back-off of a failure that may pass is common")
    func backOff() async throws {
        let (one, two) = (cache { $0.retryPolicy = .fixed(.seconds(20), retries: 1) }, cache())
        let (_, transfer) = try await one.begin(a, in: .slow)
        let second = two.call(a, in: .fast)
        // An urgent call of which the holder hears later ends the back-off.
        try await transfer.wait { $0.queue == .fast }
        transfer.finish(with: Data(), status: 503)
        try await one.cache.waitForParked()
        // Once the clock of the holder has moved, it tells the other one of the pause.
        let again = try await one.nextTransfer(after: .seconds(20))
        finish(again, "bytes")
        #expect(try await second.response.told == "bytes from disk")
        #expect(two.transport.transfers.isEmpty && one.transport.transfers.count == 2)
    }

    @Test("when the holder gives up or ends, another one asks", arguments: ["cancel", "shutdown", "offline"])
    func givenUp(how: String) async throws {
        let (one, two) = (cache(), cache())
        let (transfer, second) = try await begin(one, two)
        switch how {
        case "cancel": one.cache.cancel(a)
        case "shutdown": await one.cache.shutdown()
        default:
            one.network.isUp = false
            transfer.fail(with: .connectionLost)
        }
        finish(try await two.transport.nextTransfer(), "from two")
        #expect(try await second.response.told == "from two from network")
    }

    @Test("an answer that is for one alone is asked for by each, at the same time")
    func unshared() async throws {
        let (one, two, three) = (cache(), cache(), cache())
        let (transfer, second) = try await begin(one, two)
        let third = three.call(a, in: .fast)
        try await three.cache.waitForParked()
        finish(transfer, "mine", ["Cache-Control": "no-store"])
        let (mine, theirs) = (try await two.transport.nextTransfer(), try await three.transport.nextTransfer())
        finish(mine, "two", ["Cache-Control": "no-store"])
        finish(theirs, "three", ["Cache-Control": "no-store"])
        #expect(try await second.response.told == "two from network")
        #expect(try await third.response.told == "three from network")
    }

    @Test("a call that insists on the network does not wait, and a call that joins later goes on at once")
    func insisting() async throws {
        let (one, two) = (cache(), cache())
        let (transfer, second) = try await begin(one, two)
        let remote = two.cache.getRemoteData(a)
        finish(try await two.transport.nextTransfer(), "newer")
        #expect(try await remote.response.told == "newer from network")
        #expect(try await second.response.told == "newer from network")
        finish(transfer, "older")
        let three = cache()
        let (_, third) = try await three.begin(DataRequest(b).with(\.cachePolicy, .memoryOnly))
        let (_, alone) = try await one.begin(DataRequest(b).with(\.cachePolicy, .memoryOnly))
        for transfer in [third, alone] { finish(transfer, "each for itself") }
    }

    @Test("when bytes do not flow for five seconds, one more asks, and no third")
    func patience() async throws {
        let (one, two, three) = (cache(), cache(), cache())
        let (_, second) = try await begin(one, two)
        let third = three.call(a, in: .fast)
        try await three.cache.waitForParked()
        let transfer = try await two.nextTransfer(after: .seconds(5))
        try await three.clock.wake(after: .seconds(5))
        _ = three.cache.queueCounts
        finish(transfer, "bytes")
        #expect(try await second.response.told == "bytes from network")
        #expect(try await third.response.told == "bytes from disk")
        #expect(three.transport.transfers.isEmpty)
    }

    @Test("a late holder does not overwrite newer bytes", arguments: [100, 20_000])
    func fence(size: Int) async throws {
        let (one, two) = (cache(), cache())
        let (late, second) = try await begin(one, two)
        date.advance(by: 5)
        let transfer = try await two.nextTransfer(after: .seconds(5))
        date.advance(by: 1)
        finish(transfer, String(repeating: "n", count: size))
        _ = try await second.value
        await two.cache.synchronize()
        date.advance(by: 1)
        finish(late, String(repeating: "o", count: size))
        await one.cache.idle()
        await one.cache.synchronize()
        let reader = cache()
        #expect(reader.cache.readData(for: a)?.first == UInt8(ascii: "n"))
        let report = await reader.cache.verify()
        #expect(report.isSound && report.sound == 1 && report.unlisted == 0, "\(report)")
    }

    @Test("an urgent call makes the holder hurry, until it leaves")
    func promotion() async throws {
        let (one, two) = (cache(), cache())
        let (_, prefetch) = try await one.begin(a, in: .slow)
        let (_, urgent) = try await one.begin(b)
        try await prefetch.wait { $0.isThrottled && $0.queue == .slow }
        let second = two.call(a, in: .slow)
        try await two.cache.waitForParked()
        let third = two.call(a, in: .fast)
        try await prefetch.wait { !$0.isThrottled && $0.queue == .fast }
        third.cancel()
        _ = await third.error
        try await prefetch.wait { $0.isThrottled && $0.queue == .slow }
        second.cancel()
        finish(urgent, "b")
        finish(prefetch, "a")
        await one.cache.idle()
    }

    @Test("a time limit counts the wait for another process")
    func timeLimit() async throws {
        let (one, two) = (cache(), cache())
        let (_, transfer) = try await one.begin(a)
        let second = two.cache.getData(DataRequest(a).with(\.timeout, .seconds(3)))
        try await two.cache.waitForParked()
        try await two.clock.wake(after: .seconds(3))
        #expect(await second.error == .timedOut)
        finish(transfer, "bytes")
    }

    @Test("what is removed or cleared during the wait holds nobody up", arguments: [true, false])
    func removal(isCleared: Bool) async throws {
        let (one, two) = (cache(), cache())
        let (transfer, second) = try await begin(one, two)
        if isCleared { one.cache.clear() } else { one.cache.removeData(for: a) }
        two.cache.removeData(for: a)
        finish(transfer, "removed")
        finish(try await two.transport.nextTransfer(), "anew")
        #expect(try await second.response.told == "anew from network")
    }

    @Test("each fetches for itself where the program wants it so, or the folder has no room for leases")
    func off() async throws {
        for sharesFolder in [true, false] {
            let log = Box<[String]>([])
            let folder = TemporaryFolder()
            let first = TestCache(folder: folder)
            await first.cache.shutdown()
            try FileManager.default.removeItem(at: folder.url.appendingPathComponent("leases"))
            if sharesFolder { try folder.place(Data("theirs".utf8), at: "leases") }
            let make = {
                TestCache(folder: folder) {
                    $0.leases.sharesFolder = sharesFolder
                    $0.logger = .recording(lines: { text in log.update { $0.append(text) } })
                }
            }
            let (one, two) = (make(), make())
            let (mine, transfer) = try await one.begin(a)
            let (theirs, other) = try await two.begin(a)
            for transfer in [transfer, other] { finish(transfer, "bytes") }
            _ = (try await mine.value, try await theirs.value)
            #expect(log.value.contains { $0.contains("several times") } == sharesFolder)
            if sharesFolder { #expect(try Data(contentsOf: folder.url.appendingPathComponent("leases")).count == 6) }
        }
    }

    @Test("a processed picture is made once, and each picture fetched once", arguments: [true, false])
    func pictures(keepsOriginals: Bool) async throws {
        let inverting = Inverting()
        let caches = (0..<3).map { _ in
            TestImageCache(folder: folder, date: date) { $0.options.keepsOriginal = keepsOriginals }
        }
        let urls = (0..<30).map { url("pictures/\($0).png") }
        let picture = Image.sample()
        for test in caches { for url in urls { try test.script(url, picture) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for test in caches {
                group.addTask {
                    let requests = urls.shuffled().map { ImageRequest($0).processed(by: inverting) }
                    let tasks = requests.map { test.cache.getImage($0) }
                    for task in tasks {
                        let image = try await task.value
                        #expect(image.size == picture.size)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(inverting.count.value == urls.count)
        #expect(caches.reduce(0) { $0 + $1.transport.transfers.count } == urls.count)
    }

    @Test("of a thousand fetches in four caches each key is asked once")
    func many() async throws {
        let caches = (0..<4).map { _ in cache() }
        let urls = (0..<250).map { url("many/\($0)") }
        for test in caches {
            for url in urls { test.transport.script(url, [.text(url.path)]) }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for test in caches {
                group.addTask {
                    let tasks = urls.shuffled().map { ($0, test.cache.getData($0)) }
                    for (url, task) in tasks {
                        let data = try await task.value
                        #expect(data == Data(url.path.utf8))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(caches.reduce(0) { $0 + $1.transport.transfers.count } == urls.count)
    }
}
