import TestSupport
import Testing

@testable import DipperData

@Suite("What the scheduler's events cost", .timeLimit(.minutes(5)))
struct SchedulerCostTests {
    @Test("the highest priority of a job's tasks is right whatever comes and goes")
    func levels() {
        var random = SystemRandomNumberGenerator()
        var counts = LevelCounts()
        var levels: [UInt8] = []
        for _ in 0..<20_000 {
            if levels.isEmpty || Bool.random(using: &random), levels.count < 50 {
                let level = UInt8.random(in: 0...5, using: &random) * 20
                counts.add(level)
                levels.append(level)
            } else {
                let level = levels.remove(at: Int.random(in: levels.indices, using: &random))
                counts.remove(level)
            }
            #expect(counts.highest == levels.max() ?? 0)
        }
    }

    @Test("of 100,000 calls that share a fetch each is cancelled, and changes its priority, at the same cost")
    func manyWaiters() async {
        var bench = Bench()
        var tasks: [TaskID] = []
        let job = bench.get("a", .fast).job
        for number in 0..<workload(100_000) {
            tasks.append(bench.get("a", number % 2 == 0 ? .fast : .slow, priority: number % 3 == 0 ? .high : .low).task)
        }
        let steps = StepCounter()
        bench.scheduler.table.steps = steps
        var mostActions = 0
        await Task.yield()
        for task in tasks {
            bench.apply { $0.setPriority(.normal, of: task, into: &$1) }
            mostActions = max(mostActions, bench.actions.count)
        }
        for task in tasks {
            bench.apply { $0.cancel(task, into: &$1) }
            mostActions = max(mostActions, bench.actions.count)
        }
        #expect(steps.count == 0, "the others that share the fetch were gone through")
        #expect(mostActions <= 2)
        #expect(bench.scheduler.waiters(of: job).count == 1)
        #expect(bench.scheduler.counts.fastRunning == 1)
    }

    @Test("100,000 jobs that wait for the network are awake within a few seconds, the urgent ones first")
    func wakeSpread() {
        var bench = Bench()
        func park(_ jobs: [JobID]) -> [JobID] {
            for job in jobs { bench.apply { $0.failed(job, ending: [], parking: .untilNetworkReturns, into: &$1) } }
            return jobs
        }
        let count = workload(100_000)
        let slow = park((0..<count).map { bench.get("s\($0)", .slow).job })
        let urgent = park((0..<10).map { bench.get("u\($0)", .fast).job })
        bench.apply {
            $0.networkReturned(for: slow + urgent, spacing: .milliseconds(4), within: .seconds(3), into: &$1)
        }
        var delays: [(JobID, Duration)] = []
        for case .arm(let id, _, let delay, _) in bench.actions { delays.append((id, delay)) }
        #expect(delays.count == count + 10)
        #expect(delays.prefix(10).map(\.0) == urgent)
        #expect(zip(delays, delays.dropFirst()).allSatisfy { $0.1 < $1.1 })
        #expect((delays.last?.1 ?? .zero) < .seconds(3) && (delays.last?.1 ?? .zero) > .seconds(2))
    }
}

@Suite("The budget of bytes in flight", .timeLimit(.minutes(5)))
struct ByteBudgetTests {
    @Test("a budget is spent at its limit, and free again when a quarter of it is")
    func budget() {
        var budget = ByteBudget(limit: 100)
        #expect(budget.take(99) == nil && budget.mayStart)
        #expect(budget.take(1) == .init(isSpent: true, number: 1) && !budget.mayStart)
        #expect(budget.take(900) == nil && budget.used == 1_000)
        #expect(budget.give(924) == nil && !budget.mayStart)
        #expect(budget.give(1) == .init(isSpent: false, number: 2) && budget.mayStart)
        #expect(budget.take(25) == .init(isSpent: true, number: 3))
        #expect(budget.give(100) == .init(isSpent: false, number: 4) && budget.used == 0)
        var none = ByteBudget(limit: 0)
        #expect(none.limit == 1 && none.mayStart)
        _ = none.take(5)
        #expect(!none.mayStart)
        _ = none.give(5)
        #expect(none.mayStart)
    }

    private func spend(_ bench: inout Bench, _ isSpent: Bool, _ number: UInt64) {
        bench.apply { $0.budgetChanged(.init(isSpent: isSpent, number: number), into: &$1) }
    }

