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
        let test = TestCache(date: date, sink: journal)
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

    @Test(
        "A target without a route, to which a redirect or a modifier leads, is a failed attempt, not a lack of network")
    func unreachableTarget() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero, retries: 2) }
        test.network.setReachable(false, host: "lost.test")
        test.transport.script(a, [.redirect("http://lost.test/x")])
        #expect(await test.cache.getData(a).error == .unreachable)
        #expect(test.transport.transfers.count == 3)
        test.transport.script(URL(string: "http://lost.test/x")!, [.failure(.connectionFailed)])
        let modifier = RequestModifier.changing { $0.url = URL(string: "http://lost.test/x")! }
        #expect(
            await test.cache.getData(DataRequest(url("b")).with(\.modifier, modifier)).error == .connectionFailed)
        // With no network at all the call waits.
        test.network.isUp = false
        let task = test.cache.getData(a)
        try await task.waitForFailures()
        #expect(task.state == .parked)
        task.cancel()
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

    @Test(
        "An exponential back-off, as by default, waits at random, up to bounds that double and have a limit",
        arguments: [
            (nil, [0.5, 1, 2]), (.exponential(base: .seconds(4), cap: .seconds(10), retries: 4), [4, 8, 10, 10]),
        ] as [(RetryPolicy?, [Double])])
    func backOff(policy: RetryPolicy?, bounds: [Double]) async {
        var longest = bounds.map { _ in 0.0 }
        for _ in 0..<100 {
            let times = await seconds(policy)
            let waits = zip(times.dropFirst(), times).map { $0 - $1 }
            #expect(waits.count == bounds.count && zip(waits, bounds).allSatisfy { (0...$1).contains($0) }, "\(waits)")
            #expect(Set(waits).count == bounds.count, "\(waits)")
            longest = zip(longest, waits).map(max)
        }
        #expect(zip(longest, bounds).allSatisfy { $0 > $1 * 0.8 }, "\(longest)")
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
        let test = TestCache(sink: ends) { $0.fastQueue.maxConcurrent = 1 }
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
        let test = TestCache(sink: record)
        let request = DataRequest(url("s")).with(\.timeout, .seconds(10)).with(\.retryPolicy, .fixed(.seconds(1)))
        let (limited, first) = try await test.begin(request, in: .slow)
        first.fail(with: .connectionLost)
        try await limited.waitForFailures()
        let (_, urgent) = try await test.begin(url("u"))
        try await test.clock.wake(after: .seconds(1))
        try await record.wait { $0.count { $0.kind == .queued(.slow) } == 2 }
        test.clock.advance(by: .seconds(100))
        urgent.finish(with: Data())
        try await test.transport.nextTransfer().finish(with: Data())
        #expect(await limited.error == nil)
    }

    // MARK: Without a network

    @Test("A call waits for the network without a request, tells of its wait, and begins when the network returns")
    func networkReturns() async throws {
        test.network.isUp = false
        let heard = Box<[String]>([])
        let task = test.cache.getData(a)
        task.onFail { error, isFatal in heard.update { $0.append("\(error) \(isFatal)") } }
            .onRetry { heard.update { $0.append("retry") } }
        try await task.waitForFailures()
        #expect(task.state == .parked && task.attempts == 0)
        #expect(test.transport.transfers.isEmpty)
        let joined = test.cache.slowGetData(a)
        try await joined.waitForFailures()
        test.network.isUp = true
        await test.answerAll()
        for task in [task, joined] { #expect(await task.error == nil) }
        #expect(heard.value == ["network unreachable false", "retry"])
        #expect(test.transport.transfers.count == 1)
    }

    @Test("The loss of the network during a transfer is not a failure that counts")
    func lossDoesNotCount() async throws {
        let (task, first) = try await test.begin(DataRequest(a).with(\.retryPolicy, .fixed(.seconds(1), retries: 1)))
        test.network.isUp = false
        first.fail(with: .connectionLost)
        try await task.waitForFailures()
        test.transport.script(a, [.status(503), .text("here")])
        test.network.isUp = true
        await test.whileClockRuns { await test.cache.idle() }
        #expect(try await task.value == Data("here".utf8))
        #expect(test.transport.transfers.count == 3)
    }

    @Test("A transfer that stands still after its host has become unreachable gives up and begins anew later")
    func standsStill() async throws {
        let (task, transfer) = try await test.begin(a)
        test.network.setReachable(false, host: "host.test")
        try await test.clock.wake()
        try await transfer.wait { $0.isCancelled }
        #expect(test.clock.now.offset == .seconds(2))
        try await task.waitForFailures()
        #expect(task.state == .parked)
        test.network.setReachable(true, host: "host.test")
        await test.answerAll()
        #expect(await task.error == nil)
        #expect(test.transport.transfers.count == 2)
    }

    @Test(
        "The wait for the network ends with the policy's deadline, by default an hour, and needs retries",
        arguments: [(nil, 3_600, false), (.seconds(60), 60, false), (.seconds(60), 60, true)]
            as [(Duration?, Int, Bool)])
    func deadline(own: Duration?, seconds: Int, hasFailedBefore: Bool) async throws {
        let record = EventRecord()
        let test = TestCache(sink: record)
        test.network.isUp = hasFailedBefore
        var policy = hasFailedBefore ? RetryPolicy.fixed(.seconds(20)) : .default
        if let own { policy.deadline = own }
        let request = DataRequest(a).with(\.retryPolicy, policy)
        test.transport.script(a, [.status(503)])
        let patient = test.cache.getData(hasFailedBefore ? request : request.with(\.timeout, .seconds(1)))
        try await patient.waitForFailures()
        test.network.isUp = false
        #expect(await test.cache.getData(DataRequest(url("b")).with(\.retryPolicy, .never)).error == .unreachable)
        await test.whileClockRuns { _ = await patient.error }
        #expect(await patient.error == .unreachable, "the time without a network does not count as the call's own")
        #expect(record.events.last { $0.kind == .callFailed(.unreachable) }?.time == .seconds(seconds))
        #expect(test.transport.transfers.count == (hasFailedBefore ? 1 : 0))
    }

    @Test("A host that cannot be reached holds up its own calls alone, also after a redirect to it")
    func oneHost() async throws {
        let test = TestCache { $0.fastQueue.maxConcurrent = 1 }
        let far = DataRequest(string: "http://far.test/x")
        test.network.setReachable(false, host: "far.test")
        test.transport.script(a, [.redirect("http://far.test/x")])
        let tasks = [test.cache.getData(far), test.cache.getData(a)]
        for task in tasks { try await task.waitForFailures() }
        #expect(tasks.map(\.state) == [.parked, .parked])
        for name in ["b", "s"] { test.transport.script(url(name), [.text(name)]) }
        #expect(try await test.ask(url("b")) == "b from network")
        #expect(try await test.cache.slowGetData(url("s")).value == Data("s".utf8))
        #expect(test.transport.transfers.map(\.request.url) == [a, url("b"), url("s")])
        // Another change of the network does not wake the calls.
        test.network.setReachable(false, host: "other.test")
        test.network.setReachable(true, host: "far.test")
        await test.answerAll()
        for task in tasks { #expect(await task.error == nil) }
        #expect(test.transport.transfers(of: a).count == 2)
    }

    @Test(
        "Calls that have waited for the network begin one after the other, within four seconds, urgent ones first",
        .ownThread)
    func wakeUp() async throws {
        // So many that they would take longer, a few milliseconds apart.
        let count = 600
        let test = TestCache {
            $0.fastQueue.maxConcurrent = 2 * count
            $0.slowQueue.maxConcurrent = 2 * count
        }
        test.network.isUp = false
        var tasks = (0..<count).map { test.cache.slowGetData(url("s\($0)")) }
        tasks += (0..<count).map { test.cache.getData(url("u\($0)")) }
        for task in tasks { try await task.waitForFailures() }
        #expect(test.cache.queueCounts.parked == 2 * count)
        test.network.isUp = true
        var instants: [ManualClock.Instant] = []
        for number in 0..<2 * count {
            try await test.clock.waitForSleepers(1, dueWithin: .seconds(4))
            test.clock.advanceToNextSleeper()
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url.lastPathComponent.hasPrefix(number < count ? "u" : "s"))
            transfer.finish(with: Data())
            instants.append(test.clock.now)
        }
        #expect(Set(instants).count == 2 * count, "no two at a time")
        #expect(test.clock.now.offset < .seconds(4.1))
        await test.cache.idle()
        #expect(test.transport.transfers.count == 2 * count)
    }
}
