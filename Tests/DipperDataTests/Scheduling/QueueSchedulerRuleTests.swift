import Testing

@testable import DipperData

@Suite("The scheduler's rules", .timeLimit(.minutes(5)))
struct QueueSchedulerRuleTests {
    @Test("no slow job starts while a fast one is looked up, queued or running")
    func slowWaits() {
        var bench = Bench(fast: 1)
        let looking = bench.get("looking", .fast, reads: true)
        bench.get("s", .slow)
        #expect(bench.started.isEmpty)
        bench.apply { $0.lookedUp(looking.job, hit: false, into: &$1) }
        #expect(bench.started == ["looking"])
        let queued = bench.get("queued", .fast)
        bench.apply { $0.finished(looking.job, into: &$1) }
        #expect(bench.started == ["queued"])
        bench.apply { $0.finished(queued.job, into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("a failing fast job does not hold slowQueue up: parked jobs count as no activity")
    func parkedDoesNotPause() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.get("s", .slow)
        bench.apply { $0.failed(a.job, ending: [], parking: .untilNetworkReturns, into: &$1) }
        #expect(bench.started == ["s"])
        #expect(bench.scheduler.counts == QueueCounts(slowRunning: 1, parked: 1))
    }

    @Test("a fast job that ends in failure lets slowQueue go on")
    func fatalDoesNotPause() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.get("s", .slow)
        bench.apply { $0.failed(a.job, ending: [a.task], parking: .backOff(.zero), into: &$1) }
        #expect(bench.ended == [1: .failed])
        #expect(bench.started == ["s"])
    }

    @Test("a disk hit does not throttle a running prefetch; a request on the network does, until fast is drained")
    func throttling() {
        var bench = Bench(fast: 1)
        bench.get("s", .slow)
        let hit = bench.get("hit", .fast, reads: true)
        bench.apply { $0.lookedUp(hit.job, hit: true, into: &$1) }
        #expect(bench.throttled.isEmpty)
        let miss = bench.get("miss", .fast, reads: true)
        #expect(bench.throttled.isEmpty)
        bench.apply { $0.lookedUp(miss.job, hit: false, into: &$1) }
        #expect(bench.throttled == ["s"])
        let next = bench.get("next", .fast)
        bench.apply { $0.finished(miss.job, into: &$1) }
        #expect(bench.released.isEmpty)
        bench.apply { $0.finished(next.job, into: &$1) }
        #expect(bench.released == ["s"])
    }

    @Test("a prefetch whose look-up misses while fast work runs starts throttled")
    func startsThrottled() {
        var bench = Bench()
        let s = bench.get("s", .slow, reads: true)
        #expect(bench.lookedUp == ["s"])
        let a = bench.get("a", .fast)
        bench.apply { $0.lookedUp(s.job, hit: false, into: &$1) }
        guard case .transfer(_, _, .slow, throttled: true)? = bench.actions.last else {
            Issue.record("not started throttled: \(bench.actions)")
            return
        }
        bench.apply { $0.finished(a.job, into: &$1) }
        #expect(bench.released == ["s"])
    }

    @Test(
        "inside a queue the higher priority starts first, then the order of arrival",
        arguments: [
            (QueueConfiguration.Order.fifo, ["high", "b", "c", "low"]), (.lifo, ["high", "c", "b", "low"]),
        ])
    func order(order: QueueConfiguration.Order, expected: [String]) {
        var bench = Bench(fast: 1, order: order)
        var running = bench.get("first", .fast).job
        bench.get("low", .fast, priority: .low)
        bench.get("b", .fast)
        bench.get("c", .fast)
        bench.get("high", .fast, priority: .high)
        var seen: [String] = []
        for _ in expected {
            bench.apply { $0.finished(running, into: &$1) }
            seen += bench.started
            running = bench.scheduler.job(for: CacheKey(bench.started[0]))!
        }
        #expect(seen == expected)
    }

    @Test("a priority changes while the job is queued, and a joiner's higher one counts")
    func priorityChanges() {
        var bench = Bench(fast: 1)
        let first = bench.get("first", .fast)
        bench.get("a", .fast)
        let b = bench.get("b", .fast)
        bench.get("c", .fast)
        bench.get("c", .slow, priority: .high)
        bench.apply { $0.setPriority(1.0, of: b.task, into: &$1) }
        bench.apply { $0.finished(first.job, into: &$1) }
        #expect(bench.started == ["b"])
        bench.apply { $0.finished(b.job, into: &$1) }
        #expect(bench.started == ["c"])
    }

    @Test("a priority that is lowered counts no longer, with one call and with several", arguments: [1, 3])
    func priorityLowered(calls: Int) {
        var bench = Bench(fast: 1)
        let first = bench.get("first", .fast)
        let tasks = (0..<calls).map { _ in bench.get("a", .fast, priority: .high).task }
        bench.get("b", .fast)
        for task in tasks { bench.apply { $0.setPriority(.low, of: task, into: &$1) } }
        bench.apply { $0.finished(first.job, into: &$1) }
        #expect(bench.started == ["b"])
    }

    @Test("no more than maxPerHost run for one host, and others pass it by")
    func perHost() {
        var bench = Bench(fast: 3)
        bench.apply {
            $0.configure(.fast, QueueConfiguration(maxConcurrent: 3, maxPerHost: 1), into: &$1)
        }
        let a1 = bench.get("a1", .fast, host: "a")
        #expect(bench.started == ["a1"])
        bench.get("a2", .fast, host: "a")
        bench.get("a3", .fast, host: "a")
        #expect(bench.started.isEmpty)
        bench.get("b1", .fast, host: "b")
        #expect(bench.started == ["b1"])
        bench.apply { $0.finished(a1.job, into: &$1) }
        #expect(bench.started == ["a2"])
    }

    @Test("a limit per host may come and go while jobs are queued")
    func perHostChanges() {
        var bench = Bench(fast: 1)
        let a1 = bench.get("a1", .fast, host: "a")
        bench.get("a2", .fast, host: "a")
        bench.get("b1", .fast, host: "b")
        bench.get("a3", .fast, host: "a")
        bench.apply { $0.configure(.fast, QueueConfiguration(maxConcurrent: 9, maxPerHost: 2), into: &$1) }
        #expect(bench.started == ["a2", "b1"])
        bench.apply { $0.configure(.fast, QueueConfiguration(maxConcurrent: 9), into: &$1) }
        #expect(bench.started == ["a3"])
        bench.apply { $0.finished(a1.job, into: &$1) }
        #expect(bench.scheduler.queues[.fast].runningCount == 3)
    }

    @Test("a suspended queue starts nothing and goes on when it is released")
    func suspended() {
        var bench = Bench()
        bench.apply { $0.configure(.slow, QueueConfiguration(maxConcurrent: 1, isSuspended: true), into: &$1) }
        bench.get("s", .slow)
        #expect(bench.started.isEmpty)
        bench.apply { $0.configure(.slow, .slow, into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("an urgent stream that never ends holds slowQueue up for ever, without maxPause")
    func endlessStream() {
        var bench = Bench(fast: 2)
        bench.get("s", .slow)
        bench.apply { $0.cancel("s", into: &$1) }
        var running = bench.get("u0", .fast).job
        bench.get("s", .slow)
        for number in 1...1_000 {
            let next = bench.get("u\(number)", .fast).job
            bench.apply { $0.finished(running, into: &$1) }
            #expect(!bench.started.contains("s"))
            running = next
        }
        bench.apply { $0.finished(running, into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("with maxPause one slow job at a time runs beside fast work after that wait")
    func maxPause() {
        var bench = Bench(maxPause: .seconds(5))
        bench.get("u", .fast)
        let s1 = bench.get("s1", .slow)
        let first = bench.pauseArmed
        #expect(first?.0 == .seconds(5))
        bench.get("s2", .slow)
        #expect(bench.pauseArmed == nil, "the wait is running already")
        bench.apply { $0.pauseElapsed(token: first!.1, into: &$1) }
        #expect(bench.started == ["s1"])
        #expect(bench.throttled.isEmpty)
        bench.apply { $0.pauseElapsed(token: first!.1, into: &$1) }
        #expect(bench.started.isEmpty, "one at a time")
        bench.apply { $0.finished(s1.job, into: &$1) }
        #expect(bench.started.isEmpty)
        #expect(bench.pauseArmed != nil, "the wait begins anew")
    }

    @Test("with maxPause a throttled prefetch goes first")
    func maxPauseReleases() {
        var bench = Bench(maxPause: .seconds(5))
        bench.get("s1", .slow)
        bench.get("s2", .slow)
        bench.get("u", .fast)
        #expect(bench.throttled == ["s1"])
        let token = bench.pauseArmed!.1
        bench.apply { $0.pauseElapsed(token: token, into: &$1) }
        #expect(bench.released == ["s1"])
        #expect(bench.started.isEmpty)
    }

    @Test("a disk that falls behind holds prefetching up, and urgent work only when nothing more can wait")
    func backlog() {
        var bench = Bench()
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .high, number: 1), into: &$1) }
        bench.get("s", .slow)
        #expect(bench.started.isEmpty)
        let u = bench.get("u", .fast)
        #expect(bench.started == ["u"])
        bench.apply { $0.finished(u.job, into: &$1) }
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .full, number: 2), into: &$1) }
        bench.get("v", .fast)
        #expect(bench.started.isEmpty)
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .high, number: 3), into: &$1) }
        #expect(bench.started == ["v"])
        bench.apply { $0.cancel("v", into: &$1) }
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .none, number: 4), into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("a call that wants the cache alone gets no network, and its answer from a look-up")
    func cacheOnly() {
        var bench = Bench()
        let a = bench.get("a", .fast, reads: true, fetches: false)
        bench.apply { $0.lookedUp(a.job, hit: false, into: &$1) }
        #expect(bench.ended == [1: .notCached])
        #expect(bench.started.isEmpty)
        let b = bench.get("b", .fast, reads: true)
        bench.apply { $0.lookedUp(b.job, hit: false, into: &$1) }
        bench.get("b", .fast, reads: true, fetches: false)
        #expect(bench.ended == [3: .notCached], "it joins a job that found nothing")
        #expect(bench.scheduler.jobCount == 1)
    }

    @Test("a refresh and a reader share a job; the reader is answered from disk, the refresh from the network")
    func refreshAndReader() {
        var bench = Bench()
        let refresh = bench.get("a", .fast)
        #expect(bench.started == ["a"])
        bench.get("a", .fast, reads: true)
        #expect(bench.lookedUp == ["a"])
        bench.apply { $0.lookedUp(refresh.job, hit: true, into: &$1) }
        #expect(bench.ended == [2: .cached])
        bench.get("a", .fast, reads: true, fetches: false)
        #expect(bench.lookedUp == ["a"], "asked anew for a later reader")
        bench.apply { $0.finished(refresh.job, into: &$1) }
        #expect(bench.ended == [1: .fetched, 3: .fetched])
    }

    @Test("a thousand jobs parked for the network wake one after the other, urgent ones first")
    func wakeSpread() {
        var bench = Bench()
        bench.apply { $0.configure(.slow, QueueConfiguration(maxConcurrent: 2_000), into: &$1) }
        bench.apply { $0.configure(.fast, QueueConfiguration(maxConcurrent: 2_000), into: &$1) }
        var jobs: [JobID] = []
        for number in 0..<1_000 {
            jobs.append(bench.get("s\(number)", .slow).job)
        }
        let urgent = bench.get("u", .fast).job
        for job in jobs + [urgent] {
            bench.apply { $0.failed(job, ending: [], parking: .untilNetworkReturns, into: &$1) }
        }
        bench.apply {
            $0.networkReturned(for: jobs + [urgent], spacing: .milliseconds(4), within: .seconds(5), into: &$1)
        }
        var delays: [Duration] = []
        for case .arm(let id, _, let delay, _) in bench.actions {
            if delays.isEmpty { #expect(id == urgent) }
            delays.append(delay)
        }
        #expect(delays.count == 1_001)
        #expect(Set(delays).count == 1_001, "no two in one instant")
        #expect(delays.last == .milliseconds(4_000))
    }

    @Test("a notice of the disk that was overtaken by a later one changes nothing")
    func overtakenNotice() {
        var bench = Bench()
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .none, number: 2), into: &$1) }
        bench.apply { $0.storageBacklogged(BacklogNotice(backlog: .full, number: 1), into: &$1) }
        bench.get("a", .fast)
        #expect(bench.started == ["a"])
    }

    @Test("a failure that is final ends those too who joined since")
    func lateJoinerOfFinalFailure() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [a.task], parking: nil, into: &$1) }
        #expect(bench.ended == [1: .failed, 2: .failed])
        #expect(bench.scheduler.jobCount == 0)
    }

    @Test("a task that joins between a failure and its verdict is not lost")
    func joinAtFailure() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        let late = bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [a.task], parking: .backOff(.zero), into: &$1) }
        #expect(bench.ended == [1: .failed])
        #expect(bench.toldFailure == [2])
        let armed = bench.armed!
        bench.apply { $0.timerFired(armed.job, token: armed.token, into: &$1) }
        #expect(bench.started == ["a"])
        bench.apply { $0.finished(late.job, into: &$1) }
        #expect(bench.ended == [2: .fetched])
    }

    @Test("the timer of an earlier wait does not end the present one")
    func earlierTimer() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.seconds(9)), into: &$1) }
        let first = bench.armed!
        // It is woken before its time, and waits once more.
        bench.get("a", .fast)
        bench.apply { $0.failed(a.job, ending: [], parking: .backOff(.seconds(9)), into: &$1) }
        let second = bench.armed!
        bench.apply { $0.timerFired(a.job, token: first.token, into: &$1) }
        #expect(bench.started.isEmpty)
        bench.apply { $0.timerFired(a.job, token: second.token, into: &$1) }
        #expect(bench.started == ["a"])
    }
}
