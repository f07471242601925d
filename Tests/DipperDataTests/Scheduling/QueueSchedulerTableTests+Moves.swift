import Testing

@testable import DipperData

extension QueueSchedulerTableTests {
    // MARK: Move to slowQueue

    @Test("move to slow, absent or slow: nothing")
    func demoteNothing() {
        var bench = Bench()
        bench.get("running", .slow)
        bench.get("queued", .slow)
        for name in ["absent", "running", "queued"] {
            bench.apply { $0.demote(CacheKey(name), into: &$1) }
            #expect(bench.actions.isEmpty)
        }
    }

    @Test("move to slow, fast and queued: to the front of slowQueue")
    func demoteQueued() {
        var bench = Bench(fast: 1)
        let first = bench.get("first", .fast)
        bench.get("s", .slow)
        bench.get("a", .fast)
        bench.apply { $0.demote("a", into: &$1) }
        #expect(bench.actions.isEmpty)
        bench.apply { $0.finished(first.job, into: &$1) }
        #expect(bench.started == ["a"], "before the slow job that was there")
    }

    @Test("move to slow, fast and running: in place, throttled while fast work is on the network")
    func demoteRunning() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        let b = bench.get("b", .fast)
        bench.apply { $0.demote("a", into: &$1) }
        #expect(bench.started.isEmpty)
        #expect(bench.aborted.isEmpty)
        #expect(bench.throttled == ["a"])
        #expect(bench.queuesSet == ["a": .slow])
        bench.apply { $0.finished(b.job, into: &$1) }
        #expect(bench.released == ["a"])
        bench.apply { $0.finished(a.job, into: &$1) }
        #expect(bench.ended == [1: .fetched])
    }

    @Test("move to slow, several running: they move one after the other")
    func demoteSeveral() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.get("b", .fast)
        bench.apply { $0.demote("a", into: &$1) }
        bench.apply { $0.demote("b", into: &$1) }
        #expect(bench.throttled == ["b"])
        #expect(bench.released == ["a"])
        bench.apply { $0.finished(a.job, into: &$1) }
        #expect(bench.released == ["b"])
    }

    @Test("move to slow, parked: it wakes in slowQueue")
    func demoteParked() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.seconds(1)), into: &$1) }
        let token = bench.armed!.token
        bench.apply { $0.demote("a", into: &$1) }
        bench.apply { $0.timerFired(a.job, token: token, into: &$1) }
        #expect(bench.started == ["a"])
        #expect(bench.scheduler.queues[.slow].runningCount == 1)
    }

    @Test("move to slow, being looked up: the look-up goes on, then it waits in front")
    func demoteLooking() {
        var bench = Bench()
        bench.get("busy", .fast)
        bench.get("s", .slow)
        let a = bench.get("a", .fast, reads: true)
        #expect(bench.scheduler.counts == QueueCounts(fastWaiting: 1, fastRunning: 1, slowWaiting: 1))
        bench.apply { $0.demote("a", into: &$1) }
        #expect(bench.scheduler.counts == QueueCounts(fastRunning: 1, slowWaiting: 2))
        bench.apply { $0.lookedUp(a.job, hit: false, into: &$1) }
        #expect(bench.started.isEmpty)
        bench.apply { $0.cancel("busy", into: &$1) }
        #expect(bench.started == ["a"])
    }

    // MARK: Cancel

    @Test(
        "cancel one task: it ends, the job goes on for the others in their queue", arguments: [FetchQueue.fast, .slow])
    func cancelOne(queue: FetchQueue) {
        var bench = Bench(fast: 1)
        bench.get("first", queue)
        for name in ["first", "queued"] {
            var own = bench
            own.get("queued", queue)
            let other = own.get(name, .slow)
            let mine = own.get(name, .fast)
            own.apply { $0.cancel(mine.task, into: &$1) }
            #expect(own.ended.values.map { $0 } == [.cancelled])
            #expect(own.aborted.isEmpty)
            #expect(own.scheduler.job(for: CacheKey(name)) == other.job)
        }
    }

    @Test("cancel the only urgent task of a running job: it becomes slow in place")
    func cancelUrgent() {
        var bench = Bench()
        bench.get("a", .slow)
        let urgent = bench.get("a", .fast)
        #expect(bench.scheduler.queues[.fast].runningCount == 1)
        bench.apply { $0.cancel(urgent.task, into: &$1) }
        #expect(bench.queuesSet == ["a": .slow])
        #expect(bench.scheduler.queues[.fast].runningCount == 0)
        #expect(bench.scheduler.queues[.slow].runningCount == 1)
    }

    @Test("cancel the last task: queued jobs are removed, running ones aborted, parked ones removed")
    func cancelLast() {
        var bench = Bench(fast: 1)
        let a = bench.get("a", .fast)
        let b = bench.get("b", .fast)
        let c = bench.get("c", .slow)
        bench.apply { $0.cancel(b.task, into: &$1) }
        #expect(bench.ended == [2: .cancelled])
        #expect(bench.aborted.isEmpty)
        bench.apply { $0.cancel(c.task, into: &$1) }
        #expect(bench.ended == [3: .cancelled])
        bench.apply { $0.cancel(a.task, into: &$1) }
        #expect(bench.aborted == ["a"])
        #expect(bench.scheduler.jobCount == 0)

        let d = bench.get("d", .slow)
        bench.apply { $0.failed(d.job, ending: [], parking: .untilNetworkReturns, into: &$1) }
        bench.apply { $0.cancel(d.task, into: &$1) }
        #expect(bench.ended == [4: .cancelled])
        #expect(bench.scheduler.jobCount == 0)
        #expect(bench.scheduler.jobsWaitingForNetwork.isEmpty)
    }

    @Test("an answer for a job that is gone changes nothing")
    func lateAnswers() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply { $0.cancel("a", into: &$1) }
        bench.get("b", .fast)
        bench.apply { $0.finished(a.job, into: &$1) }
        #expect(bench.actions.isEmpty)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.zero), into: &$1) }
        #expect(bench.actions.isEmpty)
        bench.apply { $0.lookedUp(a.job, hit: true, into: &$1) }
        #expect(bench.actions.isEmpty)
        bench.apply { $0.cancel(a.task, into: &$1) }
        #expect(bench.actions.isEmpty)
    }
}
