import TestSupport
import Testing

@Suite("The order in which fetches start", .timeLimit(.minutes(2)))
struct QueueOrderTests {
    /// Answers the transfers one after the other, and returns the names of those that follow the first one.
    private func startOrder(_ test: TestCache, _ count: Int) async throws -> [String] {
        for _ in 0..<count { try await test.transport.nextTransfer().finish(with: Data()) }
        await test.cache.idle()
        return test.transport.transfers.dropFirst().map(\.request.url.lastPathComponent)
    }

    // MARK: Between the queues

    @Test("As many urgent fetches run as may, in order; no prefetch starts beside them, and prefetches run one by one")
    func urgentFirst() async throws {
        let journal = Journal()
        let test = TestCache(sink: journal)
        for number in 0..<19 { test.cache.getData(url("\(number)")) }
        for name in ["s1", "s2"] { test.cache.slowGetData(url(name)) }
        test.cache.getData(url("19"))
        try await test.transport.waitForTransfers(8)
        test.clock.advance(by: .seconds(86_400))  // without maxPause, no time ends the wait of a prefetch
        await test.answerAll()
        #expect(Array(journal.lines.prefix(8)) == (0..<8).map { "+\($0)" })
        #expect(journal.lines.suffix(4) == ["+s1", "-s1", "+s2", "-s2"])
        #expect(journal.mostAtOnce == 8)
        #expect(journal.lines.count == 44)
    }

    @Test("An entry on disk answers an urgent call at once, without a slot and without holding a prefetch back")
    func diskHit() async throws {
        let record = EventRecord()
        let test = TestCache(folder: TemporaryFolder(), sink: record) { $0.fastQueue.maxConcurrent = 1 }
        try await test.cache.addDataAndWait(Data("here".utf8), for: CacheKey(url("kept")))
        for (name, queue) in [("s", FetchQueue.slow), ("busy", .fast)] {
            test.cache.clearMemory()
            let (_, transfer) = try await test.begin(url(name), in: queue)
            #expect(try await test.ask(url("kept")) == "here from disk")
            transfer.finish(with: Data())
            await test.cache.idle()
        }
        #expect(!record.kinds.contains(.paused))
    }

    // MARK: Inside a queue

    @Test(
        "The higher priority starts first, and among equals the first or the last that was asked for",
        arguments: [FetchQueue.fast, .slow], [QueueConfiguration.Order.fifo, .lifo])
    func order(queue: FetchQueue, order: QueueConfiguration.Order) async throws {
        let test = TestCache {
            $0.fastQueue = QueueConfiguration(maxConcurrent: 1, order: order)
            $0.slowQueue = QueueConfiguration(maxConcurrent: 1, order: order)
        }
        let calls: [(String, Priority)] = [
            ("first", .normal), ("low", .low), ("a", .normal), ("b", .normal), ("high", .high), ("most", 0.9),
        ]
        for (name, priority) in calls {
            test.call(DataRequest(url(name)).with(\.priority, priority), in: queue)
            if name == "first" { try await test.transport.waitForTransfers(1) }
        }
        let equals = order == .fifo ? ["a", "b"] : ["b", "a"]
        #expect(try await startOrder(test, 6) == ["most", "high"] + equals + ["low"])
    }

