import Foundation
import Logging
import Synchronization

/// Drives the scheduler: holds it in a lock, applies events under it, and carries the actions out after it is
/// released, in the order they were decided, one thread at a time.
///
/// No action blocks: disk and network have threads of their own.
final class FetchEngine: Sendable {
    typealias Scheduler = LaneScheduler<DataTask, FetchJob>

    struct Options: Sendable {
        var progressInterval: Duration
        var maximumRedirects = 10
        var wakeSpacing: Duration = .milliseconds(4)
        /// How long a transfer whose host cannot be reached is left alone.
        var lostNetworkGrace: Duration = .seconds(2)
        /// A random number in 0..<1.
        var random: @Sendable () -> Double = { .random(in: 0..<1) }
    }

    private struct State {
        var scheduler: Scheduler
        var outbox: [Scheduler.Action] = []
        var isCarryingOut = false
    }

    let store: DataStore
    let transport: any Transport
    let network: any NetworkMonitor
    let time: TimeSource
    let timers: TimerQueue
    let now: @Sendable () -> Date
    let options: Options
    let reporter: FetchReporter
    private let state: Mutex<State>
    private let observation = Mutex<ChangeObservation?>(nil)

    init(
        scheduler: Scheduler, store: DataStore, transport: any Transport, network: any NetworkMonitor,
        time: TimeSource, now: @escaping @Sendable () -> Date, options: Options, reporter: FetchReporter
    ) {
        state = Mutex(State(scheduler: scheduler))
        self.store = store
        self.transport = transport
        self.network = network
        self.time = time
        timers = TimerQueue(time)
        self.now = now
        self.options = options
        self.reporter = reporter
        let observation = network.observe { [weak self] in self?.networkChanged() }
        self.observation.withLock { $0 = observation }
    }

    // MARK: Events

    /// Applies an event, and carries out what follows unless another thread is at it, which then does.
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

    private func carryOut() {
        // Closures that run in place are called when this thread no longer carries out for others.
        var toFlush: [DataTask] = []
        var actions: [Scheduler.Action] = []
        while true {
            actions.removeAll(keepingCapacity: true)
            let isDone = state.withLock { state in
                if state.outbox.isEmpty {
                    state.isCarryingOut = false
                    return true
                }
                swap(&state.outbox, &actions)
                return false
            }
            if isDone { break }
            for action in actions { perform(action, &toFlush) }
        }
        for task in toFlush { task.flush() }
    }

    func inspect<Result: Sendable>(_ body: (borrowing Scheduler) -> Result) -> Result {
        state.withLock { body($0.scheduler) }
    }

    // MARK: Calls

    /// Starts a call that the memory tier could not answer. The task ends also if the engine has been shut down.
    /// - Parameter found: what the tiers have, if they were asked before.
    func submit(
        _ task: DataTask, reads: Bool, fetches: Bool, insistsOnNetwork: Bool, keepsOnDisk: Bool,
        found: FetchJob.Found? = nil
    ) {
        let ids = apply { scheduler, actions -> (job: JobID, task: TaskID, work: FetchJob, isParked: Bool)? in
            if scheduler.isClosed { return nil }
            let (job, id) = scheduler.submit(
                task.key, task, lane: task.requestedLane, priority: task.request.priority, reads: reads,
                fetches: fetches, makeWork: { FetchJob(task.call) }, into: &actions)
            guard let work = scheduler.work(of: job) else { return nil }
            work.withState { state in
                if insistsOnNetwork { state.insistsOnNetwork = true }
                if keepsOnDisk { state.keepsOnDisk = true }
                if task.call.keepsInMemory { state.keepsInMemory = true }
                if task.request.durability == .durable { state.durability = .durable }
                if state.found == nil { state.found = found }
                if task.call.timeout != nil { state.hasTimeLimits = true }
            }
            task.attach(self, id: id, job: work)
            return (job, id, work, scheduler.isParked(job))
        }
        guard let ids else {
            finish(task, nil, .failure(.shutDown))
            return
        }
        if ids.isParked, let failure = ids.work.withState({ $0.failure }) {
            if task.tellFailure(failure) { task.flush() }
        }
        armTimeout(of: ids.task, task, ids.work)
    }

