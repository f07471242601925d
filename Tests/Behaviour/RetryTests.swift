import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Failures and retries", .timeLimit(.minutes(2)))
struct RetryTests {
    private let test = TestCache()
    private let a = url("a")

    /// A cache whose requests for `/a` all fail, and the seconds at which they are sent.
    private func seconds(
        _ policy: RetryPolicy?, _ steps: [ScriptedTransport.Step] = [.failure(.connectionLost)],
        at date: ManualDate = ManualDate()
    ) async -> [Double] {
        let journal = Journal()
        let test = TestCache(date: date) { $0.eventSinks.append(journal) }
        test.transport.script(a, steps)
        test.cache.getData(DataRequest(a).with(\.retryPolicy, policy))
        await test.whileClockRuns { await test.cache.idle() }
        await test.cache.shutdown()
        return journal.seconds
    }

    // MARK: Which failures

    @Test(
        "A failure that cannot pass ends the call after one request",
        arguments: [
            DipperError.tlsRejected, .tooLarge, .tooManyRedirects, .malformedResponse, .unsupportedScheme, .invalidURL,
            .status(400), .status(401), .status(403), .status(404), .status(410), .status(451), .status(304),
        ])
    func fatal(error: DipperError) async {
        test.transport.script(a, [.failing(error)])
        let task = test.cache.getData(a)
        let failures = task.failures()
        #expect(await task.error == error)
        await test.cache.idle()
        #expect(failures.value.map { $0.hasPrefix("fatal ") } == [true])
        #expect(test.transport.transfers.count == 1)
    }

    @Test(
        "A failure that may pass is tried again after the wait of its policy",
        arguments: [
            DipperError.unreachable, .hostNotFound, .connectionFailed, .connectionLost, .truncated, .timedOut,
            .status(408), .status(425), .status(429), .status(500), .status(503), .status(599),
        ])
    func mayPass(error: DipperError) async throws {
        #expect(await seconds(.fixed(.seconds(5)), [.failing(error), .body(Data())]) == [0, 5])
    }

    // MARK: When

    private static let short: RetryPolicy = {
        var policy = RetryPolicy.fixed(.seconds(10), retries: nil)
        policy.deadline = .seconds(25)
        return policy
    }()

    @Test(
        "Each policy has its own times, and its end",
        arguments: [
            (RetryPolicy.never, [0.0]), (.fixed(.seconds(2)), [0, 2, 4, 6]), (.fixed(.zero, retries: 1), [0, 0]),
            (.accumulated(.seconds(2)), [0, 2, 6, 12]), (short, [0, 10, 20]),
            (.custom { $0.failures < 3 ? .seconds($0.failures) : nil }, [0, 1, 3]),
            (.custom { $0.error == .connectionLost && $0.elapsed < .seconds(4) ? .seconds(3) : nil }, [0, 3, 6]),
        ])
    func policies(policy: RetryPolicy, expected: [Double]) async {
        #expect(await seconds(policy) == expected)
    }

    @Test("A rule of the program's own is asked about every failure, and may take its time")
    func ownRule() async throws {
        let asked = Box<[DipperError]>([])
        let gate = Gate()
        test.transport.script(a, [.status(401), .status(404), .text("here")])
        let policy = RetryPolicy.custom { context in
            asked.update { $0.append(context.error) }
            if context.error == .status(401) { await gate.pass() }
            return context.failures < 3 ? .zero : nil
        }
        let task = test.cache.getData(DataRequest(a).with(\.retryPolicy, policy).with(\.timeout, .seconds(5)))
        try await gate.waitForArrival()
        // The time limit stands still while the rule thinks.
        test.clock.advance(by: .seconds(60))
        let joined = test.cache.getData(a)
        gate.open()
        // The call that has joined has another policy.
        #expect(await joined.error == .status(401))
        #expect(try await task.value == Data("here".utf8))
        #expect(asked.value == [.status(401), .status(404)])
    }