    @Test("A priority may change while the call waits, and the highest of the calls for a key counts")
    func priorityChanges() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        test.cache.getData(url("first"))
        try await test.transport.waitForTransfers(1)
        let lowered = (0..<2).map { _ in test.cache.getData(DataRequest(url("lowered")).with(\.priority, .high)) }
        test.cache.getData(url("a"))
        let raised = test.cache.getData(url("raised"))
        test.cache.getData(url("joined"))
        test.cache.slowGetData(DataRequest(url("joined")).with(\.priority, .high))
        raised.priority = 1.0
        for task in lowered { task.priority = .low }
        #expect(try await startOrder(test, 5) == ["raised", "joined", "a", "lowered"])
    }

    @Test("Fetches of other hosts pass those that maxPerHost holds back; limits may change, and stop no running fetch")
    func limitsChange() async throws {
        let journal = Journal()
        let test = TestCache(sink: journal) { $0.fastQueue.maxConcurrent = 1 }
        for name in ["a1", "a2", "a3", "b1", "a4", "a5"] {
            test.cache.getData(DataRequest(string: "http://\(name.prefix(1)).test/\(name)"))
        }
        try await journal.wait(for: 1)
        test.cache.fastQueue = QueueConfiguration(maxConcurrent: 9, maxPerHost: 2)
        try await journal.wait(for: 3)
        try await test.transport.nextTransfer().finish(with: Data())
        try await journal.wait(for: 5)
        test.cache.fastQueue = QueueConfiguration(maxConcurrent: 4)
        try await journal.wait(for: 6)
        test.cache.fastQueue.maxConcurrent = 1
        #expect(test.cache.fastQueue == QueueConfiguration(maxConcurrent: 1))
        #expect(test.transport.transfers.allSatisfy { !$0.isCancelled && !$0.isThrottled })
        await test.answerAll()
        #expect(journal.lines.prefix(6) == ["+a1", "+a2", "+b1", "-a1", "+a3", "+a4"])
        #expect(journal.lines.suffix(2) == ["+a5", "-a5"])
    }

    @Test(
        "A suspended queue starts nothing, lets running fetches go on, and goes on when it is released",
        arguments: [FetchQueue.fast, .slow])
    func suspended(queue: FetchQueue) async throws {
        let test = TestCache()
        let isSuspended: ReferenceWritableKeyPath<DataCache, Bool> =
            queue == .fast ? \.fastQueue.isSuspended : \.slowQueue.isSuspended
        let (running, transfer) = try await test.begin(url("running"), in: queue)
        test.cache[keyPath: isSuspended] = true
        let waiting = test.call(url("waiting"), in: queue)
        transfer.finish(with: Data())
        #expect(await running.error == nil)
        // The other queue goes on, and its fetch is the next one; urgent work that waits still comes before prefetches.
        if queue == .slow {
            let (_, urgent) = try await test.begin(url("urgent"))
            #expect(urgent.request.url == url("urgent"))
            urgent.finish(with: Data())
        }
        #expect(waiting.state == .waiting)
        test.cache[keyPath: isSuspended] = false
        try await test.transport.nextTransfer().finish(with: Data())
        #expect(await waiting.error == nil)
    }

    // MARK: maxPause

    @Test("With maxPause one prefetch at a time runs beside urgent work, each after that wait")
    func maxPause() async throws {
        let journal = Journal()
        let test = TestCache(sink: journal) { $0.slowQueue.maxPause = .seconds(5) }
        let (_, urgent) = try await test.begin(url("u"))
        for name in ["s1", "s2"] { test.cache.slowGetData(url(name)) }
        for name in ["s1", "s2"] {
            let slow = try await test.nextTransfer(after: .seconds(5))
            #expect(slow.request.url == url(name) && !slow.request.isThrottled && !slow.isThrottled)
            test.clock.advance(by: .seconds(60))
            slow.finish(with: Data())
        }
        try await journal.wait(for: 5)
        urgent.finish(with: Data())
        await test.cache.idle()
        #expect(journal.lines == ["+u", "+s1", "-s1", "+s2", "-s2", "-u"])
        #expect(journal.seconds == [0, 5, 70])
    }

    @Test("With maxPause a prefetch that is held back goes on before another one starts")
    func maxPauseReleases() async throws {
        let test = TestCache { $0.slowQueue.maxPause = .seconds(5) }
        let (_, slow) = try await test.begin(url("s1"), in: .slow)
        test.cache.slowGetData(url("s2"))
        let (_, urgent) = try await test.begin(url("u"))
        try await slow.wait { $0.isThrottled }
        try await test.clock.wake(after: .seconds(5))
        try await slow.wait { !$0.isThrottled }
        urgent.finish(with: Data())
        slow.finish(with: Data())
        await test.answerAll()
        #expect(test.transport.transfers.map(\.request.url.lastPathComponent) == ["s1", "u", "s2"])
    }

    // MARK: All at once

    private struct Watch {
        var waiting: [CacheKey: FetchQueue] = [:]
        var running: [CacheKey: FetchQueue] = [:]
        var problems: [String] = []
        var most: [FetchQueue: Int] = [:]

        mutating func hear(_ event: CacheEvent) {
            let key = event.key
            switch event.kind {
            case .queued(let queue):
                running[key] = nil
                waiting[key] = queue
            case .queueChanged(let queue):
                if waiting[key] != nil { waiting[key] = queue }
                if running[key] != nil { running[key] = queue }
            case .attemptBegan(let queue):
                let urgent = waiting.values.contains(.fast) || running.values.contains(.fast)
                if queue == .slow, urgent { problems.append("\(key) starts beside urgent work") }
                if running[key] != nil { problems.append("\(key) starts twice") }
                waiting[key] = nil
                running[key] = queue
                let count = running.values.count { $0 == queue }
                most[queue] = max(most[queue] ?? 0, count)
            case .parked, .fetchEnded:
                waiting[key] = nil
                running[key] = nil
            default: break
            }
        }
    }

    @Test(
        "Whatever calls come, the rules hold, no request is made twice at a time, and each call ends once",
        arguments: [UInt64(1), 2, 3])
    func randomCalls(seed: UInt64) async throws {
        let watch = Box(Watch())
        let test = TestCache {
            $0.fastQueue.maxConcurrent = 3
            $0.retryPolicy = .fixed(.zero, retries: 1)
            $0.cachePolicy = .ignoreCache
            $0.eventSinks.append(Observer([.fetches, .attempts]) { event in watch.update { $0.hear(event) } })
        }
        var random = SeededRandom(seed)
        let ends = Box<[Int: Int]>([:])
        var tasks: [DataTask] = []
        var answered = 0
        for number in 0..<600 {
            let target = url("\(random.below(12))")
            switch random.below(10) {
            case 0...4:
                let task = random.chance(2) ? test.cache.getData(target) : test.cache.slowGetData(target)
                task.onEnd { _ in ends.update { $0[number, default: 0] += 1 } }
                tasks.append(task)
            case 5: test.cache.moveTaskToSlowQueue(target)
            case 6: tasks.randomElement(using: &random)?.cancel()
            case 7: tasks.randomElement(using: &random)?.priority = Priority(Double(random.below(100)) / 100)
            default:
                let transfers = test.transport.transfers
                guard answered < transfers.count else { continue }
                if random.chance(4) {
                    transfers[answered].fail(with: .connectionLost)
                } else {
                    transfers[answered].finish(with: Data())
                }
                answered += 1
            }
        }
        await test.answerAll()
        let seen = watch.value
        #expect(seen.problems.isEmpty)
        #expect(seen.waiting.isEmpty && seen.running.isEmpty)
        #expect(seen.most == [.fast: 3, .slow: 1])
        #expect(ends.value.count == tasks.count && ends.value.values.allSatisfy { $0 == 1 })
        #expect(test.cache.queueCounts == QueueCounts())
    }

    // MARK: Local sources

    @Test(
        "Local sources have places of their own: a file is read beside a download that takes all places, also for a prefetch, and holds up no prefetch"
    )
    func beside() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place("local", at: "file")
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let (running, transfer) = try await test.begin(url("download"))
        #expect(try await test.cache.getData(DataRequest(FileProvider(file))).value == Data("local".utf8))
        let again = DataRequest(FileProvider(file)).with(\.key, "2")
        #expect(try await test.cache.slowGetData(again).value == Data("local".utf8))
        transfer.finish(with: Data())
        #expect(await running.error == nil)
        // A prefetch of the network begins while a local source is still being read for an urgent call.
        let (gate, order) = (Gate(), Box<[String]>([]))
        let reading = test.cache.getData(DataRequest(LocalProvider(name: "slow", gate: gate, order: order)))
        try await order.wait { $0 == ["slow"] }
        let (prefetch, later) = try await test.begin(url("later"), in: .slow)
        later.finish(with: Data())
        #expect(await prefetch.error == nil)
        gate.open()
        #expect(await reading.error == nil)
    }

    @Test(
        "Four local sources are read at a time, the fourth only for an urgent call, and none while the queue is suspended"
    )
    func bounded() async throws {
        let order = Box<[String]>([])
        let gates = (0..<8).map { _ in Gate() }
        func request(_ number: Int) -> DataRequest {
            DataRequest(LocalProvider(name: "\(number)", gate: gates[number], order: order))
        }
        let test = TestCache()
        let prefetches = (0..<5).map { test.cache.slowGetData(request($0)) }
        try await order.wait { $0.count == 3 }
        #expect(test.cache.queueCounts.slowRunning == 3 && test.cache.queueCounts.slowWaiting == 2)
        let first = test.cache.getData(request(5))
        try await order.wait { $0.last == "5" }
        let second = test.cache.getData(request(6))
        #expect(test.cache.queueCounts.fastRunning == 1 && test.cache.queueCounts.fastWaiting == 1)
        gates[Int(order.value[0]) ?? 0].open()
        try await order.wait { $0.count == 5 }
        #expect(order.value.last == "6", "urgent ones come first")
        for gate in gates { gate.open() }
        for task in prefetches + [first, second] { #expect(await task.error == nil) }
        test.cache.fastQueue.isSuspended = true
        let waiting = test.cache.getData(request(7))
        #expect(test.cache.queueCounts.fastWaiting == 1)
        test.cache.fastQueue.isSuspended = false
        #expect(await waiting.error == nil)
    }
}

/// A provider whose bytes are at hand, but which waits at a gate.
private struct LocalProvider: DataProvider {
    let name: String
    let gate: Gate
    let order: Box<[String]>

    var cacheKey: CacheKey { CacheKey(name) }
    var isLocal: Bool { true }

    func data() async throws -> Data {
        order.update { $0.append(name) }
        await gate.pass()
        return Data(name.utf8)
    }
}
