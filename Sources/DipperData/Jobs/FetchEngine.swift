import Foundation
import Logging

/// The engine of a data cache. It applies events to the scheduler, which a ``StateDriver`` holds, and carries out the
/// actions that follow. ``SourceExchange`` talks to the sources, ``FailureJudge`` judges failures, and ``Revalidator``
/// renews answers that are out of date.
///
/// No action blocks: disk and network have threads of their own.
final class FetchEngine: ActionPerformer {
    typealias Scheduler = FetchMachine.Scheduler

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

    let store: DataStore
    let transport: any Transport
    let network: any NetworkMonitor
    let time: TimeSource
    private let thread = SeparateThread()
    let timers: TimerQueue
    let now: @Sendable () -> Date
    let options: Options
    let events: EventHub
    let driver: StateDriver<FetchMachine, Scheduler.Action>

    init(
        scheduler: Scheduler, store: DataStore, transport: any Transport, network: any NetworkMonitor,
        time: TimeSource, now: @escaping @Sendable () -> Date, options: Options, events: EventHub
    ) {
        driver = StateDriver(FetchMachine(scheduler, inFlightLimit: options.inFlightLimit), turn: options.turn)
        self.store = store
        self.transport = transport
        self.network = network
        self.time = time
        timers = TimerQueue(time, on: thread)
        self.now = now
        self.options = options
        self.events = events
        let observation = network.observe { [weak self] in
            self?.events.networkChanged()
            self?.networkChanged()
        }
        driver.withLock { $0.observation = observation }
        events.whenWishesChange { [weak self] in self?.makeNotes() }
        makeNotes()
    }

    // MARK: Events

    /// Has the scheduler make notes if a sink wants what they say.
    private func makeNotes() {
        apply { [events] scheduler, _ in scheduler.makesNotes = events.wants(.notes) }
    }

    /// Applies an event, and carries out the actions that follow, unless another thread is carrying out actions: then
    /// that thread carries out these as well.
    @discardableResult
    func apply<Result: Sendable>(_ event: (inout Scheduler, inout [Scheduler.Action]) -> Result) -> Result {
        driver.apply(for: self) { machine, actions in event(&machine.scheduler, &actions) }
    }

    /// Runs a turn of the driver. The code of the program's own that follows runs last, because it may take time; code
    /// that follows from work of the engine's thread runs on another thread.
    func takeTurn(_ turn: () -> Void) {
        let steps = Afterwards.collect(turn)
        for step in steps { step() }
    }

    /// Leaves the rest to the engine's thread.
    func handOver(_ rest: @escaping @Sendable () -> Void) { thread.run(rest) }

    /// Returns when all actions that have been decided are carried out.
    func finishCarryingOut() async { await driver.finish() }

    /// Whether no call waits for anything.
    var isIdle: Bool { inspect { $0.jobCount == 0 } }

    /// Returns when no call waits for anything, and the hooks that this engine's threads call have returned.
    func becomeIdle() async {
        await driver.finish { $0.scheduler.jobCount == 0 }
        await thread.finish()
    }

    var revalidations: Revalidator { Revalidator(engine: self) }

    func inspect<Result: Sendable>(_ body: (borrowing Scheduler) -> Result) -> Result {
        driver.withLock { body($0.scheduler) }
    }

    /// Tells a job of an event, and does what follows.
    func tell(_ job: FetchJob, _ event: JobEvent) {
        let consequence = job.withState { $0.apply(event) }
        if let timer = consequence.timer { timers.cancel(timer) }
        consequence.lookUp?.cancel()
        switch event {
        case .throttle(let isThrottled, _): consequence.transfer?.setThrottled(isThrottled)
        case .changeQueue(let queue): consequence.transfer?.setQueue(queue)
        case .abort: consequence.transfer?.cancel()
        default: break
        }
        withExtendedLifetime(consequence) {}
    }

    // MARK: Calls

    /// Starts a call that the memory tier could not answer. The task ends even if the engine has been shut down.
    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - found: what the tiers have, if they have been asked before.
    func submit(_ task: DataTask, reads: Bool? = nil, found: FetchJob.Found? = nil) {
        let place = apply { scheduler, actions -> Place? in
            if scheduler.isClosed { return nil }
            return enroll(
                task, queue: task.requestedQueue, priority: task.request.priority,
                reads: reads ?? task.call.looksUp(in: store), found: found, &scheduler, &actions)
        }
        guard let place else { return finish(task, .failure(.shutDown)) }
        if let failure = place.failure, task.tellFailure(failure) { Afterwards.run(task.flush) }
        if let spent = place.spent.sinceStart(at: time.now()) {
            armTimeout(of: place.id, task, place.job, spent: spent)
        }
    }

    /// A task's identifier, its job, the time spent on the job, and the failure with which the job is parked, if it is.
    private typealias Place = (id: TaskID, job: FetchJob, spent: TimeBudget, failure: DipperError?)

