import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("The order in which fetches start", .timeLimit(.minutes(2)))
struct QueueOrderTests {
    /// Answers the transfers one after the other, and returns the names of those that follow the first one.
    private func startOrder(_ test: TestCache, _ count: Int) async throws -> [String] {
        var names: [String] = []
        for _ in 0..<count {
            let transfer = try await test.transport.nextTransfer()
            names.append(transfer.request.url.lastPathComponent)
            transfer.finish(with: Data())
        }
        await test.cache.idle()
        await test.cache.shutdown()
        return Array(names.dropFirst())
    }

    // MARK: Between the queues

    @Test("No prefetch starts while an urgent fetch waits or runs, and prefetches run one at a time")
    func urgentFirst() async throws {
        let journal = Journal()
        let test = TestCache {
            $0.fastQueue.maxConcurrent = 2
            $0.eventSinks.append(journal)
        }
        for name in ["u1", "u2", "u3"] { test.cache.getData(url(name)) }
        for name in ["s1", "s2"] { test.cache.slowGetData(url(name)) }
        test.cache.getData(url("u4"))
        try await test.transport.waitForTransfers(2)
        test.clock.advance(by: .seconds(86_400))  // without maxPause, no time ends the wait of a prefetch
        await test.answerAll()
        let lines = journal.lines
        #expect(lines.prefix(2) == ["+u1", "+u2"])
        #expect(lines.suffix(4) == ["+s1", "-s1", "+s2", "-s2"])
        #expect(journal.mostAtOnce == 2)
    }

    @Test("Every urgent call that may run at a time does, and one more starts when one ends")
    func limit() async throws {
        let journal = Journal()
        let test = TestCache { $0.eventSinks.append(journal) }
        for number in 0..<20 { test.cache.getData(url("\(number)")) }
        try await test.transport.waitForTransfers(8)
        await test.answerAll()
        #expect(Array(journal.lines.prefix(8)) == (0..<8).map { "+\($0)" })
        #expect(journal.mostAtOnce == 8)
        #expect(journal.lines.count == 40)
    }

    @Test("An entry on disk answers an urgent call at once, without a slot and without holding a prefetch back")
    func diskHit() async throws {
        let journal = EventRecord()
        let test = TestCache(folder: TemporaryFolder()) {
            $0.fastQueue.maxConcurrent = 1
            $0.eventSinks.append(journal)
        }
        try await test.cache.addDataAndWait(Data("here".utf8), for: CacheKey(url("kept")))
        test.cache.clearMemory()
        test.cache.slowGetData(url("s"))
        let slow = try await test.transport.nextTransfer()
        #expect(try await test.ask(url("kept")) == "here from disk")
        slow.finish(with: Data())
        await test.cache.idle()
        #expect(!journal.kinds.contains(.paused))
        test.cache.clearMemory()
        test.cache.getData(url("busy"))
        let busy = try await test.transport.nextTransfer()
        #expect(try await test.ask(url("kept")) == "here from disk")
        busy.finish(with: Data())
        await test.cache.shutdown()
    }

    @Test("The states of tasks and the counts of the cache tell where each fetch stands")
    func states() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        test.network.setReachable(false, host: "far.test")
        let parked = test.cache.getData(DataRequest(string: "http://far.test/x"))
        try await parked.waitForFailures()
        var tasks = [parked]
        for name in ["s1", "s2", "u1", "u2"] {
            tasks.append(name.hasPrefix("s") ? test.cache.slowGetData(url(name)) : test.cache.getData(url(name)))
            if name.hasSuffix("1") { try await test.transport.waitForTransfers(name == "s1" ? 1 : 2) }
        }
        try await test.transport.transfers[0].wait { $0.isThrottled }
        #expect(tasks.map(\.state) == [.parked, .paused, .waiting, .transferring, .waiting])
        let counts = QueueCounts(fastWaiting: 1, fastRunning: 1, slowWaiting: 1, slowRunning: 1, parked: 1)
        #expect(test.cache.queueCounts == counts)
        // What is cancelled leaves its queue, or stops.
        for task in tasks {
            task.cancel()
            #expect(await task.error == .cancelled)
        }
        for transfer in test.transport.transfers { try await transfer.wait { $0.isCancelled } }
        await test.cache.idle()
        #expect(test.cache.queueCounts == QueueCounts())
        #expect(tasks.allSatisfy { $0.state == .failed(.cancelled) })
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
            let request = DataRequest(url(name)).with(\.priority, priority)
            if queue == .fast { test.cache.getData(request) } else { test.cache.slowGetData(request) }
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

    @Test("Limits of a queue and of its hosts may change while fetches wait, and a lower one stops no fetch that runs")
    func limitsChange() async throws {
        let journal = Journal()
        let test = TestCache {
            $0.fastQueue = QueueConfiguration(maxConcurrent: 9, maxPerHost: 1)
            $0.eventSinks.append(journal)
        }
        for name in ["a1", "a2", "a3", "a4", "b1"] {
            test.cache.getData(DataRequest(string: "http://\(name.prefix(1)).test/\(name)"))
        }
        try await journal.wait(for: 2)
        test.cache.fastQueue = QueueConfiguration(maxConcurrent: 4, maxPerHost: 2)
        try await journal.wait(for: 3)
        test.cache.fastQueue.maxPerHost = nil
        try await journal.wait(for: 4)
        test.cache.fastQueue.maxConcurrent = 1
        #expect(test.cache.fastQueue == QueueConfiguration(maxConcurrent: 1))
        #expect(test.transport.transfers.allSatisfy { !$0.isCancelled && !$0.isThrottled })
        await test.answerAll()
        #expect(journal.lines.prefix(4) == ["+a1", "+b1", "+a2", "+a3"])
        #expect(journal.lines.suffix(2) == ["+a4", "-a4"])
    }

    @Test("A suspended queue lets running fetches go on, starts nothing, and goes on when it is released")
    func suspended() async throws {
        let test = TestCache()
        for queue in [FetchQueue.fast, .slow] {
            func suspend(_ isSuspended: Bool) {
                if queue == .fast {
                    test.cache.fastQueue.isSuspended = isSuspended
                } else {
                    test.cache.slowQueue.isSuspended = isSuspended
                }
            }
            func call(_ name: String) -> DataTask {
                let target = url("\(queue) \(name)".filter(\.isLetter))
                return queue == .fast ? test.cache.getData(target) : test.cache.slowGetData(target)
            }
            let running = call("running")
            let transfer = try await test.transport.nextTransfer()
            suspend(true)
            let waiting = call("waiting")
            transfer.finish(with: Data())
            #expect(await running.error == nil)
            #expect(waiting.state == .waiting)
            // The other queue goes on, unless it waits for this one as ever.
            if queue == .slow {
                let urgent = test.cache.getData(url("urgent"))
                try await test.transport.nextTransfer().finish(with: Data())
                #expect(await urgent.error == nil)
            }
            suspend(false)
            try await test.transport.nextTransfer().finish(with: Data())
            #expect(await waiting.error == nil)
        }
    }

    // MARK: maxPause

    @Test("With maxPause one prefetch at a time runs beside urgent work, each after that wait")
    func maxPause() async throws {
        let journal = Journal()
        let test = TestCache {
            $0.slowQueue.maxPause = .seconds(5)
            $0.eventSinks.append(journal)
        }
        test.cache.getData(url("u"))
        let urgent = try await test.transport.nextTransfer()
        for name in ["s1", "s2"] { test.cache.slowGetData(url(name)) }
        for name in ["s1", "s2"] {
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(5))
            let slow = try await test.transport.nextTransfer()
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
}
