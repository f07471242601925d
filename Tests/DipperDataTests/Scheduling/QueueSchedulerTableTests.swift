import Testing

@testable import DipperData

/// Work for a scheduler under test: a name and a host.
struct TestWork: SchedulableWork, Equatable {
    var name: String
    var host = "host"
}

/// A scheduler and the actions of its last event.
struct Bench {
    typealias Scheduler = QueueScheduler<Int, TestWork>
    var scheduler: Scheduler
    var actions: [Scheduler.Action] = []
    var nextWaiter = 0

    init(
        fast: Int = 8, slow: Int = 1, maxPause: Duration? = nil, order: QueueConfiguration.Order = .fifo,
        leastCapacity: Int = 64
    ) {
        scheduler = Scheduler(
            fast: QueueConfiguration(maxConcurrent: fast, order: order),
            slow: QueueConfiguration(maxConcurrent: slow, order: order, maxPause: maxPause),
            leastCapacity: leastCapacity)
        scheduler.makesNotes = false
    }

    /// Applies an event and keeps what came of it.
    @discardableResult
    mutating func apply<R>(_ event: (inout Scheduler, inout [Scheduler.Action]) -> R) -> R {
        actions = []
        return event(&scheduler, &actions)
    }

    /// A call that skips the disk tier, so that it goes straight to its queue.
    @discardableResult
    mutating func get(
        _ name: String, _ queue: FetchQueue, reads: Bool = false, fetches: Bool = true, priority: Priority = .normal,
        host: String = "host"
    ) -> (job: JobID, task: TaskID) {
        nextWaiter += 1
        let waiter = nextWaiter
        return apply {
            $0.submit(
                CacheKey(name), waiter, queue: queue, priority: priority, reads: reads, fetches: fetches,
                makeWork: { TestWork(name: name, host: host) }, into: &$1)
        }
    }

    /// The names of the jobs that hold a slot of a queue.
    func running(_ queue: FetchQueue) -> [String] {
        scheduler.queues[queue].running.indices(in: scheduler.table.jobs).map { scheduler.table[$0].work.name }
    }

    var started: [String] {
        actions.compactMap { if case .transfer(_, let work, _, _) = $0 { work.name } else { nil } }
    }
    var lookedUp: [String] {
        actions.compactMap { if case .lookUp(_, let work) = $0 { work.name } else { nil } }
    }
    var lookUpsBegin: [FetchQueue?] {
        actions.compactMap { action -> FetchQueue?? in
            if case .beginLookUps(let queue) = action { .some(queue) } else { nil }
        }
    }
    var moved: [String] {
        actions.compactMap { if case .moveLookUp(_, let work) = $0 { work.name } else { nil } }
    }
    var dropped: [String] {
        actions.compactMap { if case .dropLookUp(let work) = $0 { work.name } else { nil } }
    }
    var throttled: [String] {
        actions.compactMap { if case .setThrottled(let work, true) = $0 { work.name } else { nil } }
    }
    var released: [String] {
        actions.compactMap { if case .setThrottled(let work, false) = $0 { work.name } else { nil } }
    }
    var aborted: [String] {
        actions.compactMap { if case .abort(let work) = $0 { work.name } else { nil } }
    }
    var ended: [Int: Ending] {
        var ended: [Int: Ending] = [:]
        for case .end(let waiter, _, let ending, _) in actions {
            #expect(ended[waiter] == nil, "task \(waiter) ended twice")
            ended[waiter] = ending
        }
        return ended
    }
    var armed: (job: JobID, delay: Duration, token: UInt32)? {
        for case .arm(let id, _, let delay, let token) in actions { return (id, delay, token) }
        return nil
    }
    var pauseArmed: (Duration, UInt32)? {
        actions.compactMap { if case .armPause(let delay, let token) = $0 { (delay, token) } else { nil } }.first
    }
    var toldFailure: [Int] {
        actions.compactMap { if case .tellFailure(let waiter, _) = $0 { waiter } else { nil } }
    }
    var toldRetry: [Int] {
        actions.compactMap { if case .tellRetry(let waiter, _) = $0 { waiter } else { nil } }
    }
    var queuesSet: [String: FetchQueue] {
        var queues: [String: FetchQueue] = [:]
        for case .setQueue(let work, let queue) in actions { queues[work.name] = queue }
        return queues
    }
}

@Suite("The scheduler's table: each event against each state of the job", .timeLimit(.minutes(5)))
struct QueueSchedulerTableTests {
    // MARK: Urgent get

    @Test("urgent get, absent: a new fast job starts")
    func urgentAbsent() {
        var bench = Bench()
        bench.get("a", .fast)
        #expect(bench.started == ["a"])
    }

    @Test("urgent get, absent: the disk tier is asked first, without a queue slot")
    func urgentAbsentReads() {
        var bench = Bench(fast: 1)
        bench.get("running", .fast)
        let a = bench.get("a", .fast, reads: true)
        #expect(bench.lookedUp == ["a"])
        #expect(bench.scheduler.queues[.fast].runningCount == 1)
        bench.apply { $0.lookedUp(a.job, hit: true, into: &$1) }
        #expect(bench.ended == [2: .cached])
    }

