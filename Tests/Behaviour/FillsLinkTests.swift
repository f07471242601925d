import TestSupport
import Testing

@Suite("slowQueue can fill an idle link", .timeLimit(.minutes(2)))
struct FillsLinkTests {
    private func metrics(wait: Duration, body: Duration) -> TransferMetrics {
        var metrics = TransferMetrics()
        (metrics.firstByte, metrics.total) = (wait, wait + body)
        return metrics
    }

    private func prefetch(_ count: Int, upTo most: Int = 4) -> (TestCache, [DataTask]) {
        let test = TestCache { $0.slowQueue = .fillsLink(upTo: most) }
        return (test, (0..<count).map { test.cache.slowGetData(url("\($0)")) })
    }

    @Test("one fetch comes first; then as many run as bodies would arrive while an answer is waited for, and no more")
    func learns() async throws {
        let (test, tasks) = prefetch(100, upTo: 30)
        let first = try await test.transport.nextTransfer()
        #expect(test.cache.queueCounts.slowRunning == 1)
        for number in 0..<40 {
            let transfer = number == 0 ? first : try await test.transport.nextTransfer()
            transfer.finish(with: Data(), metrics: metrics(wait: .milliseconds(150), body: .seconds(1)))
            _ = await tasks[number].error
            // The clock stands still, so all bodies seem to arrive in one second.
            #expect(test.cache.queueCounts.slowRunning <= (number < 15 ? 5 : 4), "one more while little is known")
        }
        #expect(test.cache.queueCounts.slowRunning == 4)
        for number in 40..<60 {
            try await test.transport.nextTransfer().finish(
                with: Data(), metrics: metrics(wait: .seconds(500), body: .milliseconds(1)))
            _ = await tasks[number].error
        }
        #expect(test.cache.queueCounts.slowRunning == 30, "the limit")
    }

    @Test("bodies that take long come one at a time again")
    func largeBodies() async throws {
        let (test, tasks) = prefetch(40)
        for number in 0..<40 {
            let transfer = try await test.transport.nextTransfer()
            let isSmall = number < 5
            transfer.finish(
                with: Data(),
                metrics: metrics(wait: .milliseconds(10), body: isSmall ? .milliseconds(1) : .seconds(10)))
            _ = await tasks[number].error
            if isSmall { #expect(test.cache.queueCounts.slowRunning == min(4, 39 - number)) }
        }
        let (_, next) = try await test.begin(url("next"), in: .slow)
        test.cache.slowGetData(url("last"))
        #expect(test.cache.queueCounts.slowRunning == 1)
        next.finish(with: Data())
    }

    @Test("urgent work holds all of them back at once, and none starts meanwhile")
    func urgent() async throws {
        let (test, tasks) = prefetch(10)
        let first = try await test.transport.nextTransfer()
        first.finish(with: Data(), metrics: metrics(wait: .seconds(1), body: .milliseconds(1)))
        try await test.transport.waitForTransfers(5)
        let slow = test.transport.transfers.dropFirst()
        let call = test.cache.getData(url("u"))
        try await test.transport.waitForTransfers(6)
        for transfer in slow { try await transfer.wait { $0.isThrottled } }
        slow.first?.finish(with: Data())
        _ = await tasks[1].error
        #expect(test.cache.queueCounts.slowRunning == 3)
        test.transport.transfers(of: url("u")).first?.finish(with: Data())
        #expect(await call.error == nil)
        for transfer in slow.dropFirst() { try await transfer.wait { !$0.isThrottled } }
        try await test.transport.waitForTransfers(7)
        #expect(test.cache.queueCounts.slowRunning == 4)
    }

    @Test("a transfer that was held back teaches nothing, nor one without times")
    func untaught() async throws {
        let (test, tasks) = prefetch(4)
        let first = try await test.transport.nextTransfer()
        let (_, urgent) = try await test.begin(url("u"))
        try await first.wait { $0.isThrottled }
        urgent.finish(with: Data())
        try await first.wait { !$0.isThrottled }
        first.finish(with: Data(), metrics: metrics(wait: .seconds(9), body: .milliseconds(1)))
        _ = await tasks[0].error
        #expect(test.cache.queueCounts.slowRunning == 1)
        try await test.transport.nextTransfer().finish(with: Data())
        _ = await tasks[1].error
        #expect(test.cache.queueCounts.slowRunning == 1)
    }

    @Test("the queue is serial unless asked otherwise, and the change can be made while it runs")
    func changed() async throws {
        let test = TestCache()
        let tasks = (0..<6).map { test.cache.slowGetData(url("\($0)")) }
        let quick = metrics(wait: .seconds(1), body: .milliseconds(1))
        try await test.transport.nextTransfer().finish(with: Data(), metrics: quick)
        _ = await tasks[0].error
        #expect(test.cache.queueCounts.slowRunning == 1)
        test.cache.slowQueue = .fillsLink(upTo: 3)
        #expect(test.cache.queueCounts.slowRunning == 1, "nothing has been learnt")
        try await test.transport.nextTransfer().finish(with: Data(), metrics: quick)
        _ = await tasks[1].error
        #expect(test.cache.queueCounts.slowRunning == 3)
        test.cache.slowQueue = .slow
        for transfer in test.transport.transfers.dropFirst(3) { try await transfer.wait { $0.isThrottled } }
    }
}
