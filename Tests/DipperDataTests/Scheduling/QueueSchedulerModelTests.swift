import Foundation
import TestSupport
import Testing

@testable import DipperData

/// The scheduler's rules in the plainest words: arrays, searched from end to end.
private struct NaiveModel {
    enum Phase { case looking, queued, running, parked }
    struct Task { var id: Int; var queue: FetchQueue; var priority: Int; var reads: Bool; var fetches: Bool }
    struct Job {
        var name: String
        var host: String
        var phase: Phase
        var tasks: [Task]
        var arrival: Int
        var onNetwork = false
        var queue: FetchQueue { tasks.contains { $0.queue == .fast } ? .fast : .slow }
        var priority: Int { tasks.map(\.priority).max() ?? 0 }
    }
    var jobs: [String: Job] = [:]
}

@Suite("The scheduler against a naive model", .timeLimit(.minutes(5)))
struct QueueSchedulerModelTests {
    /// Operations of each walk.
    private static let operations = workload(30_000)

    @Test("the rules hold over random operations", arguments: [0, 1, 2, 3])
    func randomOperations(run: Int) async {
        let seed = UInt64.random(in: .min ... .max)
        print("scheduler model: run \(run), seed \(seed)")
        var walk = ModelWalk(seed: seed, run: run)
        for step in 0..<Self.operations {
            walk.step()
            // Other tests need the thread, too.
            if step % 256 == 0 { await Task.yield() }
            if walk.hasFailed { return }
        }
        walk.drain()
        #expect(walk.liveTasks.isEmpty, "seed \(seed): tasks that never ended: \(walk.liveTasks.keys)")
        #expect(walk.bench.scheduler.jobCount == 0)
        #expect(walk.bench.scheduler.counts == QueueCounts())
    }
}

/// Drives a scheduler at random, follows its actions in a naive model, and compares.
private struct ModelWalk {
    var bench: Bench
    var random: SplitMix
    let seed: UInt64
    var model = NaiveModel()
    var hasFailed = false
    /// Tasks that have not ended, with their job's name.
    var liveTasks: [Int: (name: String, id: TaskID)] = [:]
    var ids: [String: JobID] = [:]
    var transferring: [String: (queue: FetchQueue, throttled: Bool)] = [:]
    var lookingUp: Set<String> = []
    /// Jobs that held a slot of slowQueue after the last event.
    var holders: Set<String> = []
    var timers: [(JobID, UInt32, String)] = []
    var offline: Set<String> = []
    var arrival = 0
    var endedTasks: Set<Int> = []
    let maxFast: Int
    let maxSlow: Int
    let maxPerHost: Int?

    init(seed: UInt64, run: Int) {
        self.seed = seed
        random = SplitMix(state: seed)
        maxFast = [1, 2, 3, 8][run]
        maxSlow = [1, 1, 2, 1][run]
        maxPerHost = [nil, 1, nil, 2][run]
        // Storage is given back all the time.
        bench = Bench(leastCapacity: 4)
        bench.apply { [maxFast, maxSlow, maxPerHost] scheduler, actions in
            scheduler.configure(
                .fast, QueueConfiguration(maxConcurrent: maxFast, maxPerHost: maxPerHost), into: &actions)
            scheduler.configure(.slow, QueueConfiguration(maxConcurrent: maxSlow), into: &actions)
        }
    }

    mutating func step() {
        let name = "k\(random.below(24))"
        switch random.below(20) {
        case 0...5: submit(name, .fast)
        case 6...9: submit(name, .slow)
        case 10, 11: answerTransfer(finish: true)
        case 12: answerTransfer(finish: false)
        case 13, 14: answerLookUp()
        case 15:
            for index in model.jobs[name]?.tasks.indices ?? 0..<0 { model.jobs[name]?.tasks[index].queue = .slow }
            event { $0.demote(CacheKey(name), into: &$1) }
        case 16:
            if let (task, entry) = pick(liveTasks) {
                remove(task, entry.name)
                event { $0.cancel(entry.id, into: &$1) }
            }
        case 17:
            if random.below(8) == 0 {
                for task in model.jobs[name]?.tasks ?? [] { remove(task.id, name) }
                event { $0.cancel(CacheKey(name), into: &$1) }
            } else if let (task, entry) = pick(liveTasks) {
                let priority = random.below(3)
                if let index = model.jobs[entry.name]?.tasks.firstIndex(where: { $0.id == task }) {
                    model.jobs[entry.name]?.tasks[index].priority = priority
                }
                event { $0.setPriority(Priority(Double(priority) / 2), of: entry.id, into: &$1) }
            }
        case 18: fireTimer()
        default: networkReturns()
        }
    }

    private mutating func pick<V>(_ dictionary: [Int: V]) -> (Int, V)? {
        guard !dictionary.isEmpty else { return nil }
        let key = dictionary.keys.sorted()[random.below(dictionary.count)]
        return dictionary[key].map { (key, $0) }
    }

