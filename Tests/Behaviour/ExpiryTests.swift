import TestSupport
import Testing

extension DataRequest {
    fileprivate func expiring(after memory: TimeInterval, onDisk disk: TimeInterval? = nil) -> DataRequest {
        with(\.memoryExpiration, .after(.seconds(memory))).with(\.diskExpiration, .after(.seconds(disk ?? memory)))
    }
}

@Suite("How long entries last, in memory and on disk, whatever the clock does", .timeLimit(.minutes(2)))
struct ExpiryTests {
    private let folder = TemporaryFolder()
    private let a = url("a")

    // MARK: Memory and disk

    @Test(
        "memory holds an entry as long as it is told to, shorter or longer than the disk, fetched or read from disk",
        arguments: [(1_000.0, 10.0, ResponseSource?.some(.memory)), (10, 1_000, .disk), (10, 10, nil)], [true, false])
    func given(lives: (memory: TimeInterval, disk: TimeInterval, later: ResponseSource?), byRequest: Bool) async throws
    {
        for isRead in [false, true] {
            let test = TestCache(folder: TemporaryFolder()) {
                guard !byRequest else { return }
                $0.memoryExpiration = .after(.seconds(lives.memory))
                $0.diskExpiration = .after(.seconds(lives.disk))
            }
            let request = byRequest ? DataRequest(a).expiring(after: lives.memory, onDisk: lives.disk) : DataRequest(a)
            test.transport.script(a, [.text("1")])
            _ = try await test.ask(request)
            await test.cache.idle()
            if isRead {
                test.cache.clearMemory()
                test.date.advance(by: 5)
                #expect(try await test.ask(request) == "1 from disk")
            }
            test.date.advance(by: 15)
            #expect(test.cache.cachedSource(for: a) == lives.later, "\(isRead)")
            await test.cache.shutdown()
        }
    }

