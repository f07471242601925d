import TestSupport
import Testing

@Suite("The end of a cache, and of its work", .timeLimit(.minutes(2)))
struct ShutdownTests {
    private let a = url("a")

    @Test("A shutdown cancels running, waiting and parked calls, and later calls end with shutDown")
    func calls() async throws {
        let test = TestCache(folder: TemporaryFolder())
        test.network.setReachable(false, host: "far.test")
        let parked = test.cache.getData(DataRequest(string: "http://far.test/x"))
        try await parked.waitForFailures()
        let (running, transfer) = try await test.begin(a)
        let waiting = test.cache.slowGetData(url("b"))
        let events = test.cache.events
        await test.cache.shutdown()
        for task in [running, waiting, parked] { #expect(await task.error == .cancelled) }
        #expect(transfer.isCancelled)
        #expect(test.cache.queueCounts == QueueCounts())
        var count = 0
        for await _ in events { count += 1 }
        #expect(count > 0, "the stream of events ends")
        for queue in [FetchQueue.fast, .slow] { #expect(await test.call(a, in: queue).error == .shutDown) }
        await test.cache.shutdown()
        #expect(test.transport.transfers.count == 1)
    }

    @Test("A hook that waits is cancelled with its call, and by a shutdown, which waits for its end")
    func hooks() async throws {
        let test = TestCache()
        let (log, gate) = (Box<[String]>([]), Gate())
        func request(_ name: String) -> DataRequest {
            test.transport.script(url(name), [.redirect("/b")])
            let handler = RedirectHandler { _, _ in
                log.update { $0.append("\(name) begins") }
                for await _ in AsyncStream<Void>.makeStream().stream {}
                log.update { $0.append("\(name) is cancelled") }
                if name == "last" { await gate.pass() }
                log.update { $0.append("\(name) ends") }
                return nil
            }
            return DataRequest(url(name)).with(\.redirectHandler, handler)
        }
        let task = test.cache.getData(request("first"))
        try await log.wait { $0.count == 1 }
        task.cancel()
        try await log.wait { $0.count == 3 }
        test.cache.getData(request("last"))
        try await log.wait { $0.count == 4 }
        let end = Task { await test.cache.shutdown() }
        try await log.wait { $0.count == 5 }
        gate.open()
        await end.value
        #expect(log.value.suffix(3) == ["last begins", "last is cancelled", "last ends"])
    }

    @Test("Each of many calls is told its end once, and what had come before is on disk")
    func manyCalls() async throws {
        let test = TestCache(folder: TemporaryFolder()) { $0.callbackQueue = .serial() }
        for number in 0..<20 { try await test.keep("\(number)", for: url("\(number)")) }
        let ended = Box(0)
        for number in 0..<2_000 { test.cache.slowGetData(url("more\(number)")).onEnd { _ in ended.increment() } }
        let next = await test.reopened()
        try await ended.wait { $0 == 2_000 }
        for number in 0..<20 { #expect(next.cache.readData(for: url("\(number)")) == Data("\(number)".utf8)) }
        await next.cache.shutdown()
        #expect(ended.value == 2_000)
    }

    @Test("Calls go on when the last reference to their cache has been released; the cache ends after them")
    func released() async throws {
        let gone = (0..<3).map { _ in Box(false) }
        func begin<Call>(_ number: Int, _ call: (DataCache) -> Call) async throws -> (Call, ScriptedTransfer) {
            func make() -> TestCache {
                let canary = Canary(gone[number])
                return TestCache { configuration in
                    let now = configuration.now
                    configuration.now = { withExtendedLifetime(canary) { now() } }
                }
            }
            let (task, transport) = { test in (call(test.cache), test.transport) }(make())
            return (task, try await transport.nextTransfer())
        }
        let (task, first) = try await begin(0) { $0.getData(a) }
        first.finish(with: Data("here".utf8))
        #expect(try await task.value == Data("here".utf8))
        let (value, second) = try await begin(1) { $0.getValue(Int.self, from: a) }
        second.finish(with: Data("7".utf8))
        #expect(try await value.value == 7)
        let (cancelled, third) = try await begin(2) { $0.slowGetData(a) }
        #expect(!gone[2].value)
        cancelled.cancel()
        try await third.wait { $0.isCancelled }
        for box in gone { try await box.wait { $0 } }
    }

    // MARK: What is kept alive

    @Test("After its shutdown a cache is released as a whole", arguments: [true, false])
    func noLeak(hasFolder: Bool) async throws {
        let isGone = Box(false)
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Cache-Control": "max-age=10, stale-while-revalidate=100"]
        do {
            let canary = Canary(isGone)
            let test = TestCache(folder: hasFolder ? TemporaryFolder() : nil) { configuration in
                let now = configuration.now
                configuration.now = { withExtendedLifetime(canary) { now() } }
            }
            test.transport.script(a, [.text("1", fields), .text("2", fields)])
            _ = try await test.cache.getData(DataRequest(a).with(\.timeout, .seconds(600))).value
            test.date.advance(by: 20)
            _ = try await test.cache.getData(a).response.revalidation?.value
            test.cache.getData(url("silent"))
            await test.cache.shutdown()
        }
        try await isGone.wait { $0 }
    }

    @Test("A task whose hooks hold it is released after its end")
    func noCycle() async throws {
        let test = TestCache()
        let gone = [Box(false), Box(false)]
        do {
            let canaries = gone.map { Canary($0) }
            let (fetched, transfer) = try await test.begin(a)
            fetched.onEnd { [canary = canaries[0]] _ in withExtendedLifetime((canary, fetched)) {} }
            transfer.finish(with: Data())
            _ = await fetched.ending
            test.transport.script(url("b"), [.failure(.connectionLost), .silence])
            let cancelled = test.cache.getData(url("b"))
            cancelled.onFail { [canary = canaries[1]] _, _ in withExtendedLifetime((canary, cancelled)) {} }
            try await cancelled.waitForFailures()
            cancelled.cancel()
            _ = await cancelled.ending
        }
        for box in gone { try await box.wait { $0 } }
        await test.cache.shutdown()
    }

    @Test("Nothing is kept of a call whose transport answers before it has returned the transfer")
    func instantTransport() async throws {
        let test = TestCache()
        test.transport.script(a, [.text("here")])
        let isGone = Box(false)
        do {
            let canary = Canary(isGone)
            let validation = ResponseValidation { _ in withExtendedLifetime(canary) { nil } }
            #expect(try await test.ask(DataRequest(a).with(\.validation, validation)) == "here from network")
        }
        try await isGone.wait { $0 }
        await test.cache.shutdown()
    }

    // MARK: idle()

    @Test("idle() returns when all calls have ended, their closures have been called, and the answers are on disk")
    func everything() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.callbackQueue = .serial() }
        let called = Box(0)
        for number in 0..<20 {
            test.transport.script(url("\(number)"), [.status(503), .body(Data(count: 5_000))])
            test.cache.slowGetData(url("\(number)")) { _ in called.increment() }
        }
        await test.whileClockRuns { await test.cache.idle() }
        #expect(called.value == 20)
        #expect(test.cache.queueCounts == QueueCounts())
        let other = DataCache(.init(directory: folder.url))
        for number in 0..<20 { #expect(other.readData(for: url("\(number)"))?.count == 5_000) }
        await other.shutdown()
    }

    @Test("idle() waits for a call that a closure makes, and for typed values")
    func chained() async throws {
        let test = TestCache()
        for (name, text) in [("a", "[1]"), ("b", "[2]")] { test.transport.script(url(name), [.text(text)]) }
        let values = Box<[[Int]]>([])
        test.cache.getData(url("a")) { _ in
            test.cache.getValue([Int].self, from: url("b")).then { value in values.update { $0.append(value) } }
        }
        await test.cache.idle()
        #expect(values.value == [[2]])
    }

    @Test(
        "idle() waits for closures on a request's own queue, which are done when that queue does them, and for their calls"
    )
    func ownQueue() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.text("a")])
        let held = Box<[@Sendable () -> Void]>([])
        let request = DataRequest(url("a")).with(\.callbackQueue, .custom { work in held.update { $0.append(work) } })
        let called = Box(0)
        let task = test.cache.getData(request) { _ in
            called.increment()
            test.cache.getData(request) { _ in called.increment() }
        }
        #expect(await task.error == nil, "the value does not wait for the queue")
        for number in 0..<2 {
            try await held.wait { !$0.isEmpty }
            await #expect(throws: WaitTimeout.self) { try await test.cache.idle(within: .milliseconds(20)) }
            #expect(called.value == number)
            let works = held.value
            held.update { $0 = [] }
            for work in works { work() }
        }
        await test.cache.idle()
        #expect(called.value == 2)
    }

    @Test("idle() of an image cache waits until pictures are made and their closures called")
    func pictures() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        try test.transport.script(url("a.png"), [.image(.sample())])
        let shown = Box(0)
        test.cache.getImage(url("a.png")) { _ in shown.increment() }
        await #expect(throws: WaitTimeout.self) { try await test.cache.idle(within: .milliseconds(50)) }
        #expect(shown.value == 0)
        test.decoder.releaseAll()
        await test.cache.idle()
        #expect(shown.value == 1)
    }

    @Test("idle() with a limit fails with the numbers of fetches that wait")
    func limit() async throws {
        let test = TestCache()
        let (task, transfer) = try await test.begin(url("silent"))
        let error = await #expect(throws: WaitTimeout.self) {
            try await test.cache.idle(within: .milliseconds(20))
        }
        #expect(error?.description.contains("fastRunning: 1") == true, "\(String(describing: error))")
        transfer.finish(with: Data())
        try await test.cache.idle(within: .seconds(30))
        #expect(await task.error == nil)
    }
}