    func cancel(_ id: TaskID) { apply { $0.cancel(id, into: &$1) } }
    func cancel(_ key: CacheKey) { apply { $0.cancel(key, into: &$1) } }
    func cancelAll() { apply { $0.cancelAll(into: &$1) } }
    func demote(_ id: TaskID) { apply { $0.demote(id, into: &$1) } }
    func demote(_ key: CacheKey) { apply { $0.demote(key, into: &$1) } }
    func setPriority(_ priority: Priority, of id: TaskID) { apply { s, _ in s.setPriority(priority, of: id) } }
    func storageBacklogged(_ notice: BacklogNotice) { apply { $0.storageBacklogged(notice, into: &$1) } }
    /// What is being fetched for the key is not to be kept.
    func invalidate(_ key: CacheKey) {
        let job = inspect { scheduler in scheduler.job(for: key).flatMap { scheduler.work(of: $0) } }
        job?.withState { $0.isInvalidated = true }
    }

    func lane(of id: TaskID) -> Lane? { inspect { $0.lane(of: id) } }
    func state(of id: TaskID) -> DataTask.State? { inspect { $0.state(of: id) } }

    /// Ends all tasks as cancelled, writes what is staged and joins the threads.
    func shutdown() async {
        apply { scheduler, actions in
            scheduler.isClosed = true
            scheduler.cancelAll(into: &actions)
        }
        let observation = observation.withLock { exchange(&$0, with: nil) }
        _ = consume observation
        timers.end()
        await transport.shutdown()
        await store.shutdown()
    }

    // MARK: Actions

    private func perform(_ action: Scheduler.Action, _ toFlush: inout [DataTask]) {
        switch action {
        case .lookUp(let id, let job):
            let (call, wantsPartial) = job.withState { ($0.lead, $0.partial == nil) }
            store.lookUp(job.key, call, wantsPartial: wantsPartial) { found, partial in
                self.lookedUp(id, job, found, partial: partial)
            }
        case .transfer(let id, let job, let lane, let isThrottled):
            transfer(id, job, lane: lane, isThrottled: isThrottled)
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
        case .waitForTurn(let job):
            let time = time.now()
            job.withState { $0.budget.hold(at: time) }
        case .setLane(let job, let lane):
            let transfer = job.withState { state in
                state.lane = lane
                return state.transfer
            }
            transfer?.setLane(lane)
        case .abort(let job):
            let transfer = job.withState { state in
                state.isAborted = true
                return exchange(&state.transfer, with: nil)
            }
            transfer?.cancel()
        case .arm(let id, _, let delay, let token):
            timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.timerFired(id, token: token, into: &$1) }
            }
        case .armPause(let delay, let token):
            timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.pauseElapsed(token: token, into: &$1) }
            }
        case .end(let task, let job, let ending, let lane):
            _ = task.detach(in: lane)
            end(task, job, ending, &toFlush)
        case .tellFailure(let task, let job):
            if let failure = job.withState({ $0.failure }), task.tellFailure(failure) {
                toFlush.append(task)
            }
        case .tellRetry(let task, _):
            if task.tellRetry() { toFlush.append(task) }
        case .note(let job, let note):
            reporter.note(job.key, note)
        }
    }

    private func end(_ task: DataTask, _ job: FetchJob, _ ending: Ending, _ toFlush: inout [DataTask]) {
        let (found, fetched, failure) = job.withState { ($0.found, $0.fetched, $0.failure) }
        let result: Result<DataResponse, DipperError> =
            switch ending {
            case .cached: found.map { .success(keptAnswer(for: task, $0)) } ?? .failure(.notCached)
            case .keptAnswer:
                found.map { .success(DataResponse($0.value, source: .stale)) } ?? .failure(failure ?? .transport)
            case .fetched: fetched.map { .success($0) } ?? .failure(.transport)
            case .failed: .failure(task.withLink { $0.failure } ?? failure ?? .transport)
            case .notCached: .failure(.notCached)
            case .cancelled: .failure(.cancelled)
            case .timedOut: .failure(.timedOut)
            }
        if ending == .fetched, task.request.waitsForDiskWrite {
            let waits = job.withState { state in
                guard !state.isWritten else { return false }
                state.whenWritten.append { [weak self] in self?.finish(task, job, result) }
                return true
            }
            if waits { return }
        }
        reporter.ended(task.key, result)
        if task.end(result) { toFlush.append(task) }
    }

    /// Ends a task outside the outbox.
    func finish(_ task: DataTask, _ job: FetchJob?, _ result: Result<DataResponse, DipperError>) {
        reporter.ended(task.key, result)
        if task.end(result) { task.flush() }
    }
}
