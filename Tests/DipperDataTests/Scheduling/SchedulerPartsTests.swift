import Testing

@testable import DipperData

@Suite("The parts of the scheduler", .timeLimit(.minutes(5)))
struct SchedulerPartsTests {
    @Test("no queue yields to itself or to a queue that yields to it")
    func rules() {
        for queue in FetchQueue.allCases {
            for other in FetchQueue.allCases where queue.yields(to: other) {
                #expect(!other.yields(to: queue))
            }
        }
        #expect(FetchQueue.slow.yields(to: .fast))
    }

    @Test("of notices that overtake one another the one with the highest number holds")
    func latest() {
        var latest = Latest("none")
        #expect(!latest.take("nothing new", number: 0) && latest.value == "none")
        #expect(latest.take("second", number: 2) && latest.value == "second")
        #expect(!latest.take("first", number: 1) && !latest.take("again", number: 2) && latest.value == "second")
    }

    @Test("a task sees what its job is doing")
    func states() {
        var bench = Bench()
        let slow = bench.get("slow", .slow)
        #expect(bench.scheduler.state(of: slow.task) == .transferring)
        let looking = bench.get("looking", .fast, reads: true)
        #expect(bench.scheduler.state(of: looking.task) == .waiting)
        bench.apply { $0.lookedUp(looking.job, hit: false, into: &$1) }
        #expect(bench.scheduler.state(of: slow.task) == .paused)
        bench.apply { $0.failed(looking.job, ending: [], parking: .backOff(.seconds(1)), into: &$1) }
        #expect(bench.scheduler.state(of: looking.task) == .parked)
        #expect(bench.scheduler.state(of: slow.task) == .transferring)
        bench.apply { $0.finished(slow.job, into: &$1) }
        #expect(bench.scheduler.state(of: slow.task) == nil)
    }

    @Test("a look-up is as urgent as its job is now")
    func urgency() {
        var bench = Bench()
        let slow = bench.get("a", .slow, reads: true, priority: .low)
        #expect(bench.scheduler.urgency(of: slow.job) == JobUrgency(queue: .slow, priority: .low, isLIFO: false))
        let urgent = bench.get("a", .fast, reads: true, priority: .high)
        #expect(bench.moved == ["a", "a"])
        #expect(bench.scheduler.urgency(of: slow.job) == JobUrgency(queue: .fast, priority: .high, isLIFO: false))
        bench.apply { $0.cancel(urgent.task, into: &$1) }
        #expect(bench.moved == ["a", "a"])
        #expect(bench.scheduler.urgency(of: slow.job) == JobUrgency(queue: .slow, priority: .low, isLIFO: false))
        bench.apply { $0.cancel(slow.task, into: &$1) }
        #expect(bench.scheduler.urgency(of: slow.job) == nil)
    }

    @Test("a job whose result was not for all begins anew for the others, in their queue, with a look-up of its own")
    func beginsAnew() {
        var bench = Bench()
        let urgent = bench.get("a", .fast)
        let reader = bench.get("a", .slow, reads: true, priority: .low)
        #expect(bench.lookedUp == ["a"])
        let next = bench.get("next", .slow)
        bench.apply { $0.finished(urgent.job, answers: { task, _ in task == urgent.task }, into: &$1) }
        #expect(bench.ended == [1: .fetched])
        #expect(bench.dropped == ["a"], "the look-up that was under way")
        #expect(bench.started == ["next"] && bench.queuesSet.isEmpty && bench.aborted.isEmpty)
        #expect(bench.scheduler.counts == QueueCounts(slowWaiting: 1, slowRunning: 1))
        bench.apply { $0.finished(next.job, into: &$1) }
        #expect(bench.lookedUp == ["a"])
        bench.apply { $0.lookedUp(reader.job, hit: false, into: &$1) }
        #expect(bench.started == ["a"])
        bench.apply { $0.finished(reader.job, into: &$1) }
        #expect(bench.ended == [2: .fetched])
    }

    @Test("an urgent job whose result was not for all asks the disk tier anew, without a slot")
    func beginsAnewUrgently() {
        var bench = Bench(fast: 1)
        let first = bench.get("a", .fast)
        let other = bench.get("a", .fast, reads: true)
        bench.apply { $0.lookedUp(first.job, hit: false, into: &$1) }
        bench.get("b", .fast)
        bench.apply { $0.finished(first.job, answers: { task, _ in task == first.task }, into: &$1) }
        #expect(bench.lookedUp == ["a"] && bench.started == ["b"])
        bench.apply { $0.lookedUp(other.job, hit: true, into: &$1) }
        #expect(bench.ended == [2: .cached] && bench.scheduler.jobCount == 1)
    }

    @Test("a reservation keeps prefetches from starting until it is released")
    func reservation() {
        var bench = Bench()
        bench.scheduler.reserve(.fast)
        bench.get("s", .slow)
        #expect(bench.started.isEmpty)
        bench.apply { $0.release(.fast, into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("a holder of fastQueue holds prefetches back, too, also where nothing urgent waits")
    func holderOfBoth() {
        var bench = Bench()
        let holder = bench.scheduler.addHolder(of: .fast)
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: holder, into: &$1) }
        bench.get("s", .slow)
        #expect(bench.started.isEmpty)
        bench.apply { $0.hold(.init(isSpent: false, number: 2), for: holder, into: &$1) }
        #expect(bench.started == ["s"])
    }

    @Test("what holders hold back is not looked up either, from the least urgent queue on")
    func lookUpsHeldBack() {
        var bench = Bench()
        let (slow, fast) = (bench.scheduler.addHolder(of: .slow), bench.scheduler.addHolder(of: .fast))
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: slow, into: &$1) }
        #expect(bench.lookUpsBegin == [.fast])
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: fast, into: &$1) }
        #expect(bench.lookUpsBegin == [nil])
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: fast, into: &$1) }
        #expect(bench.actions.isEmpty, "a notice that was heard before")
        bench.apply { $0.hold(.init(isSpent: false, number: 2), for: slow, into: &$1) }
        #expect(bench.lookUpsBegin == [nil])
        bench.apply { $0.removeHolder(fast, into: &$1) }
        #expect(bench.lookUpsBegin == [.slow])
        bench.apply { $0.removeHolder(slow, into: &$1) }
        #expect(bench.actions.isEmpty, "a holder that held nothing back")
    }

    @Test("a task named twice in a verdict ends once")
    func namedTwice() {
        var bench = Bench()
        let a = bench.get("a", .fast)
        bench.apply {
            $0.failed(a.job, ending: [a.task, a.task], answered: [a.task], parking: .backOff(.zero), into: &$1)
        }
        #expect(bench.ended == [1: .keptAnswer] && bench.scheduler.jobCount == 0)
    }
}
