import TestSupport
import Testing

@Suite("A running prefetch leaves the link to urgent work", .timeLimit(.minutes(2)))
struct PausingTests {
    /// A cache with a prefetch of `/s` that is held back for an urgent call for `/u`.
    private struct HeldBack {
        let test = TestCache()
        let slow: DataTask
        let slowTransfer: ScriptedTransfer
        let urgent: DataTask
        let urgentTransfer: ScriptedTransfer

        init(_ change: (inout DataRequest) -> Void = { _ in }) async throws {
            var request = DataRequest(url("s"))
            change(&request)
            (slow, slowTransfer) = try await test.begin(request, in: .slow)
            (urgent, urgentTransfer) = try await test.begin(url("u"))
            try await slowTransfer.wait { $0.isThrottled }
        }
    }

    @Test("It is held back as soon as urgent work is on the network, and goes on when all of that is done")
    func throttling() async throws {
        let held = try await HeldBack()
        #expect(held.slow.state == .paused && !held.urgentTransfer.isThrottled)
        let (_, second) = try await held.test.begin(url("v"))
        held.urgentTransfer.finish(with: Data())
        #expect(await held.urgent.error == nil)
        #expect(held.slowTransfer.isThrottled)
        second.finish(with: Data())
        try await held.slowTransfer.wait { !$0.isThrottled }
        #expect(held.slow.state == .transferring)
        held.slowTransfer.finish(with: Data("s".utf8))
        #expect(try await held.slow.value == Data("s".utf8))
        #expect(held.test.transport.transfers.count == 3)
    }

    @Test("An urgent call for it lets it go on in place, as urgent work that other prefetches wait for")
    func promoted() async throws {
        let held = try await HeldBack()
        let joined = held.test.cache.getData(url("s"))
        try await held.slowTransfer.wait { !$0.isThrottled && $0.queue == .fast }
        let other = held.test.cache.slowGetData(url("other"))
        held.urgentTransfer.finish(with: Data())
        #expect(await held.urgent.error == nil)
        #expect(other.state == .waiting)
        held.slowTransfer.finish(with: Data("s".utf8))
        #expect(try await joined.value == Data("s".utf8))
        #expect(try await held.slow.value == Data("s".utf8))
        try await held.test.transport.nextTransfer().finish(with: Data())
        #expect(await other.error == nil)
        #expect(held.test.transport.transfers(of: url("s")).count == 1)
    }

    @Test("An urgent fetch that is moved to slowQueue keeps its transfer, and is held back while urgent work remains")
    func demoted() async throws {
        let test = TestCache()
        let (one, first) = try await test.begin(url("a"))
        let (other, second) = try await test.begin(url("b"))
        test.cache.moveTaskToSlowQueue(url("a"))
        try await first.wait { $0.queue == .slow && $0.isThrottled }
        #expect(one.queue == .slow && one.requestedQueue == .fast && one.state == .paused)
        // Without urgent work, prefetches that were moved while they ran go on one after the other.
        other.moveToSlowQueue()
        try await first.wait { !$0.isThrottled }
        try await second.wait { $0.isThrottled && $0.queue == .slow }
        let heard = Box(0)
        one.onProgress { progress in heard.update { $0 = progress.received } }
        first.send(progress: 9, of: 9)
        first.finish(with: Data(count: 9))
        try await second.wait { !$0.isThrottled }
        second.finish(with: Data())
        await test.cache.idle()
        #expect(heard.value == 9)
        for task in [one, other] { #expect(await task.error == nil) }
        #expect(test.transport.transfers.count == 2)
    }

    @Test("A prefetch that was looked up while urgent work began moves no byte before that is done")
    func lookedUpMeanwhile() async throws {
        let gate = Gate()
        let test = TestCache { $0.tiers = [Shelf { .waits(gate) }] }
        let slow = test.cache.slowGetData(url("s"))
        try await gate.waitForArrival()
        let (urgent, urgentTransfer) = try await test.begin(DataRequest(url("u")).with(\.cachePolicy, .ignoreCache))
        gate.open()
        // A second look-up ends after the first one.
        _ = await test.cache.getData(DataRequest(url("none")).with(\.cachePolicy, .cacheOnly)).error
        for transfer in test.transport.transfers(of: url("s")) { #expect(transfer.isThrottled) }
        urgentTransfer.finish(with: Data())
        #expect(await urgent.error == nil)
        let transfer = try await test.transport.nextTransfer()
        try await transfer.wait { !$0.isThrottled }
        transfer.finish(with: Data())
        #expect(await slow.error == nil)
    }

    // MARK: Time and failures

    @Test("The time for which it is held back does not count towards its time limit")
    func timeLimit() async throws {
        let held = try await HeldBack { $0.timeout = .seconds(10) }
        held.test.clock.advance(by: .seconds(60))
        held.urgentTransfer.finish(with: Data())
        try await held.slowTransfer.wait { !$0.isThrottled }
        held.slowTransfer.finish(with: Data("s".utf8))
        #expect(try await held.slow.value == Data("s".utf8))
    }

    @Test("A server that breaks it off again and again without a byte exhausts the retries")
    func brokenOffAgain() async throws {
        let test = TestCache { $0.retryPolicy = .fixed(.zero, retries: 3) }
        let (slow, beginning) = try await test.begin(url("s"), in: .slow)
        beginning.interrupt(with: Parts.beginning(2))
        for round in 0..<3 {
            let transfer = try await test.transport.nextTransfer()
            let (_, urgent) = try await test.begin(url("u\(round)"))
            try await transfer.wait { $0.isThrottled }
            urgent.finish(with: Data())
            try await transfer.wait { !$0.isThrottled }
            transfer.fail(with: .connectionLost)
            // The whole is asked for, in case the range is to blame.
            try await test.transport.nextTransfer().fail(with: .connectionLost)
        }
        #expect(await slow.ending.error == .connectionLost)
        await test.cache.idle()
        #expect(test.transport.transfers(of: url("s")).count == 7)
    }

    @Test("A failure of a hook counts although the attempt before was broken off while it was held back")
    func failingHook() async throws {
        let count = Box(0)
        let held = try await HeldBack { request in
            request.retryPolicy = .never
            request.modifier = .changing { _ in if count.increment() > 1 { throw DipperError.timedOut } }
        }
        held.slowTransfer.interrupt(with: Parts.beginning(2))
        held.urgentTransfer.finish(with: Data())
        #expect(await held.slow.error == .timedOut)
        #expect(count.value == 2)
    }

    // MARK: While a transfer starts

    @Test("A prefetch goes on when urgent work is done, however that comes and goes while it follows a redirect")
    func lastWord() async throws {
        let test = TestCache { $0.cachePolicy = .bypass }
        test.transport.script(url("u"), [.body(Data())])
        for _ in 0..<100 {
            let (slow, first) = try await test.begin(url("s"), in: .slow)
            async let urgent = test.cache.getData(url("u")).error
            async let redirected: Void = first.finish(with: Data(), status: 302, headers: ["Location": "/t"])
            _ = await (urgent, redirected)
            let second = try await test.transport.nextTransfer()
            try await second.wait { !$0.isThrottled }
            second.finish(with: Data())
            #expect(await slow.error == nil)
        }
    }
}