    /// Adds the task to the scheduler. Runs under the engine's lock, so that the task and its identifier in the
    /// scheduler change together.
    private func enroll(
        _ task: DataTask, queue: FetchQueue, priority: Priority, reads: Bool, found: FetchJob.Found?,
        _ scheduler: inout Scheduler, _ actions: inout [Scheduler.Action]
    ) -> Place? {
        let call = task.call
        let first = actions.count
        let (job, id) = scheduler.submit(
            call.key, task, queue: queue, priority: priority, reads: reads, fetches: call.mayFetch,
            makeWork: { FetchJob(call, self) }, into: &actions)
        guard let work = scheduler.work(of: job) else { return nil }
        let joined = work.withState { $0.join(call, found) }
        task.attach(self, id: id, job: work)
        // The call joins before anything else is told of the job.
        if scheduler.makesNotes { actions.insert(.noteJoined(task, work), at: first) }
        return (id, work, joined.spent, scheduler.isParked(job) ? joined.failure : nil)
    }

    /// Turns the tasks of a job to their substitutes, because the cache has nothing for the job.
    func turnToSubstitutes(_ id: JobID, _ scheduler: inout Scheduler, _ actions: inout [Scheduler.Action]) {
        let job = scheduler.work(of: id)
        for (taskID, task) in scheduler.waiters(of: id) where task.isUndecided {
            guard let queue = scheduler.leave(taskID) else { continue }
            task.turnToSubstitute()
            let next = enroll(
                task, queue: queue, priority: task.priority, reads: task.call.looksUp(in: store), found: nil,
                &scheduler, &actions)
            // The hooks of the task hold for the job that it waits for now.
            if job?.wantsProgress.load(ordering: .relaxed) == true {
                next?.job.wantsProgress.store(true, ordering: .relaxed)
            }
            if job?.wantsBytes.load(ordering: .relaxed) == true {
                next?.job.wantsBytes.store(true, ordering: .relaxed)
            }
        }
    }

    // Each method returns false if the engine does not know a task by this identifier.

    func cancel(_ id: TaskID) -> Bool { change(id) { $0.cancel(id, into: &$1) } }
    func demote(_ id: TaskID) -> Bool { change(id) { $0.demote(id, into: &$1) } }
    func promote(_ id: TaskID) -> Bool { change(id) { $0.promote(id, into: &$1) } }
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
        let observation = driver.withLock { exchange(&$0.observation, with: nil) }
        withExtendedLifetime(observation) {}
        timers.end()
        await transport.shutdown()
        await store.shutdown()
    }

    // MARK: Actions

    func perform(_ action: Scheduler.Action) {
        switch action {
        case .lookUp(let id, let job):
            guard let place = place(of: id) else { return }
            let claim = store.history.claim(job.key)
            let state = job.snapshot
            let lookUp = store.lookUp(
                job.key, state.sources.lead, place, wantsPartial: state.findings.partial == nil
            ) { found, partial, delivered in
                self.lookedUp(id, job, found, partial: partial, claim, delivered)
            }
            tell(job, .looksUp(lookUp))
        case .moveLookUp(let id, let job):
            if let place = place(of: id) { job.snapshot.lookUp?.move(to: place) }
        case .dropLookUp(let job):
            tell(job, .dropLookUp)
            events.lookedUp(job, nil)
        case .transfer(let id, let job, let queue, let isThrottled):
            beginTurn(id, job, queue: queue, isThrottled: isThrottled)
        case .setThrottled(let job, let isThrottled):
            tell(job, .throttle(isThrottled, at: time.now()))
        case .beginLookUps(let queue):
            store.readers?.allow(downTo: queue.map { $0 == .fast ? .urgent : .background })
        case .waitForTurn(let job):
            tell(job, .waitForTurn(at: time.now()))
        case .setQueue(let job, let queue):
            tell(job, .changeQueue(queue))
        case .abort(let job):
            tell(job, .abort)
        case .arm(let id, let job, let delay, let token):
            let timer = timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.timerFired(id, token: token, into: &$1) }
            }
            tell(job, .backOff(until: timer))
        case .disarm(let job):
            tell(job, .endBackOff)
        case .armPause(let delay, let token):
            let timer = timers.schedule(after: delay) { [weak self] in
                self?.apply { $0.pauseElapsed(token: token, into: &$1) }
            }
            if let old = driver.withLock({ exchange(&$0.pauseTimer, with: timer) }) { timers.cancel(old) }
        case .end(let task, let job, let ending, let queue):
            end(task, job, ending, in: queue)
        case .tellFailure(let task, let job):
            if let failure = job.snapshot.failure, task.tellFailure(failure) { Afterwards.run(task.flush) }
        case .tellRetry(let task, _):
            if task.tellRetry() { Afterwards.run(task.flush) }
        case .call(let body):
            Afterwards.run(body)
        case .note(let job, let note):
            events.note(job, note)
        case .noteJoined(let task, let job):
            events.joined(task, job)
        }
    }
}
