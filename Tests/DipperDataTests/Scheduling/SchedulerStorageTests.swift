import TestSupport
import Testing

@testable import DipperData

extension Int: SlotElement {}

@Suite("Storage that the scheduler gives back", .timeLimit(.minutes(5)))
struct SchedulerStorageTests {
    @Test("a table of slots finds what a dictionary finds, also after elements have been moved")
    func slotTable() {
        let seed = UInt64.random(in: .min ... .max)
        print("slot table: seed \(seed)")
        var random = SplitMix(state: seed)
        var table = SlotTable<JobIndex, Int>(leastCapacity: 4)
        var model: [JobID: Int] = [:]
        var gone: [JobID] = []
        for step in 0..<20_000 {
            // Grows and drains in turn.
            if random.below(10) < (step / 1_000 % 2 == 0 ? 7 : 2) {
                let index = table.insert(step)
                model[table.id(of: index)] = step
            } else if let (id, value) = model.randomElement(using: &random), let index = table.index(of: id) {
                #expect(table.remove(index) == value, "seed \(seed)")
                model[id] = nil
                gone.append(id)
            }
            if table.isSparse { table.compact() }
            #expect(table.count == model.count && (table.capacity <= 4 || table.count * 4 >= table.capacity))
            if step % 97 == 0 {
                for (id, value) in model { #expect(table.index(of: id).map { table[$0] } == value, "seed \(seed)") }
                for id in gone.suffix(50) { #expect(table.index(of: id) == nil, "seed \(seed)") }
            }
        }
    }

    @Test("when most jobs have ended, their storage is given back, and each end pays for a few places")
    func drain() {
        let (all, left) = (workload(50_000), 40)
        let hosts = all * 2 / 5
        var bench = Bench()
        bench.apply { $0.configure(.slow, QueueConfiguration(maxConcurrent: 1, maxPerHost: 1), into: &$1) }
        var tasks: [TaskID] = []
        bench.get("first", .slow)
        for number in 0..<all { tasks.append(bench.get("s\(number)", .slow, host: "h\(number % hosts)").task) }
        #expect(bench.scheduler.table.jobs.capacity > all && bench.scheduler.queues[.slow].capacity.hosts > hosts)
        // Those that stay are spread over the whole of the storage.
        let stride = all / left
        let kept = Set((0..<left).map { $0 * stride + 7 })
        for number in (0..<all).shuffled() where !kept.contains(number) {
            bench.apply { $0.cancel(tasks[number], into: &$1) }
        }
        let table = bench.scheduler.table
        #expect(bench.scheduler.jobCount == left + 1)
        #expect(table.jobs.capacity <= 256 && table.tasks.capacity <= 256 && table.keys.capacity <= 256)
        let storage = bench.scheduler.queues[.slow].capacity
        #expect(storage.candidates <= 256 && storage.hosts <= 256)
        #expect(table.jobs.compactingSteps <= 2 * all && table.tasks.compactingSteps <= 2 * all)
        // Names hold wherever their elements are now.
        var running = bench.scheduler.job(for: "first")!
        for number in kept.sorted() {
            #expect(bench.scheduler.queue(of: tasks[number]) == .slow)
            bench.apply { $0.finished(running, into: &$1) }
            #expect(bench.started == ["s\(number)"])
            running = bench.scheduler.job(for: CacheKey("s\(number)"))!
        }
        for number in 0..<all { bench.apply { $0.cancel(tasks[number], into: &$1) } }
        #expect(bench.scheduler.jobCount == 0)
    }

    @Test("jobs in every phase go on after their storage has been moved")
    func phases() {
        var bench = Bench(fast: 2, slow: 1, maxPause: .seconds(1))
        let fill = (0..<2_000).map { bench.get("fill\($0)", .slow).task }
        let offline = bench.get("offline", .slow)
        let slow = bench.get("slow", .slow)
        let looking = bench.get("looking", .fast, reads: true)
        let token = bench.pauseArmed!.1
        let fast = bench.get("fast", .fast)
        bench.apply { $0.failed(fast.job, ending: [], parking: .backOff(.seconds(1)), into: &$1) }
        let timer = bench.armed!
        let other = bench.get("offline", .fast)
        #expect(bench.started == ["offline"])
        bench.apply { $0.failed(offline.job, ending: [other.task], parking: .untilNetworkReturns, into: &$1) }
        let urgent = bench.get("urgent", .fast)
        // The first of the prefetches is held back, the others wait. After the pause it goes on.
        bench.apply { $0.pauseElapsed(token: token, into: &$1) }
        #expect(bench.released == ["fill0"])
        for task in fill { bench.apply { $0.cancel(task, into: &$1) } }
        #expect(bench.scheduler.table.jobs.capacity < 64 && bench.scheduler.jobCount == 5)
        #expect(bench.scheduler.jobsWaitingForNetwork.map(\.id) == [offline.job])
        #expect(bench.scheduler.state(of: slow.task) == .waiting)
        #expect(bench.scheduler.state(of: urgent.task) == .transferring)
        bench.apply { $0.lookedUp(looking.job, hit: false, into: &$1) }
        #expect(bench.started == ["looking"])
        bench.apply { $0.timerFired(timer.job, token: timer.token, into: &$1) }
        #expect(bench.scheduler.state(of: fast.task) == .waiting)
        bench.apply { $0.finished(urgent.job, into: &$1) }
        #expect(bench.started == ["fast"])
        bench.apply { $0.finished(fast.job, into: &$1) }
        bench.apply { $0.finished(looking.job, into: &$1) }
        #expect(bench.started == ["slow"])
        bench.apply { $0.networkReturned(for: [offline.job], spacing: .zero, into: &$1) }
        let armed = bench.armed!
        bench.apply { $0.timerFired(armed.job, token: armed.token, into: &$1) }
        bench.apply { $0.finished(slow.job, into: &$1) }
        #expect(bench.started == ["offline"])
    }

    @Test("cancelling everything gives everything back")
    func cancelAll() {
        var bench = Bench()
        for number in 0..<10_000 { bench.get("s\(number)", number % 3 == 0 ? .fast : .slow, reads: number % 2 == 0) }
        bench.apply { $0.cancelAll(into: &$1) }
        #expect(bench.ended.count == 10_000 && bench.scheduler.counts == QueueCounts())
        let table = bench.scheduler.table
        #expect(table.jobs.capacity <= 64 && table.tasks.capacity <= 64 && table.keys.capacity <= 64)
    }

    @Test(
        "the calls that share a job are cancelled one by one at the same cost, in any order",
        arguments: ["oldest first", "newest first", "any"])
    func joiners(order: String) {
        let count = workload(20_000)
        var bench = Bench()
        bench.get("a", .slow)
        var tasks = (0..<count).map { number in
            let priority = Priority(Double(number % 101) / 100)
            return bench.get("a", number % 2 == 0 ? .fast : .slow, priority: priority).task
        }
        if order == "newest first" { tasks.reverse() }
        if order == "any" { tasks.shuffle() }
        let steps = StepCounter()
        bench.scheduler.table.steps = steps
        var actions = 0
        for task in tasks {
            bench.apply { $0.cancel(task, into: &$1) }
            #expect(bench.ended.count == 1)
            actions += bench.actions.count
        }
        #expect(steps.count == 0, "the other calls were gone through")
        #expect(actions <= count + 1, "an end each, and one change of the queue")
        #expect(bench.scheduler.table.tasks.compactingSteps <= 2 * count)
        #expect(bench.scheduler.counts == QueueCounts(slowRunning: 1))
    }
}
