import Foundation
import Logging
import Synchronization

/// The driver of the scheduler. It holds the scheduler in a lock, applies events under the lock, and carries the
/// actions out after releasing it: in the order in which they were decided, and on one thread at a time.
///
/// No action blocks: disk and network have threads of their own.
final class FetchEngine: Sendable {
    typealias Scheduler = QueueScheduler<DataTask, FetchJob>

    struct Options: Sendable {
        var progressInterval: Duration
        var maximumRedirects = 10
        var wakeSpacing: Duration = .milliseconds(4)
        /// The longest time over which waking is spread, however many jobs wait.
        var wakeSpread: Duration = .seconds(4)
        /// The largest number of bytes that the bodies of all transfers together may hold.
        var inFlightLimit = Int.max
        /// The number of actions that one thread carries out before it hands over to another.
        var turn = 128
        /// The time that a transfer without progress may go on after its host has become unreachable.
        var lostNetworkGrace: Duration = .seconds(2)
        /// A source of random numbers in 0..<1.
        var random: @Sendable () -> Double = { .random(in: 0..<1) }
    }

    private struct State {
        var scheduler: Scheduler
        var outbox: [Scheduler.Action] = []
        var isCarryingOut = false
        /// The continuations of callers that wait until every action has been carried out.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The identity of a fetch of newer bytes, of which at most one is under way for each answer that is out of date.
    struct Revalidation: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders
    }

    let store: DataStore
    let transport: any Transport
    let network: any NetworkMonitor
    let time: TimeSource
    private let thread = SeparateThread()
    let timers: TimerQueue
    let now: @Sendable () -> Date
    let options: Options
    let reporter: FetchReporter
    private let state: Mutex<State>
    private let observation = Mutex<ChangeObservation?>(nil)
    private let pauseTimer = Mutex<TimerQueue.ID?>(nil)
    let revalidations = Mutex<[Revalidation: DataTask]>([:])
    /// The budget for bodies in memory.
    let bodies: BodyBudget

    init(
        scheduler: Scheduler, store: DataStore, transport: any Transport, network: any NetworkMonitor,
        time: TimeSource, now: @escaping @Sendable () -> Date, options: Options, reporter: FetchReporter
    ) {
        state = Mutex(State(scheduler: scheduler))
        self.store = store
        self.transport = transport
        self.network = network
        self.time = time
        timers = TimerQueue(time, on: thread)
        self.now = now
        self.options = options
        self.reporter = reporter
        bodies = BodyBudget(limit: options.inFlightLimit, thread: thread)
        let observation = network.observe { [weak self] in self?.networkChanged() }
        self.observation.withLock { $0 = observation }
        bodies.listen { [weak self] notice in self?.apply { $0.budgetChanged(notice, into: &$1) } }
    }

    // MARK: Events

    /// Applies an event, and carries out the actions that follow, unless another thread is carrying out actions: then
    /// that thread carries out these as well.
    @discardableResult
    func apply<Result: Sendable>(
        _ event: (inout Scheduler, inout [Scheduler.Action]) -> Result
    ) -> Result {
        let (result, carries) = state.withLock { state in
            let result = event(&state.scheduler, &state.outbox)
            let carries = !state.isCarryingOut && !state.outbox.isEmpty
            if carries { state.isCarryingOut = true }
            return (result, carries)
        }
        if carries { carryOut() }
        return result
    }

    /// Carries out the actions in the outbox. One thread does so for a limited number of actions, because other threads
    /// may go on adding some and the thread has work of its own. The code of the program's own that follows runs last,
    /// because it may take time; code that follows from work of the engine's thread runs on another thread.
    /// - Parameters:
    ///   - left: the actions that an earlier thread has left.
    ///   - start: the place in `left` of the first action that has not been carried out.
    private func carryOut(_ left: [Scheduler.Action] = [], from start: Int = 0) {
        let steps = Afterwards.collect { carryOutTurn(left, from: start) }
        for step in steps { step() }
    }

