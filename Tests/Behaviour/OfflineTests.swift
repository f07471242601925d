import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Calls without a network", .timeLimit(.minutes(2)))
struct OfflineTests {
    private let test = TestCache()
    private let a = url("a")

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
        try await test.clock.waitForSleepers(1)
        test.clock.advanceToNextSleeper()
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
        let test = TestCache { $0.eventSinks.append(record) }
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

    @Test("Calls that have waited for the network begin one after the other, within four seconds, urgent ones first")
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
