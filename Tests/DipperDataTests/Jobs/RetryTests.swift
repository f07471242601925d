import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Failure, retry, parking", .timeLimit(.minutes(5)))
struct RetryTests {
    @Test("a failure that cannot pass is requested once", arguments: [400, 401, 403, 404, 410, 451, 304])
    func fatalStatus(status: Int) async {
        let test = TestCache()
        test.transport.script(url("a"), [.status(status)])
        let heard = Box<[Bool]>([])
        let task = test.cache.getData(url("a")).onFail { _, isFatal in heard.update { $0.append(isFatal) } }
        #expect(await task.error == .status(status))
        #expect(await settle { heard.value == [true] })
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test(
        "a failure that may pass is retried",
        arguments: [
            DipperError.unreachable, .hostNotFound, .connectionFailed, .connectionLost, .truncated, .timedOut,
            .status(408), .status(425), .status(429), .status(500), .status(503), .status(599),
        ])
    func mayPass(error: DipperError) async throws {
        let test = TestCache()
        let failure: ScriptedTransport.Step = error.status.map { .status($0) } ?? .failure(error)
        test.transport.script(url("a"), [failure, .body(Data("x".utf8))])
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(5))))
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .milliseconds(4_999))
        #expect(test.transport.transfers.count == 1)
        test.clock.advance(by: .milliseconds(1))
        #expect(try await task.response.attempts == 2)
        await test.cache.shutdown()
    }

    @Test(
        "errors that cannot pass",
        arguments: [
            DipperError.tlsRejected, .tooLarge, .tooManyRedirects, .malformedResponse, .unsupportedScheme, .invalidURL,
        ])
    func fatalErrors(error: DipperError) async {
        let test = TestCache()
        test.transport.script(url("a"), [.failure(error)])
        #expect(await test.cache.getData(url("a")).error == error)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }

    @Test("after its retries a failure is fatal, and slowQueue goes on meanwhile")
    func retriesEnd() async throws {
        let test = TestCache()
        test.transport.script(url("a"), [.status(500)])
        test.transport.script(url("s"), [.body(Data())])
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1), retries: 2)))
        _ = try await test.cache.slowGetData(url("s")).value
        for _ in 0..<2 {
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(1))
        }
        #expect(await task.error == .status(500))
        #expect(test.transport.transfers(of: url("a")).count == 3)
        await test.cache.shutdown()
    }

    @Test("with no network an urgent get parks, and gets its bytes when the network returns")
    func networkReturns() async throws {
        let test = TestCache()
        test.network.isUp = false
        let heard = Box<[String]>([])
        let task = test.cache.getData(url("a"))
        task.onFail { error, isFatal in heard.update { $0.append("fail \(isFatal)") } }
        task.onRetry { heard.update { $0.append("retry") } }
        #expect(await settle { task.state == .parked })
        #expect(test.transport.transfers.isEmpty, "nothing is asked where there is no way")
        #expect(await settle { heard.value == ["fail false"] })
        let sleepers = test.clock.sleeperCount
        test.network.isUp = true
        try await test.clock.waitForSleepers(max(1, sleepers))
        test.clock.advance(by: .milliseconds(10))
        try await test.transport.nextTransfer().finish(with: Data("x".utf8))
        #expect(try await task.value == Data("x".utf8))
        #expect(await settle { heard.value == ["fail false", "retry"] })
        await test.cache.shutdown()
    }

    @Test("the loss of the network is no failure that counts")
    func lossIsNoFailure() async throws {
        let test = TestCache()
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1), retries: 1)))
        let first = try await test.transport.nextTransfer()
        test.network.isUp = false
        first.fail(with: .connectionLost)
        try #require(await settle { task.state == .parked })
        test.network.isUp = true
        for count in 2...3 {
            try #require(
                await settle {
                    test.clock.advance(by: .milliseconds(10))
                    return test.transport.transfers.count == count || task.state == .failed(.status(503))
                })
            if count == 2 { try await test.transport.nextTransfer().finish(with: Data(), status: 503) }
        }
        try #require(test.transport.transfers.count == 3, "the first failure has been counted")
        test.transport.transfers.last?.finish(with: Data("x".utf8))
        #expect(await task.error == nil)
        await test.cache.shutdown()
    }

    @Test("waiting for the network ends with the policy's deadline")
    func networkDeadline() async throws {
        let test = TestCache()
        test.network.isUp = false
        var policy = RetryPolicy.default
        policy.deadline = .seconds(60)
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, policy))
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(59))
        #expect(task.state == .parked)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        #expect(await task.error == .unreachable)
        await test.cache.shutdown()
    }

    @Test("without retries also the want of a network is fatal")
    func noneIsNone() async {
        let test = TestCache()
        test.network.isUp = false
        let task = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .never))
        #expect(await task.error == .unreachable)
        #expect(test.transport.transfers.isEmpty)
        await test.cache.shutdown()
    }

    @Test("each call keeps its own policy: one gives up, the other goes on with the same job")
    func policiesOfJoiners() async throws {
        let test = TestCache()
        let hasty = test.cache.getData(DataRequest(url("a")).with(\.retryPolicy, .never))
        let patient = test.cache.slowGetData(DataRequest(url("a")).with(\.retryPolicy, .fixed(.seconds(1))))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        #expect(await hasty.error == .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        let second = try await test.transport.nextTransfer()
        #expect(second.request.queue == .slow)
        second.finish(with: Data())
        _ = try await patient.value
        await test.cache.shutdown()
    }

    @Test("Retry-After is waited for, in seconds and as a date; one that asks too much ends the call")
    func retryAfter() async throws {
        let test = TestCache()
        let date = test.date.now.addingTimeInterval(20)
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        for (value, wait) in [("7", 7), (formatter.string(from: date), 20)] {
            let target = url("a\(wait)")
            test.transport.script(target, [.status(503, ["Retry-After": value]), .body(Data())])
            let task = test.cache.getData(DataRequest(target).with(\.retryPolicy, .fixed(.zero)))
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(wait) - .milliseconds(1))
            #expect(test.transport.transfers(of: target).count == 1)
            test.clock.advance(by: .milliseconds(1))
            #expect(try await task.response.attempts == 2)
        }
        test.transport.script(url("long"), [.status(503, ["Retry-After": "86400"])])
        #expect(await test.cache.getData(url("long")).error == .status(503))
        await test.cache.shutdown()
    }

    @Test("the delays of each policy")
    func delays() {
        func delays(_ policy: RetryPolicy, unit: Double = 0.5) -> [Duration?] {
            (1...4).map {
                policy.delay(
                    after: .init(failures: $0, error: .connectionLost, elapsed: .zero), unit: unit)
            }
        }
        #expect(delays(.never) == [nil, nil, nil, nil])
        #expect(delays(.fixed(.seconds(2))) == [.seconds(2), .seconds(2), .seconds(2), nil])
        #expect(delays(.accumulated(.seconds(2))) == [.seconds(2), .seconds(4), .seconds(6), nil])
        #expect(
            delays(.exponential(base: .seconds(4), cap: .seconds(10), retries: 9), unit: 0.5)
                == [.seconds(2), .seconds(4), .seconds(5), .seconds(5)])
        #expect(delays(.exponential(), unit: 0) == [.zero, .zero, .zero, nil])
        #expect(
            delays(.custom { $0.failures < 3 ? .seconds($0.failures) : nil }) == [.seconds(1), .seconds(2), nil, nil])
        var short = RetryPolicy.fixed(.seconds(10), retries: nil)
        short.deadline = .seconds(25)
        #expect(
            short.delay(after: .init(failures: 9, error: .timedOut, elapsed: .seconds(15)), unit: 0) == .seconds(10))
        #expect(short.delay(after: .init(failures: 9, error: .timedOut, elapsed: .seconds(16)), unit: 0) == nil)
    }

    @Test("Retry-After in all forms of RFC 9110; anything else is nothing")
    func retryAfterForms() {
        let now = Date(timeIntervalSince1970: 784_111_767)  // ten seconds before the dates below
        for text in [
            "10", " 10 ", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ] {
            #expect(RetryAfter.delay(from: text, now: now) == .seconds(10), "\(text)")
        }
        #expect(RetryAfter.delay(from: "Sun, 06 Nov 1994 08:49:00 GMT", now: now) == .zero)
        #expect(RetryAfter.delay(from: "99999999999999999999999", now: now) == .seconds(1_000_000_000))
        for text in ["", "-1", "soon", "1.5", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            #expect(RetryAfter.delay(from: text, now: now) == nil, "\(text)")
        }
    }

    @Test("a time limit counts from the first attempt, over retries, and not while the job waits or is held back")
    func timeLimit() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let busy = test.cache.getData(url("busy"))
        let limited = test.cache.getData(
            DataRequest(url("a")).with(\.timeout, .seconds(10)).with(\.retryPolicy, .fixed(.seconds(4))))
        let busyTransfer = try await test.transport.nextTransfer()
        test.clock.advance(by: .seconds(100))
        #expect(limited.state == .waiting)
        busyTransfer.finish(with: Data())
        _ = try await busy.value
        let first = try await test.transport.nextTransfer()
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(5))
        first.fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(4))
        _ = try await test.transport.nextTransfer()
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        #expect(await limited.error == .timedOut)
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("the wait for a place after a back-off does not use up the time limit")
    func timeLimitAfterBackOff() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let limited = test.cache.slowGetData(
            DataRequest(url("s")).with(\.timeout, .seconds(10)).with(\.retryPolicy, .fixed(.seconds(1))))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        let urgent = test.cache.getData(url("u"))
        let urgentTransfer = try await test.transport.nextTransfer()
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        // Its back-off is over when the queue has it again.
        try #require(await settle { test.cache.queueCounts.slowWaiting > 0 })
        // The time limit is stopped by the clock's thread, a little after the queue has the job.
        await test.cache.engine.finishCarryingOut()
        test.clock.advance(by: .seconds(100))
        urgentTransfer.finish(with: Data())
        _ = try await urgent.value
        try await test.transport.nextTransfer().finish(with: Data())
        _ = try await limited.value
        await test.cache.shutdown()
    }

    @Test("a prefetch held back for urgent work does not use up its time limit")
    func heldBackTimeLimit() async throws {
        let test = TestCache()
        let slow = test.cache.slowGetData(DataRequest(url("s")).with(\.timeout, .seconds(10)))
        let slowTransfer = try await test.transport.nextTransfer()
        try await test.clock.waitForSleepers(1)
        let urgent = test.cache.getData(url("u"))
        let urgentTransfer = try await test.transport.nextTransfer()
        test.clock.advance(by: .seconds(60))
        try await test.clock.waitForSleepers(1)
        #expect(slow.state == .paused)
        urgentTransfer.finish(with: Data())
        _ = try await urgent.value
        slowTransfer.finish(with: Data())
        _ = try await slow.value
        await test.cache.shutdown()
    }

    @Test("a thousand parked jobs do not wake in one instant")
    func wakeUp() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 2_000 }
        test.network.isUp = false
        let tasks = (0..<1_000).map { test.cache.getData(url("\($0)")) }
        #expect(await settle { test.cache.queueCounts.parked == 1_000 })
        test.network.isUp = true
        // The clock must stand still until each job has its time, which the engine's thread gives to most of them.
        await test.cache.engine.finishCarryingOut()
        var instants = Set<ManualClock.Instant>()
        for _ in tasks {
            try await test.clock.waitForSleepers(1)
            test.clock.advanceToNextSleeper()
            try await test.transport.nextTransfer().finish(with: Data())
            instants.insert(test.clock.now)
        }
        #expect(instants.count == 1_000, "no two at a time")
        #expect(test.transport.transfers.count == 1_000, "each is requested once")
        for task in tasks { _ = try await task.value }
        await test.cache.shutdown()
    }
}