    @Test("While a rule of the program's own thinks, others end and the fetch takes no place")
    func slowRule() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let gates = [Gate(), Gate()]
        let asked = Box(0)
        let policy = RetryPolicy.custom { _ in
            await gates[asked.increment() - 1].pass()
            return .zero
        }
        let request = DataRequest(a).with(\.retryPolicy, policy)
        let (task, first) = try await test.begin(request)
        let plain = test.cache.getData(a)
        let next = test.cache.getData(url("next"))
        first.finish(with: Data(), status: 404)
        #expect(await plain.error == .status(404))
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == url("next"))
        second.finish(with: Data("next".utf8))
        #expect(try await next.value == Data("next".utf8))
        gates[0].open()
        try await test.transport.nextTransfer().finish(with: Data("here".utf8))
        #expect(try await task.value == Data("here".utf8))
        let (cancelled, last) = try await test.begin(request.with(\.cachePolicy, .ignoreCache))
        last.finish(with: Data(), status: 404)
        try await gates[1].waitForArrival()
        cancelled.cancel()
        #expect(await cancelled.error == .cancelled)
        await test.cache.idle()
        gates[1].open()
    }

    @Test("By default a failure is tried again three times, within half a second, a second and two")
    func byDefault() async {
        let times = await seconds(nil)
        #expect(times.count == 4)
        for (wait, bound) in zip(zip(times.dropFirst(), times).map { $0 - $1 }, [0.5, 1, 2]) {
            #expect((0...bound).contains(wait))
        }
    }

    @Test("An exponential back-off waits at random, up to a bound that doubles each time and has a limit")
    func jitter() async {
        var longest = [0.0, 0, 0, 0]
        for _ in 0..<100 {
            let times = await seconds(.exponential(base: .seconds(4), cap: .seconds(10), retries: 4))
            #expect(times.count == 5)
            let waits = zip(times.dropFirst(), times).map { $0 - $1 }
            for (wait, bound) in zip(waits, [4.0, 8, 10, 10]) { #expect((0...bound).contains(wait)) }
            #expect(Set(waits).count == 4, "\(waits)")
            longest = zip(longest, waits).map(max)
        }
        for (wait, bound) in zip(longest, [2.0, 4, 8, 8]) { #expect(wait > bound, "\(longest)") }
    }

    @Test(
        "Retry-After is waited for, in every form of RFC 9110; anything else is not heard",
        arguments: [
            // HTTPDateTests has what is a date.
            ("10", 10.0), (" 10 ", 10), ("Sun, 06 Nov 1994 08:49:37 GMT", 10), ("Sun Nov  6 08:49:37 1994", 10),
            ("Sun, 06 Nov 1994 08:49:00 GMT", 1), ("0", 1), ("", 1), ("-1", 1), ("soon", 1), ("1.5", 1),
        ])
    func retryAfter(value: String, wait: Double) async {
        let now = ManualDate(Date(timeIntervalSince1970: 784_111_767))  // ten seconds before 08:49:37
        let busy = ScriptedTransport.Step.status(503, ["Retry-After": value])
        #expect(await seconds(.fixed(.seconds(1)), [busy, .body(Data())], at: now) == [0, wait])
    }

    @Test(
        "A Retry-After that is longer than the policy allows ends the call",
        arguments: ["86400", "99999999999999999999"])
    func longRetryAfter(value: String) async {
        #expect(await seconds(.default, [.status(503, ["Retry-After": value])]) == [0])
        var patient = RetryPolicy.fixed(.zero, retries: 1)
        patient.maxRetryAfter = .seconds(300)
        #expect(await seconds(patient, [.status(503, ["Retry-After": "300"])]) == [0, 300])
    }

    // MARK: Beside others

    @Test("A call that waits to try again holds no slot, and prefetches go on meanwhile")
    func slotIsFree() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        for name in ["s", "u"] { test.transport.script(url(name), [.body(Data())]) }
        let (waiting, transfer) = try await test.begin(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1))))
        transfer.fail(with: .status(503))
        try await waiting.waitForFailures()
        _ = try await test.cache.slowGetData(url("s")).value
        _ = try await test.cache.getData(url("u")).value
        #expect(test.cache.queueCounts == QueueCounts(parked: 1))
        await test.answerAll()
        #expect(await waiting.error == nil)
        #expect(waiting.attempts == 2)
    }

    @Test("Each call keeps its own policy: one gives up, and the fetch goes on for the other, in its queue")
    func policiesOfJoiners() async throws {
        let hasty = test.cache.getData(DataRequest(a).with(\.retryPolicy, .never))
        let patient = test.cache.slowGetData(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(3))))
        let hastier = test.cache.slowGetData(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(2), retries: 1)))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        #expect(await hasty.error == .connectionLost)
        try await patient.waitForFailures()
        let second = try await test.nextTransfer(after: .seconds(2))
        #expect(second.request.queue == .slow)
        second.fail(with: .connectionLost)
        #expect(await hastier.error == .connectionLost)
        await test.answerAll()
        #expect(await patient.error == nil)
        #expect(test.transport.transfers.count == 3)
    }

    // MARK: Time limits

    @Test("A time limit counts from the first attempt: the wait for a slot does not count")
    func queueDoesNotCount() async throws {
        let ends = EventRecord()
        let test = TestCache {
            $0.fastQueue.maxConcurrent = 1
            $0.eventSinks.append(ends)
        }
        let (_, busy) = try await test.begin(url("busy"))
        let limited = test.cache.getData(DataRequest(a).with(\.timeout, .seconds(10)))
        #expect(limited.state == .waiting)
        test.clock.advance(by: .seconds(100))
        busy.finish(with: Data())
        let transfer = try await test.transport.nextTransfer()
        await test.whileClockRuns { _ = await limited.error }
        #expect(await limited.error == .timedOut)
        #expect(transfer.isCancelled)
        let end = ends.events.last { $0.kind == .callFailed(.timedOut) }
        #expect(end?.time == .seconds(110))
    }

    @Test("A time limit includes retries and the waits before them, and no attempt begins that would come too late")
    func retriesCount() async throws {
        let request = DataRequest(a).with(\.timeout, .seconds(10)).with(\.retryPolicy, .fixed(.seconds(4)))
        let limited = test.cache.getData(request)
        let failures = limited.failures()
        for count in 1...3 {
            try await test.transport.nextTransfer().fail(with: .connectionLost)
            try await failures.wait { $0.count == count }
            try await test.clock.waitForSleepers(count < 3 ? 1 : 0)
            test.clock.advance(by: .seconds(4))
        }
        #expect(await limited.error == .connectionLost, "the next attempt would begin after 12 s")
        #expect(test.transport.transfers.count == 3)
    }

    @Test("The wait for a slot after a failure does not count towards the time limit")
    func slotAfterFailure() async throws {
        let record = EventRecord()
        let test = TestCache { $0.eventSinks.append(record) }
        let request = DataRequest(url("s")).with(\.timeout, .seconds(10)).with(\.retryPolicy, .fixed(.seconds(1)))
        let (limited, first) = try await test.begin(request, in: .slow)
        first.fail(with: .connectionLost)
        try await limited.waitForFailures()
        let (_, urgent) = try await test.begin(url("u"))
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .seconds(1))
        try await record.wait { $0.count { $0.kind == .queued(.slow) } == 2 }
        test.clock.advance(by: .seconds(100))
        urgent.finish(with: Data())
        try await test.transport.nextTransfer().finish(with: Data())
        #expect(await limited.error == nil)
    }
}
