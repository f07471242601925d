import TestSupport
import Testing

/// The table of "The queues": each event, in each state of the fetch of `/k`.
@Suite("The queues, event by event", .timeLimit(.minutes(2)))
struct QueueTests {
    enum Position: String, CaseIterable, Sendable {
        case absent, slowQueued, slowRunning, fastQueued, fastRunning, backingOff, offline

        static let present = allCases.filter { $0 != .absent }
        var isRunning: Bool { self == .slowRunning || self == .fastRunning }
        var isParked: Bool { self == .backingOff || self == .offline }
        var isQueued: Bool { self == .slowQueued || self == .fastQueued }
    }

    /// A cache with one slot in each queue, and a fetch of `/k` in a state. A queued fetch waits for the one of
    /// `/ahead`, and a prefetch of `/other` waits beside it. A fetch that backs off is urgent; one that waits for the
    /// network is not.
    private struct Stage {
        let test: TestCache
        let journal = Journal()
        let key = url("k")
        var first: DataTask?
        var ahead: ScriptedTransfer?
        var own: ScriptedTransfer?

        var cache: DataCache { test.cache }
        /// The queue in which the latest request for `/k` counts.
        var queue: FetchQueue? { test.transport.transfers(of: key).last?.queue }

        init(_ position: Position) async throws {
            test = TestCache { [journal] in
                $0.fastQueue.maxConcurrent = 1
                $0.retryPolicy = .fixed(.seconds(9))
                $0.eventSinks.append(journal)
            }
            switch position {
            case .absent: break
            case .slowQueued, .fastQueued:
                let queue: FetchQueue = position == .fastQueued ? .fast : .slow
                test.call(url("ahead"), in: queue)
                test.cache.slowGetData(url("other"))
                first = test.call(key, in: queue)
                ahead = try await test.transport.nextTransfer()
            case .slowRunning, .fastRunning:
                first = test.call(key, in: position == .fastRunning ? .fast : .slow)
                own = try await test.transport.nextTransfer()
            case .backingOff:
                let (task, transfer) = try await test.begin(key)
                first = task
                transfer.fail(with: .connectionLost)
                try await task.waitForFailures()
            case .offline:
                test.network.isUp = false
                first = cache.slowGetData(key)
                try await first?.waitForFailures()
            }
        }

        /// Answers all transfers, lets network and clock go on, and returns when nothing is left to do.
        func finish() async {
            for transfer in [ahead, own] { transfer?.finish(with: Data()) }
            test.network.isUp = true
            await test.answerAll()
            await cache.shutdown()
        }
    }

    /// Returns what is sent for `/k` and its neighbours if the event changes no order.
    private func lines(_ position: Position) -> [String] {
        switch position {
        case .absent: []
        case .slowQueued: ["+ahead", "-ahead", "+other", "-other", "+k", "-k"]
        case .fastQueued: ["+ahead", "-ahead", "+k", "-k", "+other", "-other"]
        case .backingOff: ["+k", "-k", "+k", "-k"]
        case .slowRunning, .fastRunning, .offline: ["+k", "-k"]
        }
    }