    @Test("while it is spent the oldest urgent transfer goes on alone, nothing begins, and all go on when it is free")
    func urgentOnes() {
        var bench = Bench(fast: 3)
        let jobs = ["a", "b", "c", "d"].map { bench.get($0, .fast).job }
        spend(&bench, true, 1)
        #expect(Set(bench.throttled) == ["b", "c"] && bench.started.isEmpty)
        bench.apply { $0.finished(jobs[0], into: &$1) }
        #expect(bench.released == ["b"] && bench.started.isEmpty)
        spend(&bench, false, 2)
        #expect(bench.released == ["c"] && bench.started == ["d"])
        spend(&bench, true, 1)
        #expect(bench.actions.isEmpty, "a notice that was overtaken")
    }

    @Test("an urgent job begins although prefetches hold the whole budget, and takes the place of the one that goes on")
    func urgentOverSlow() {
        var bench = Bench(slow: 2)
        let one = bench.get("one", .slow).job
        bench.get("other", .slow)
        spend(&bench, true, 1)
        #expect(bench.throttled == ["other"])
        let urgent = bench.get("urgent", .fast).job
        #expect(bench.started == ["urgent"] && bench.throttled == ["one"])
        bench.get("next", .fast)
        #expect(bench.started.isEmpty)
        bench.apply { $0.finished(urgent, into: &$1) }
        #expect(bench.started == ["next"])
        bench.apply { $0.cancel("next", into: &$1) }
        #expect(bench.released == ["one"])
        bench.apply { $0.finished(one, into: &$1) }
        #expect(bench.released == ["other"])
    }

    @Test("one transfer always runs, whatever holds the budget")
    func never() {
        var bench = Bench()
        spend(&bench, true, 1)
        let a = bench.get("a", .fast).job
        #expect(bench.started == ["a"] && bench.throttled.isEmpty)
        bench.get("slow", .slow)
        bench.get("b", .fast)
        #expect(bench.started.isEmpty)
        bench.apply { $0.failed(a, ending: [], parking: .backOff(.seconds(1)), into: &$1) }
        #expect(bench.started == ["b"])
        bench.apply { $0.cancel("b", into: &$1) }
        #expect(bench.started == ["slow"])
    }

    @Test("who cannot take more holds back what has not begun, urgent or not, until the last of them lets go")
    func holders() {
        var bench = Bench()
        let (one, other) = (bench.scheduler.addHolder(of: .fast), bench.scheduler.addHolder(of: .fast))
        func hold(_ holder: HolderID, _ isSpent: Bool, _ number: UInt64) {
            bench.apply { $0.hold(.init(isSpent: isSpent, number: number), for: holder, into: &$1) }
        }
        bench.get("a", .fast)
        hold(one, true, 1)
        hold(other, true, 5)
        #expect(bench.throttled.isEmpty)
        bench.get("b", .fast)
        bench.get("slow", .slow)
        #expect(bench.started.isEmpty)
        hold(one, false, 2)
        hold(one, true, 1)
        #expect(bench.started.isEmpty)
        hold(other, false, 6)
        #expect(bench.started == ["b"])
    }

    @Test("a holder of slowQueue holds back prefetches alone, also those that maxPause would let begin")
    func slowHolder() {
        var bench = Bench(maxPause: .seconds(1))
        let holder = bench.scheduler.addHolder(of: .slow)
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: holder, into: &$1) }
        bench.get("slow", .slow)
        let urgent = bench.get("urgent", .fast).job
        #expect(bench.started == ["urgent"])
        let token = bench.pauseArmed!.1
        bench.apply { $0.pauseElapsed(token: token, into: &$1) }
        #expect(bench.started.isEmpty)
        bench.apply { $0.finished(urgent, into: &$1) }
        #expect(bench.started.isEmpty)
        bench.apply { $0.hold(.init(isSpent: false, number: 2), for: holder, into: &$1) }
        #expect(bench.started == ["slow"])
    }

    @Test("a holder that goes away lets go, its late words count for nothing, and nobody gets its name")
    func goneHolder() {
        var bench = Bench()
        let gone = bench.scheduler.addHolder(of: .fast)
        bench.apply { $0.hold(.init(isSpent: true, number: 1), for: gone, into: &$1) }
        bench.get("a", .fast)
        #expect(bench.started.isEmpty)
        bench.apply { $0.removeHolder(gone, into: &$1) }
        #expect(bench.started == ["a"])
        bench.apply { $0.hold(.init(isSpent: true, number: 2), for: gone, into: &$1) }
        bench.get("b", .fast)
        #expect(bench.started == ["b"])
        #expect(bench.scheduler.addHolder(of: .fast) != gone && bench.scheduler.intake.holders.count == 1)
    }
}