    private mutating func submit(_ name: String, _ queue: FetchQueue) {
        bench.nextWaiter += 1
        let waiter = bench.nextWaiter
        let kind = random.below(8)
        let priority = random.below(3)
        let reads = kind < 4
        let fetches = kind != 0
        let existed = model.jobs[name] != nil
        let task = NaiveModel.Task(
            id: waiter, queue: queue, priority: priority, reads: reads || !fetches, fetches: fetches)
        arrival += 1
        if existed {
            model.jobs[name]?.tasks.append(task)
        } else {
            model.jobs[name] = .init(
                name: name, host: "h\(name.hashValue & 3)", phase: .queued, tasks: [task], arrival: arrival)
        }
        let host = model.jobs[name]!.host
        var actions: [Bench.Scheduler.Action] = []
        let new = bench.scheduler.submit(
            CacheKey(name), waiter, queue: queue, priority: Priority(Double(priority) / 2),
            reads: task.reads, fetches: fetches, makeWork: { TestWork(name: name, host: host) }, into: &actions)
        liveTasks[waiter] = (name, new.task)
        if existed { expect(ids[name] == new.job, "one job per key: \(name)") }
        ids[name] = new.job
        follow(actions)
    }

    private mutating func answerTransfer(finish: Bool) {
        let movable = transferring.keys.sorted()
        guard !movable.isEmpty else { return }
        let name = movable[random.below(movable.count)]
        guard let id = ids[name], let job = model.jobs[name] else { return }
        if finish {
            for task in job.tasks { remove(task.id, name) }
            transferring[name] = nil
            event { $0.finished(id, into: &$1) }
        } else {
            var ending: [TaskID] = []
            for task in job.tasks where random.below(3) == 0 {
                ending.append(liveTasks[task.id]!.id)
                remove(task.id, name, keepsJob: true)
            }
            transferring[name] = nil
            let isOffline = random.below(2) == 0
            if model.jobs[name]?.tasks.isEmpty == true {
                forget(name)
            } else {
                model.jobs[name]?.phase = .parked
                model.jobs[name]?.onNetwork = false
                if isOffline { offline.insert(name) }
            }
            event {
                $0.failed(
                    id, ending: ending, parking: isOffline ? .untilNetworkReturns : .backOff(.seconds(1)), into: &$1)
            }
        }
    }

    private mutating func answerLookUp() {
        guard !lookingUp.isEmpty else { return }
        let name = lookingUp.sorted()[random.below(lookingUp.count)]
        lookingUp.remove(name)
        guard let id = ids[name], let job = model.jobs[name] else { return }
        let hit = random.below(2) == 0
        for task in job.tasks where hit ? task.reads : !task.fetches { remove(task.id, name, keepsJob: true) }
        if model.jobs[name]?.tasks.isEmpty == true {
            forget(name)
        } else if model.jobs[name]?.phase == .looking {
            model.jobs[name]?.phase = .queued
        }
        event { $0.lookedUp(id, hit: hit, into: &$1) }
    }

    private mutating func fireTimer() {
        guard !timers.isEmpty else { return }
        let (id, token, _) = timers.remove(at: random.below(timers.count))
        event { $0.timerFired(id, token: token, into: &$1) }
    }

    private mutating func networkReturns() {
        let waiting = offline.compactMap { ids[$0] }
        offline = []
        event { $0.networkReturned(for: waiting, spacing: .milliseconds(1), into: &$1) }
    }

    private mutating func remove(_ task: Int, _ name: String, keepsJob: Bool = false) {
        model.jobs[name]?.tasks.removeAll { $0.id == task }
        if !keepsJob, model.jobs[name]?.tasks.isEmpty == true { forget(name) }
    }

    private mutating func forget(_ name: String) {
        model.jobs[name] = nil
        transferring[name] = nil
        lookingUp.remove(name)
        offline.remove(name)
    }

    // MARK: Following the actions

    private mutating func event(_ body: (inout Bench.Scheduler, inout [Bench.Scheduler.Action]) -> Void) {
        var actions: [Bench.Scheduler.Action] = []
        body(&bench.scheduler, &actions)
        follow(actions)
    }

    private mutating func follow(_ actions: [Bench.Scheduler.Action]) {
        for action in actions { follow(action) }
        let holding = Set(bench.running(.slow))
        for name in holding.subtracting(holders) {
            expect(!isFastBusy, "slow \(name) starts beside fast work")
        }
        holders = holding
        check()
    }

    private var isFastBusy: Bool {
        model.jobs.values.contains { job in
            job.queue == .fast && ids[job.name].map { !bench.scheduler.isParked($0) } == true
        }
    }