    @Test("An urgent call starts, joins, promotes or wakes the one fetch of its key", arguments: Position.allCases)
    func urgentCall(_ position: Position) async throws {
        var stage = try await Stage(position)
        let call = stage.cache.getData(stage.key)
        let retries = Box(0)
        call.onRetry { retries.update { $0 += 1 } }
        switch position {
        case .absent, .slowQueued, .backingOff:
            stage.own = try await stage.test.transport.nextTransfer()
            #expect(stage.own?.request.queue == .fast)
        case .slowRunning: try await stage.own?.wait { $0.queue == .fast }
        case .fastQueued, .fastRunning, .offline: break
        }
        if position == .slowQueued { try await stage.ahead?.wait { $0.isThrottled } }
        await stage.finish()
        #expect(await call.error == nil)
        #expect(await stage.first?.error == nil)
        #expect(stage.queue == .fast)
        #expect(retries.value == (position.isParked ? 1 : 0))
        switch position {
        case .absent: #expect(stage.journal.lines == ["+k", "-k"])
        case .slowQueued: #expect(stage.journal.lines == ["+ahead", "+k", "-ahead", "-k", "+other", "-other"])
        default: #expect(stage.journal.lines == lines(position))
        }
        if position == .backingOff { #expect(stage.journal.seconds == [0, 0], "it does not wait for its time") }
    }

    @Test("A prefetch starts or joins the one fetch of its key, and changes nothing else", arguments: Position.allCases)
    func slowCall(_ position: Position) async throws {
        let stage = try await Stage(position)
        let call = stage.cache.slowGetData(stage.key)
        await stage.finish()
        #expect(await call.error == nil)
        #expect(await stage.first?.error == nil)
        #expect(stage.journal.lines == (position == .absent ? ["+k", "-k"] : lines(position)))
        if position == .backingOff { #expect(stage.journal.seconds == [0, 9], "it is not woken") }
        let isFast = [.fastQueued, .fastRunning, .backingOff].contains(position)
        #expect(stage.queue == (isFast ? .fast : .slow))
    }

    @Test(
        "A move to slowQueue takes an urgent fetch to the front there, and starts nothing anew",
        arguments: Position.allCases)
    func move(_ position: Position) async throws {
        let stage = try await Stage(position)
        stage.cache.moveTaskToSlowQueue(stage.key)
        try await stage.own?.wait { $0.queue == .slow }
        await stage.finish()
        #expect(await stage.first?.error == nil)
        #expect(stage.first?.queue ?? .slow == .slow)
        #expect(stage.queue ?? .slow == .slow)
        #expect(stage.journal.lines == lines(position))
        if position == .backingOff { #expect(stage.journal.seconds == [0, 9], "its wait goes on") }
    }

    @Test(
        "A call that is cancelled ends alone, and the fetch goes on in the queue of the others",
        arguments: Position.present)
    func cancelOne(_ position: Position) async throws {
        let stage = try await Stage(position)
        let other = stage.cache.slowGetData(stage.key)
        stage.first?.cancel()
        #expect(await stage.first?.error == .cancelled)
        try await stage.own?.wait { $0.queue == .slow && !$0.isCancelled }
        await stage.finish()
        #expect(await other.error == nil)
        #expect(stage.queue == .slow)
        #expect(stage.journal.lines == lines(position))
        if position == .backingOff { #expect(stage.journal.seconds == [0, 9]) }
    }

    @Test("A fetch whose last call is cancelled leaves its queue, or stops", arguments: Position.present)
    func cancelLast(_ position: Position) async throws {
        let stage = try await Stage(position)
        let joined = stage.cache.slowGetData(stage.key)
        for task in [joined, stage.first] { task?.cancel() }
        #expect(await stage.first?.error == .cancelled)
        #expect(await joined.error == .cancelled)
        try await stage.own?.wait { $0.isCancelled }
        await stage.finish()
        #expect(stage.cache.queueCounts == QueueCounts())
        let sent = position.isQueued ? ["+ahead", "-ahead", "+other", "-other"] : ["+k", "-k"]
        #expect(stage.journal.lines == (position == .offline ? [] : sent))
    }

    @Test("The end of the only urgent call of a running fetch makes it a prefetch again")
    func urgentLeaves() async throws {
        let stage = try await Stage(.slowRunning)
        let urgent = stage.cache.getData(stage.key)
        try await stage.own?.wait { $0.queue == .fast }
        urgent.cancel()
        try await stage.own?.wait { $0.queue == .slow }
        #expect(stage.own?.isCancelled == false)
        await stage.finish()
        #expect(await stage.first?.error == nil)
    }

    @Test(
        "Each state of a fetch shows in the states of its tasks and in the counts of the cache",
        arguments: Position.present)
    func states(_ position: Position) async throws {
        let stage = try await Stage(position)
        #expect(
            stage.first?.state
                == (position.isRunning ? .transferring : position.isParked ? .parked : .waiting))
        let counts =
            switch position {
            case .absent: QueueCounts()
            case .slowQueued: QueueCounts(slowWaiting: 2, slowRunning: 1)
            case .slowRunning: QueueCounts(slowRunning: 1)
            case .fastQueued: QueueCounts(fastWaiting: 1, fastRunning: 1, slowWaiting: 1)
            case .fastRunning: QueueCounts(fastRunning: 1)
            case .backingOff, .offline: QueueCounts(parked: 1)
            }
        #expect(stage.cache.queueCounts == counts)
        await stage.finish()
        #expect(stage.first?.state == .finished)
        #expect(stage.cache.queueCounts == QueueCounts())
    }
}