    @Test("what has expired leaves memory and disk by itself, once a minute has passed since it was asked for")
    func cleaned() async throws {
        let record = EventRecord()
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.eventSinks.append(record)
            $0.data.memoryLimit = 1 << 20
        }
        let (data, cache) = (test.cache.data, test.cache)
        @Sendable func cleaned(_ events: [CacheEvent]) -> Int {
            events.cleanings.filter { $0.reason == .expired }.reduce(0) { $0 + $1.entries }
        }
        func keep(_ name: String, for seconds: TimeInterval) async throws {
            let requests = [name, name + ".png"].map { DataRequest(url($0)).expiring(after: seconds) }
            try await data.addDataAndWait(Data(count: 9_000), for: requests[0])
            try cache.addImage(.sample(), for: ImageRequest(requests[1]))
            await cache.idle()
        }
        try await keep("brief", for: 10)
        try await keep("long", for: 1_000)
        try await data.addDataAndWait(Data(count: 100), for: "for ever")
        #expect(data.diskCount == 5)
        for (seconds, gone) in [(60, 5), (940, 10)] {
            try await test.clock.waitForSleepers(1)
            test.date.advance(by: TimeInterval(seconds))
            test.clock.advance(by: .seconds(seconds))
            try await record.wait { cleaned($0) >= gone }
            #expect(cleaned(record.events) == gone)
        }
        await data.synchronize()
        #expect(data.diskCount == 1 && data.memoryCount == 1 && cache.memoryCount == 0)
    }

    @Test(
        "where nobody says how long, memory holds what is read from disk no longer than the disk, or as long from a hit",
        arguments: [(.unchanged, 6), (.cacheTime, 11)] as [(AccessExtension, TimeInterval)])
    func notGiven(added: AccessExtension, later: TimeInterval) async throws {
        let test = TestCache(folder: TemporaryFolder()) {
            $0.diskExpiration = .after(.seconds(10))
            $0.memoryAccessExtension = added
        }
        try await test.cache.addDataAndWait(Data(count: 100), for: DataRequest(a))
        test.cache.clearMemory()
        test.date.advance(by: 5)
        for _ in ["disk", "memory"] { #expect(test.cache.readData(for: a) != nil) }
        test.date.advance(by: later - 2)
        #expect(test.cache.cachedSource(for: a) == .memory)
        test.date.advance(by: 2)
        #expect(test.cache.cachedSource(for: a) == nil)
    }

    @Test(
        "a request that reads an entry decides how long memory keeps it, counted from when the entry came",
        arguments: [(100, 50, true), (10, 11, false), (4, 5, false)] as [(TimeInterval, TimeInterval, Bool)])
    func decidedInMemory(seconds: TimeInterval, later: TimeInterval, isThere: Bool) async throws {
        let (data, images) = (TestCache(), TestImageCache { $0.data.memoryLimit = 0 })
        let picture = url("a.png")
        data.transport.script(a, [.text("1")])
        try images.script(picture, .sample())
        func expiring(_ target: URL, _ seconds: TimeInterval) -> DataRequest {
            DataRequest(target).with(\.memoryExpiration, .after(.seconds(seconds)))
        }
        #expect(try await data.ask(expiring(a, 20)) == "1 from network")
        #expect(try await images.source(ImageRequest(expiring(picture, 20))) == .network)
        for date in [data.date, images.date] { date.advance(by: 5) }
        #expect(try await data.ask(expiring(a, seconds)) == "1 from memory")
        #expect(try await images.source(ImageRequest(expiring(picture, seconds))) == .memory)
        for date in [data.date, images.date] { date.advance(by: later - 5) }
        #expect((data.cache.cachedSource(for: a) != nil) == isThere)
        #expect((images.cache.cachedSource(for: picture) != nil) == isThere)
    }

    @Test(
        "a request with nothing but an expiration leaves the entry its extension, or ends it",
        arguments: [(10, true), (4, false)] as [(TimeInterval, Bool)])
    func keptExtension(seconds: TimeInterval, isThere: Bool) async throws {
        let test = TestCache()
        let request = DataRequest(a).with(\.memoryExpiration, .after(.seconds(10)))
        test.transport.script(a, [.text("1")])
        _ = try await test.ask(request.with(\.memoryAccessExtension, .cacheTime))
        test.date.advance(by: 5)
        #expect(try await test.ask(request.with(\.memoryExpiration, .after(.seconds(seconds)))) == "1 from memory")
        test.date.advance(by: 7)
        #expect((test.cache.cachedSource(for: a) != nil) == isThere)
        if isThere { #expect(try await test.ask(request) == "1 from memory", "the first hit has extended it") }
        test.date.advance(by: 11)
        #expect(test.cache.cachedSource(for: a) == nil)
    }

    private static let date = AccessExtension.expiration(.date(ManualDate().now + 100))

    @Test(
        "reads extend the life of an entry as their own request says, whatever the call that stored it said",
        arguments: [
            (.cacheTime, .expiration(.after(.seconds(20))), 25), (.cacheTime, .expiration(.after(.seconds(2))), 7),
            (.cacheTime, .unchanged, 10), (.unchanged, .cacheTime, 15), (.cacheTime, .cacheTime, 15), (date, date, 100),
        ] as [(AccessExtension, AccessExtension, TimeInterval)], [true, false])
    func extended(
        by extensions: (storing: AccessExtension, reading: AccessExtension, end: TimeInterval), onDisk: Bool
    ) async throws {
        var test = TestCache(folder: onDisk ? folder : nil)
        func request(_ added: AccessExtension) -> DataRequest {
            DataRequest(a).with(\.memoryAccessExtension, added).with(\.diskAccessExtension, added)
        }
        test.transport.script(a, [.text("1")])
        _ = try await test.ask(request(extensions.storing).expiring(after: 10))
        await test.cache.idle()
        test.date.advance(by: 5)
        let tier = onDisk ? ResponseSource.disk : .memory
        if onDisk { test.cache.clearMemory() }
        #expect(try await test.ask(request(extensions.reading)) == "1 from \(tier)")
        if onDisk { test.cache.clearMemory() }
        test.date.advance(by: extensions.end - 6)
        #expect(test.cache.cachedSource(for: a) == tier)
        if onDisk {
            test = await test.reopened()
            #expect(test.cache.cachedSource(for: a) == tier)
        }
        test.date.advance(by: 2)
        #expect(test.cache.cachedSource(for: a) == nil)
    }

    @Test("an entry that is stored while an earlier one is read has its own expiration, not that of the reader's entry")
    func storedDuringRead() async throws {
        let door = Door()
        let test = TestCache(folder: TemporaryFolder()) {
            $0.memoryLimit = 0
            $0.recordCodec = WatchedCodec(onRead: door.pass)
        }
        try await test.cache.addDataAndWait(
            Data("1".utf8), for: DataRequest(a).with(\.diskExpiration, .after(.seconds(10))))
        let read = test.cache.getData(DataRequest(a).with(\.diskAccessExtension, .unchanged))
        try await door.waitForArrivals(1)
        test.date.advance(by: 1)
        try await test.cache.addDataAndWait(Data("2".utf8), for: DataRequest(a).with(\.diskExpiration, .days(7)))
        door.stayOpen()
        #expect(try await read.value == Data("1".utf8))
        test.date.advance(by: 10)
        #expect(test.cache.readData(for: a) == Data("2".utf8))
    }

    @Test("a picture that is made anew lasts on disk, however the reads of the expired one limited that one's life")
    func madeAnew() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let picture = url("a.png")
        try test.script(picture, .sample())
        let invert = Inverting()
        let request = ImageRequest(
            DataRequest(picture).with(\.diskAccessExtension, .expiration(.after(.seconds(10))))
        ).processed(by: invert)
        for (seconds, made) in [(0, 1), (1, 1), (15, 2), (1, 2)] as [(TimeInterval, Int)] {
            test.date.advance(by: seconds)
            _ = try await test.cache.getImage(request).value
            await test.forgetMemory()
            #expect(invert.count.value == made)
        }
        #expect(test.transport.transfers.count == 1)
    }

    // MARK: The clock

    @Test("when the clock is set back an answer is asked about, and is fresh again once confirmed; own bytes stay")
    func setBack() async throws {
        let test = TestCache(folder: TemporaryFolder())
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10"]
        test.transport.script(a, [.text("1", fields), .status(304, fields)])
        let own = url("own")
        try await test.cache.addDataAndWait(Data("own".utf8), for: CacheKey(own))
        #expect(try await test.ask(a) == "1 from network")
        #expect(try await test.ask(a) == "1 from memory")
        test.date.advance(by: -1_000)
        #expect(try await test.ask(a) == "1 from revalidated")
        #expect(try await test.ask(a) == "1 from memory")
        #expect(try await test.ask(own) == "own from memory")
        test.cache.clearMemory()
        #expect(try await test.ask(own) == "own from disk")
        test.date.advance(by: 11)
        #expect(try await test.ask(a) == "1 from revalidated")
    }

    @Test("an entry that was used before the clock was set back leaves in its turn")
    func evictionAfterSetback() async throws {
        let date = ManualDate()
        func open() -> TestCache { TestCache(folder: folder, date: date) { $0.diskLimit = 100_000 } }
        var test = open()
        try await test.cache.addDataAndWait(Data(count: 5_000), for: "future")
        test.cache.clearMemory()
        #expect(test.cache.readData(for: "future") != nil)
        await test.cache.shutdown()
        test = open()
        date.advance(by: -86_400)
        for number in 0..<40 {
            date.advance(by: 1)
            try await test.cache.addDataAndWait(Data(count: 5_000), for: CacheKey("k\(number)"))
        }
        test.cache.clearMemory()
        #expect(!test.cache.hasData(for: "future") && test.cache.hasData(for: "k39"))
    }
}