    private mutating func follow(_ action: Bench.Scheduler.Action) {
        switch action {
        case .lookUp(let id, let work):
            expect(ids[work.name] == id || ids[work.name] == nil, "a look-up for the job there is")
            expect(lookingUp.insert(work.name).inserted, "one look-up at a time: \(work.name)")
            if model.jobs[work.name]?.queue == .fast, model.jobs[work.name]?.phase == .queued,
                transferring[work.name] == nil
            {
                model.jobs[work.name]?.phase = .looking
            }
        case .transfer(let id, let work, let queue, let isThrottled):
            ids[work.name] = id
            expect(transferring[work.name] == nil, "one request per job at a time: \(work.name)")
            transferring[work.name] = (queue, isThrottled)
            model.jobs[work.name]?.phase = .running
            model.jobs[work.name]?.onNetwork = true
            expect(model.jobs[work.name]?.queue == queue, "the queue of \(work.name)")
        case .setThrottled(let work, let isThrottled):
            transferring[work.name]?.throttled = isThrottled
        case .setQueue(let work, let queue):
            transferring[work.name]?.queue = queue
            // A running job keeps its place whichever queue it comes to.
            if queue == .slow { holders.insert(work.name) }
        case .abort(let work):
            expect(model.jobs[work.name] == nil, "aborted though wanted: \(work.name)")
            transferring[work.name] = nil
        case .arm(let id, let work, _, let token):
            timers.append((id, token, work.name))
        case .end(let waiter, let work, _, _):
            expect(endedTasks.insert(waiter).inserted, "task \(waiter) ended twice")
            liveTasks[waiter] = nil
            if model.jobs[work.name]?.tasks.contains(where: { $0.id == waiter }) == true {
                // Only a call for the cache alone, joining a job that found nothing, ends by itself.
                expect(
                    model.jobs[work.name]?.tasks.first { $0.id == waiter }?.fetches == false, "an end nobody asked for")
                remove(waiter, work.name, keepsJob: true)
            }
        case .tellFailure(let waiter, _), .tellRetry(let waiter, _):
            expect(liveTasks[waiter] != nil, "a hook after the end: \(waiter)")
        case .armPause, .note, .noteJoined, .beginLookUps, .waitForTurn, .moveLookUp, .dropLookUp, .disarm, .call:
            break
        }
    }

    private mutating func check() {
        let scheduler = bench.scheduler
        // The live tasks are those of the model, each in its job, in its queue.
        expect(Set(liveTasks.keys) == Set(model.jobs.values.flatMap { $0.tasks.map(\.id) }), "the tasks there are")
        expect(scheduler.jobCount == model.jobs.count, "the jobs there are")
        for (name, job) in model.jobs {
            for task in job.tasks {
                expect(scheduler.queue(of: liveTasks[task.id]!.id) == task.queue, "the queue of a task of \(name)")
            }
        }
        // Slots.
        let fastMoving = transferring.filter { model.jobs[$0.key]?.queue == .fast }
        let slowMoving = transferring.filter { model.jobs[$0.key]?.queue == .slow && !$0.value.throttled }
        expect(slowMoving.count <= maxSlow, "slow jobs that move bytes: \(slowMoving.keys)")
        if !fastMoving.isEmpty {
            expect(slowMoving.isEmpty, "slow jobs move beside fast ones: \(slowMoving.keys)")
        }
        for (name, transfer) in transferring {
            expect(model.jobs[name]?.queue == transfer.queue, "the transport knows the queue of \(name)")
        }
        // Nothing waits that could run, and nothing was started that should have waited.
        let counts = scheduler.counts
        if counts.fastRunning < maxFast, maxPerHost == nil {
            expect(scheduler.queues[.fast].queuedCount == 0, "a fast job waits though there is room")
        }
        if counts.fastWaiting + counts.fastRunning == 0, counts.slowRunning < maxSlow {
            expect(scheduler.queues[.slow].queuedCount == 0, "a slow job waits though nothing holds it up")
        }
        expect(
            counts.parked == model.jobs.keys.count { name in ids[name].map(bench.scheduler.isParked) == true },
            "the parked jobs")
        for (name, job) in model.jobs where job.phase == .parked && transferring[name] == nil {
            let isAwake = ids[name].map { !bench.scheduler.isParked($0) } == true
            expect(isAwake || !offline.contains(name) || waitsForNetwork(name), "\(name) waits for the network")
        }
    }

    private func waitsForNetwork(_ name: String) -> Bool {
        bench.scheduler.jobsWaitingForNetwork.contains { $0.work.name == name }
    }

    mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        guard !condition, !hasFailed else { return }
        hasFailed = true
        Issue.record("seed \(seed): \(message())")
    }

    mutating func drain() {
        var rounds = 0
        while !liveTasks.isEmpty, rounds < 100_000, !hasFailed {
            rounds += 1
            if !lookingUp.isEmpty { answerLookUp() }
            answerTransfer(finish: true)
            fireTimer()
            networkReturns()
        }
    }
}

struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}
