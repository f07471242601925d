import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("Who carries out what, and what is left behind", .timeLimit(.minutes(5)))
struct EngineTurnTests {
    @Test("a caller's thread carries out for others for a while only")
    func boundedTurn() async throws {
        struct Seen {
            var first: pthread_t?
            var count = 0
            var others = 0
        }
        let seen = Mutex(Seen())
        let begun = DispatchSemaphore(value: 0)
        let goOn = DispatchSemaphore(value: 0)
        let test = TestCache { configuration in
            configuration.observe { event in
                // Changes of jobs are told by whoever carries out.
                guard case .queued = event.kind else { return }
                let isFirst = seen.withLock { seen in
                    let isFirst = seen.first == nil
                    if isFirst { seen.first = pthread_self() }
                    if seen.first == pthread_self() { seen.count += 1 } else { seen.others += 1 }
                    return isFirst
                }
                guard isFirst else { return }
                begun.signal()
                goOn.wait()
            }
        }
        let returned = DispatchSemaphore(value: 0)
        let end = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            test.cache.slowGetData(url("first"))
            returned.signal()
            // Another thread must not get its name.
            end.wait()
        }
        await wait(begun)
        for number in 0..<5_000 { test.cache.slowGetData(url("\(number)")) }
        goOn.signal()
        // It returns although there is more to carry out, which others then do.
        await wait(returned)
        #expect(await settle { seen.withLock { $0.count + $0.others } == 5_001 })
        #expect(seen.withLock { $0.count } <= 200)
        end.signal()
        await test.cache.shutdown()
    }

    private func wait(_ semaphore: DispatchSemaphore) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                semaphore.wait()
                continuation.resume()
            }
        }
    }

    @Test("a caller's thread calls closures in place at the end of its turn, and those of its turn only")
    func boundedEnds() async throws {
        struct Seen {
            var first: pthread_t?
            var byFirst = 0
            var byOthers = 0
        }
        let seen = Mutex(Seen())
        let (caller, others) = (Door(), Door())
        let test = TestCache { configuration in
            configuration.callbackQueue = .inPlace
            configuration.observe { event in
                if event.key == CacheKey(url("first")), case .queued = event.kind {
                    seen.withLock { $0.first = pthread_self() }
                    caller.pass()
                } else if seen.withLock({ $0.first != nil && $0.first != pthread_self() }) {
                    others.pass()
                }
            }
        }
        let tasks = (0..<5_000).map { number in
            test.cache.slowGetData(url("\(number)")).onEnd { _ in
                seen.withLock { seen in
                    if seen.first == pthread_self() { seen.byFirst += 1 } else { seen.byOthers += 1 }
                }
            }
        }
        let (returned, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            test.cache.slowGetData(url("first"))
            returned.signal()
            // Another thread must not get its name.
            end.wait()
        }
        try #require(await settle { caller.arrivals == 1 })
        for task in tasks { task.cancel() }
        caller.open()
        // It returns while all else stands still.
        await wait(returned)
        #expect((1...test.cache.engine.options.turn).contains(seen.withLock { $0.byFirst }))
        #expect(seen.withLock { $0.byOthers } == 0)
        others.open(50_000)
        #expect(await settle { seen.withLock { $0.byFirst + $0.byOthers } == 5_000 })
        end.signal()
        await test.cache.shutdown()
    }

    @Test("shutting down returns when all tasks have ended, however many there are")
    func shutdown() async {
        let test = TestCache()
        let ended = Box(0)
        for number in 0..<5_000 {
            test.cache.slowGetData(url("\(number)")).onEnd { _ in ended.update { $0 += 1 } }
        }
        await test.cache.shutdown()
        #expect(await settle { ended.value == 5_000 })
        #expect(test.cache.queueCounts == QueueCounts())
    }

    // MARK: Timers

    @Test("the timers of calls that have ended are not kept until they are due")
    func timers() async throws {
        let test = TestCache { $0.timeout = .seconds(86_400) }
        let timers = test.cache.engine.timers
        for number in 0..<100 {
            test.transport.script(url("\(number)"), [.body(Data())])
            _ = try await test.cache.getData(url("\(number)")).value
        }
        #expect(timers.count == 0)
        // A long back-off, and patience with a network that does not return.
        let policy = RetryPolicy.fixed(.seconds(3_600), retries: 3)
        let parked = test.cache.getData(DataRequest(url("parked")).with(\.retryPolicy, policy))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        #expect(timers.count == 2)
        parked.cancel()
        #expect(timers.count == 0)
        await test.cache.shutdown()
    }

    @Test("what is cancelled is freed at once and never runs; what is due runs in order")
    func timerQueue() async throws {
        let clock = ManualClock()
        let timers = TimerQueue(TimeSource(clock))
        let ran = Box<[Int]>([])
        var ids: [TimerQueue.ID] = []
        for number in 0..<1_000 {
            ids.append(timers.schedule(after: .seconds(1 + number)) { ran.update { $0.append(number) } })
        }
        for (number, id) in ids.enumerated() where number % 10 != 0 { timers.cancel(id) }
        #expect(timers.count == 100)
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(2_000))
        #expect(await settle { ran.value.count == 100 })
        #expect(ran.value == (0..<100).map { $0 * 10 })
        timers.cancel(ids[0])
        timers.end()
    }

    @Test("timers that are due together no longer run once one of them has cancelled them or ended the queue")
    func timersDueTogether() async throws {
        let clock = ManualClock()
        let timers = TimerQueue(TimeSource(clock))
        let ran = Box<[Int]>([])
        let cancelled = Box<TimerQueue.ID?>(nil)
        timers.schedule(after: .seconds(1)) {
            ran.update { $0.append(0) }
            if let id = cancelled.value { timers.cancel(id) }
        }
        let second = timers.schedule(after: .seconds(1)) { ran.update { $0.append(1) } }
        cancelled.update { $0 = second }
        timers.schedule(after: .seconds(1)) {
            ran.update { $0.append(2) }
            timers.end()
        }
        timers.schedule(after: .seconds(1)) { ran.update { $0.append(3) } }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        #expect(await settle { ran.value.contains(2) })
        #expect(await stays { ran.value == [0, 2] })
    }

    // MARK: Revalidation

    @Test("however many calls find an answer out of date, one fetch at a time renews it")
    func oneRevalidation() async throws {
        let test = TestCache()
        let a = url("a")
        let fields: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=1000"]
        test.transport.script(a, [.text("1", fields), .silence])
        _ = try await test.cache.getData(a).value
        test.date.advance(by: 20)
        var renewing: Set<ObjectIdentifier> = []
        for _ in 0..<1_000 {
            let response = try await test.cache.getData(a).response
            #expect(response.source == .stale)
            renewing.insert(ObjectIdentifier(try #require(response.revalidation)))
        }
        #expect(renewing.count == 1)
        let job = try #require(test.cache.engine.inspect { $0.job(for: CacheKey(a)) })
        #expect(test.cache.engine.inspect { $0.waiters(of: job).count } == 1)
        let held = test.cache.getData(a)
        try #require(test.transport.transfers.count == 2)
        test.transport.transfers[1].finish(with: Data("2".utf8), headers: fields)
        let newer = try #require(try await held.response.revalidation)
        #expect(try await String(decoding: newer.value, as: UTF8.self) == "2")
        #expect(try await Told(test.cache.getData(a).response) == Told("2", .memory))
        #expect(test.transport.transfers.count == 2)
        #expect(test.cache.engine.revalidations.isEmpty)
        // The next time it is out of date it is renewed again.
        test.date.advance(by: 20)
        #expect(try await test.cache.getData(a).response.revalidation != nil)
        await test.cache.shutdown()
        #expect(test.cache.engine.revalidations.isEmpty)
    }

    // MARK: Bytes in flight

    @Test("transfers hold no more than the budget: beyond it one goes on, and urgent calls wait")
    func inFlight() async throws {
        let test = TestCache { $0.inFlightLimit = 1_000 }
        let tasks = ["a", "b", "c"].map { test.cache.getData(url($0)) }
        var transfers: [ScriptedTransfer] = []
        for _ in 0..<3 { transfers.append(try await test.transport.nextTransfer()) }
        for transfer in transfers { transfer.send(progress: 300, of: 2_000) }
        #expect(transfers.allSatisfy { !$0.isThrottled })
        transfers[1].send(progress: 500, of: 2_000)
        #expect(await settle { transfers.map(\.isThrottled) == [false, true, true] })
        let waiting = test.cache.getData(url("d"))
        #expect(test.transport.transfers.count == 3 && waiting.state == .waiting && tasks[1].state == .paused)
        // Larger than the whole budget.
        transfers[0].send(progress: 2_000, of: 2_000)
        transfers[0].finish(with: Data(count: 2_000))
        #expect(await settle { transfers.map(\.isThrottled) == [false, false, true] })
        transfers[1].finish(with: Data(count: 500))
        #expect(await settle { !transfers[2].isThrottled })
        let last = try await test.transport.nextTransfer()
        last.fail(with: .rejected)
        transfers[2].finish(with: Data(count: 300))
        for task in tasks { _ = try await task.value }
        #expect(await waiting.error == .rejected)
        #expect(test.cache.engine.bodies.used == 0)
        await test.cache.shutdown()
    }
}