    @Test("urgent get, slow and queued: promoted, the one job starts once")
    func urgentSlowQueued() {
        var bench = Bench()
        bench.get("first", .slow)
        let slow = bench.get("a", .slow)
        #expect(bench.started.isEmpty)
        let urgent = bench.get("a", .fast)
        #expect(urgent.job == slow.job)
        #expect(bench.started == ["a"])
        bench.apply { $0.finished(urgent.job, into: &$1) }
        #expect(bench.ended == [2: .fetched, 3: .fetched])
        #expect(bench.started.isEmpty, "no second request")
    }

    @Test("urgent get, slow and running: promoted in place at full speed, counted as fast")
    func urgentSlowRunning() {
        var bench = Bench()
        let a = bench.get("a", .slow)
        #expect(bench.started == ["a"])
        bench.get("b", .fast)
        #expect(bench.throttled == ["a"])
        bench.get("a", .fast)
        #expect(bench.started.isEmpty)
        #expect(bench.released == ["a"])
        #expect(bench.queuesSet == ["a": .fast])
        #expect(bench.scheduler.queues[.fast].runningCount == 2)
        #expect(bench.scheduler.queues[.slow].runningCount == 0)
        bench.get("c", .slow)
        #expect(bench.started.isEmpty, "the promoted job holds slowQueue up")
        _ = a
    }

    @Test("a promoted task takes its job along: queued it starts, running it counts as fast")
    func promotedTask() {
        var bench = Bench()
        let (_, running) = bench.get("a", .slow)
        let (_, queued) = bench.get("b", .slow)
        bench.apply { $0.promote(queued, into: &$1) }
        #expect(bench.started == ["b"])
        bench.apply { $0.promote(running, into: &$1) }
        #expect(Set(bench.running(.fast)) == ["a", "b"])
        bench.apply { $0.promote(running, into: &$1) }
        #expect(bench.actions.isEmpty)
    }

    @Test("urgent get, fast and queued: joins")
    func urgentFastQueued() {
        var bench = Bench(fast: 1)
        let first = bench.get("first", .fast)
        let a = bench.get("a", .fast)
        let again = bench.get("a", .fast)
        #expect(again.job == a.job)
        #expect(bench.started.isEmpty)
        bench.apply { $0.finished(first.job, into: &$1) }
        #expect(bench.started == ["a"])
    }

    @Test("urgent get, fast and running: joins")
    func urgentFastRunning() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        let again = bench.get("a", .fast)
        #expect(again.job == a.job)
        #expect(bench.started.isEmpty)
        bench.apply { $0.finished(a.job, into: &$1) }
        #expect(bench.ended == [1: .fetched, 2: .fetched])
    }

    @Test("urgent get, parked for a back-off: joins and wakes it")
    func urgentParked() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.seconds(9)), into: &$1) }
        #expect(bench.toldFailure == [1])
        let token = bench.armed!.token
        bench.get("a", .fast)
        #expect(bench.started == ["a"])
        #expect(bench.toldRetry == [1, 2])
        bench.apply { $0.timerFired(a.job, token: token, into: &$1) }
        #expect(bench.actions.isEmpty, "the timer of the parking that is over")
    }

    @Test("urgent get, parked for the network: joins and goes on waiting")
    func urgentParkedOffline() {
        var bench = Bench()
        let a = bench.get("a", .slow)
        bench.apply { $0.failed(a.job, ending: [], parking: .untilNetworkReturns, into: &$1) }
        bench.get("a", .fast)
        #expect(bench.started.isEmpty)
        bench.apply { $0.networkReturned(for: [a.job], spacing: .zero, into: &$1) }
        let armed = bench.armed!
        bench.apply { $0.timerFired(armed.job, token: armed.token, into: &$1) }
        #expect(bench.started == ["a"])
        #expect(bench.scheduler.queues[.fast].runningCount == 1)
    }

    // MARK: Slow get

    @Test("slow get, absent: a new slow job")
    func slowAbsent() {
        var bench = Bench()
        bench.get("a", .slow)
        #expect(bench.started == ["a"])
        #expect(bench.scheduler.queues[.slow].runningCount == 1)
    }

    @Test("slow get, slow and queued or running: joins")
    func slowSlow() {
        var bench = Bench()
        let a = bench.get("a", .slow)
        let b = bench.get("b", .slow)
        #expect(bench.get("a", .slow).job == a.job)
        #expect(bench.get("b", .slow).job == b.job)
        #expect(bench.started.isEmpty)
    }

    @Test("slow get, fast and queued or running: joins, and the job stays fast")
    func slowFast() {
        var bench = Bench(fast: 1)
        let a = bench.get("a", .fast)
        let b = bench.get("b", .fast)
        #expect(bench.get("a", .slow).job == a.job)
        #expect(bench.get("b", .slow).job == b.job)
        #expect(bench.scheduler.queues[.fast].runningCount == 1)
        #expect(bench.scheduler.queues[.fast].queuedCount == 1)
        #expect(bench.queuesSet.isEmpty)
    }

    @Test("slow get, parked: joins without waking it")
    func slowParked() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.seconds(9)), into: &$1) }
        #expect(bench.get("a", .slow).job == a.job)
        #expect(bench.started.isEmpty)
        #expect(bench.scheduler.counts.parked == 1)
    }
}