    private func carryOutTurn(_ left: [Scheduler.Action], from start: Int) {
        var actions = left
        var next = start
        var turn = options.turn
        while turn > 0 {
            if next == actions.count {
                actions.removeAll(keepingCapacity: true)
                next = 0
                let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>]? in
                    if state.outbox.isEmpty {
                        state.isCarryingOut = false
                        return exchange(&state.waiting, with: [])
                    }
                    swap(&state.outbox, &actions)
                    return nil
                }
                if let waiting {
                    if !waiting.isEmpty { Afterwards.run { for continuation in waiting { continuation.resume() } } }
                    return
                }
            }
            perform(actions[next])
            next += 1
            turn -= 1
        }
        thread.run { [actions, next] in self.carryOut(actions, from: next) }
    }

    /// Returns when all actions that have been decided are carried out.
    func finishCarryingOut() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isDone = state.withLock { state in
                if state.isCarryingOut { state.waiting.append(continuation) }
                return !state.isCarryingOut
            }
            if isDone { continuation.resume() }
        }
    }

    func inspect<Result: Sendable>(_ body: (borrowing Scheduler) -> Result) -> Result {
        state.withLock { body($0.scheduler) }
    }

    // MARK: Calls

    /// Starts a call that the memory tier could not answer. The task ends even if the engine has been shut down.
    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - found: what the tiers have, if they have been asked before.
    func submit(_ task: DataTask, reads: Bool? = nil, found: FetchJob.Found? = nil) {
        let ids = apply { scheduler, actions -> (job: JobID, task: TaskID, work: FetchJob, isParked: Bool)? in
            if scheduler.isClosed { return nil }
            return enroll(
                task, queue: task.requestedQueue, priority: task.request.priority,
                reads: reads ?? task.call.readsDisk(of: store), found: found, &scheduler, &actions)
        }
        guard let ids else {
            finish(task, nil, .failure(.shutDown))
            return
        }
        if ids.isParked, let failure = ids.work.withState({ $0.failure }) {
            if task.tellFailure(failure) { Afterwards.run(task.flush) }
        }
        armTimeout(of: ids.task, task, ids.work)
    }

    /// Adds the task to the scheduler. Runs under the engine's lock, so that the task and its identifier in the
    /// scheduler change together.
    private func enroll(
        _ task: DataTask, queue: FetchQueue, priority: Priority, reads: Bool, found: FetchJob.Found?,
        _ scheduler: inout Scheduler, _ actions: inout [Scheduler.Action]
    ) -> (job: JobID, task: TaskID, work: FetchJob, isParked: Bool)? {
        let call = task.call
        let (job, id) = scheduler.submit(
            call.key, task, queue: queue, priority: priority, reads: reads, fetches: call.mayFetch,
            makeWork: { FetchJob(call, bodies) }, into: &actions)
        guard let work = scheduler.work(of: job) else { return nil }
        work.withState { state in
            if call.insistsOnNetwork { state.insistsOnNetwork = true }
            if call.keepsOnDisk { state.keepsOnDisk = true }
            if call.keepsInMemory { state.keepsInMemory = true }
            if call.request.durability == .durable { state.durability = .durable }
            if state.found == nil { state.found = found }
            if call.timeout != nil { state.hasTimeLimits = true }
        }
        task.attach(self, id: id, job: work)
        return (job, id, work, scheduler.isParked(job))
    }

    /// Turns the tasks of a job to their substitutes, because the cache has nothing for the job.
    func turnToSubstitutes(_ id: JobID, _ scheduler: inout Scheduler, _ actions: inout [Scheduler.Action]) {
        let job = scheduler.work(of: id)
        for (taskID, task) in scheduler.waiters(of: id) where task.isUndecided {
            guard let queue = scheduler.leave(taskID) else { continue }
            task.turnToSubstitute()
            let next = enroll(
                task, queue: queue, priority: task.priority, reads: task.call.readsDisk(of: store), found: nil,
                &scheduler, &actions)
            // The hooks of the task hold for the job that it waits for now.
            if job?.wantsProgress.load(ordering: .relaxed) == true {
                next?.work.wantsProgress.store(true, ordering: .relaxed)
            }
            if job?.wantsBytes.load(ordering: .relaxed) == true {
                next?.work.wantsBytes.store(true, ordering: .relaxed)
            }
        }
    }

    // Each method returns false if the engine does not know a task by this identifier.

    @discardableResult
    func cancel(_ id: TaskID) -> Bool { change(id) { $0.cancel(id, into: &$1) } }
    @discardableResult
    func demote(_ id: TaskID) -> Bool { change(id) { $0.demote(id, into: &$1) } }
    @discardableResult
    func setPriority(_ priority: Priority, of id: TaskID) -> Bool {
        change(id) { $0.setPriority(priority, of: id, into: &$1) }
    }

    private func change(_ id: TaskID, _ event: (inout Scheduler, inout [Scheduler.Action]) -> Void) -> Bool {
        apply { scheduler, actions in
            let isKnown = scheduler.queue(of: id) != nil
            event(&scheduler, &actions)
            return isKnown
        }
    }

    func cancel(_ key: CacheKey) { apply { $0.cancel(key, into: &$1) } }
    func cancelAll() { apply { $0.cancelAll(into: &$1) } }
    func demote(_ key: CacheKey) { apply { $0.demote(key, into: &$1) } }
    func storageBacklogged(_ notice: BacklogNotice) { apply { $0.storageBacklogged(notice, into: &$1) } }

    func queue(of id: TaskID) -> FetchQueue? { inspect { $0.queue(of: id) } }
    func state(of id: TaskID) -> JobState? { inspect { $0.state(of: id) } }

    /// Returns the place of a job's look-up among those that wait: as urgent as the job is now.
    private func place(of id: JobID) -> LookUpQueue.Place? {
        inspect { $0.urgency(of: id) }.map { .init($0.queue, $0.priority, isLIFO: $0.isLIFO) }
    }

    /// Cancels all tasks, writes to disk what waits to be written, and returns when the threads have ended.
    func shutdown() async {
        apply { scheduler, actions in
            scheduler.isClosed = true
            scheduler.cancelAll(into: &actions)
        }
        await finishCarryingOut()
        let observation = observation.withLock { exchange(&$0, with: nil) }
        _ = consume observation
        timers.end()
        await transport.shutdown()
        await store.shutdown()
    }

    // MARK: Actions

    private func perform(_ action: Scheduler.Action) {
        switch action {
        case .lookUp(let id, let job):
            guard let place = place(of: id) else { return }
            let claim = store.history.claim(job.key)
            let (call, wantsPartial, unused) = job.withState { state in
                (state.lead, state.partial == nil, exchange(&state.lookUpClaim, with: claim))
            }
            withExtendedLifetime(unused) {}
            let lookUp = store.lookUp(job.key, call, place, wantsPartial: wantsPartial) { found, partial, delivered in
                self.lookedUp(id, job, found, partial: partial, delivered)
            }
            job.withState { $0.lookUp = lookUp }
        case .moveLookUp(let id, let job):
            if let place = place(of: id) { job.withState { $0.lookUp }?.move(to: place) }
        case .dropLookUp(let job):
            job.withState { exchange(&$0.lookUp, with: nil) }?.cancel()
        case .transfer(let id, let job, let queue, let isThrottled):
            transfer(id, job, queue: queue, isThrottled: isThrottled)
        case .setThrottled(let job, let isThrottled):
            let time = time.now()
            let transfer = job.withState { state in
                state.isThrottled = isThrottled
                if isThrottled {
                    state.wasThrottled = true
                    state.budget.hold(at: time)
                } else if state.budget.hasStarted {
                    state.budget.run(at: time)
                }
                return state.transfer
            }
            transfer?.setThrottled(isThrottled)
        case .beginLookUps(let queue):
            store.readers?.allow(downTo: queue.map { $0 == .fast ? .urgent : .background })
        case .waitForTurn(let job):
            let time = time.now()
            job.withState { $0.budget.hold(at: time) }
            disarm(job)
        case .setQueue(let job, let queue):
            let transfer = job.withState { state in
                state.queue = queue
                return state.transfer
            }
            transfer?.setQueue(queue)
        case .abort(let job):
            let transfer = job.withState { state in
                state.isAborted = true
                return exchange(&state.transfer, with: nil)
            }
            transfer?.cancel()
        case .arm(let id, let job, let delay, let token):
            disarm(job)
            let timer = timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.timerFired(id, token: token, into: &$1) }
            }
            job.withState { $0.timer = timer }
        case .disarm(let job):
            disarm(job)
        case .armPause(let delay, let token):
            let timer = timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.pauseElapsed(token: token, into: &$1) }
            }
            if let old = pauseTimer.withLock({ exchange(&$0, with: timer) }) { timers.cancel(old) }
        case .end(let task, let job, let ending, let queue):
            let detached = task.detach(in: queue)
            for timer in detached.timers { timers.cancel(timer) }
            dropParked(job)
            end(task, job, ending)
        case .tellFailure(let task, let job):
            if let failure = job.withState({ $0.failure }), task.tellFailure(failure) { Afterwards.run(task.flush) }
        case .tellRetry(let task, _):
            if task.tellRetry() { Afterwards.run(task.flush) }
        case .call(let body):
            Afterwards.run(body)
        case .note(let job, let note):
            reporter.note(job.key, note)
        }
    }

    private func disarm(_ job: FetchJob) {
        if let timer = job.withState({ exchange(&$0.timer, with: nil) }) { timers.cancel(timer) }
    }
}
