/// Work that a scheduler schedules.
protocol SchedulableWork: Sendable {
    /// The host the work is fetched from: the unit of the limit per host.
    var host: String { get }
}

/// Decides which job runs next. A value: no lock, no clock, no thread, no I/O.
///
/// Events go in, actions come out, appended to an array of the caller's. ``QueueRule`` says which queue yields to which.
/// Rules:
/// 1. at most one job per key;
/// 2. no job starts while work in a queue that comes first is announced, looked up, queued or running; running jobs are
///    throttled as soon as such work is on the network, until that queue is drained;
/// 3. jobs start only while their queue has room; a running job that changes its queue keeps running, and of the slow
///    jobs no more than the queue's number move bytes, the others wait throttled for their turn;
/// 4. each task ends exactly once;
/// 5. parked jobs hold no slot and hold no queue up;
/// 6. no event costs more because more jobs are queued, apart from storage that is given back now and then: each job
///    that ends pays for a few places of it;
/// 7. inside a queue the higher priority starts first, then the queue's order decides;
/// 8. with `maxPause`, one job at a time may run after that wait beside the work that it yields to;
/// 9. while the budget of bytes is spent one transfer goes on, an urgent one if there is one, and nothing else begins;
/// 10. while a holder of a queue cannot take more nothing begins there; running jobs go on.
struct QueueScheduler<Waiter: Sendable, Work: SchedulableWork>: Sendable {
    typealias Action = SchedulerAction<Waiter, Work>

    var table: JobTable<Waiter, Work>
    var queues: JobQueues
    var intake = Intake()
    /// Parked jobs that wait for the network.
    var waitingForNetwork = SlotList<JobIndex>()
    var parkedCount = 0
    /// The number of the latest transfer.
    var lastTransfer: UInt32 = 0
    /// The token of the latest timer.
    var lastToken: UInt32 = 0
    /// Whether no more calls are taken.
    var isClosed = false
    /// Whether ``SchedulerAction/note(_:_:)`` is wanted.
    var makesNotes = true

    /// - Parameter leastCapacity: the jobs and tasks whose storage is kept although few of them are left.
    init(fast: QueueConfiguration = .fast, slow: QueueConfiguration = .slow, leastCapacity: Int = 64) {
        table = JobTable(leastCapacity: leastCapacity)
        queues = JobQueues(
            fast: JobQueue(fast, leastCapacity: leastCapacity), slow: JobQueue(slow, leastCapacity: leastCapacity))
    }

    // MARK: What there is

    /// Jobs of any kind.
    var jobCount: Int { table.jobs.count }

    /// Jobs by what they are doing.
    var counts: QueueCounts {
        QueueCounts(
            fastWaiting: queues[.fast].lookingCount + queues[.fast].queuedCount,
            fastRunning: queues[.fast].runningCount, slowWaiting: queues[.slow].queuedCount,
            slowRunning: queues[.slow].runningCount, parked: parkedCount)
    }

    func job(for key: CacheKey) -> JobID? {
        table.job(for: key).map(table.jobs.id(of:))
    }

    func work(of id: JobID) -> Work? {
        table.jobs.index(of: id).map { table[$0].work }
    }

    /// The tasks that wait for a job, oldest first.
    func waiters(of id: JobID) -> [(id: TaskID, waiter: Waiter)] {
        guard let job = table.jobs.index(of: id) else { return [] }
        return table.tasks(of: job).map { (table.tasks.id(of: $0), table[$0].waiter) }
    }

    /// How urgent a job is now: where its look-up waits.
    func urgency(of id: JobID) -> JobUrgency? {
        guard let index = table.jobs.index(of: id) else { return nil }
        let (queue, level) = (table[index].queue, table[index].level)
        return JobUrgency(
            queue: queue, priority: Priority(Double(level) / 100), isLIFO: queues[queue].configuration.order == .lifo)
    }

    /// What the job of a task is doing; `nil` once the task has ended.
    func state(of id: TaskID) -> JobState? {
        guard let task = table.tasks.index(of: id) else { return nil }
        switch table[table.job(of: task)].phase {
        case .running(let run) where run.isOnNetwork: return run.isThrottled ? .paused : .transferring
        case .parked: return .parked
        case .running, .looking, .queued, .unplaced: return .waiting
        }
    }

    func isParked(_ id: JobID) -> Bool {
        guard let job = table.jobs.index(of: id), case .parked = table[job].phase else { return false }
        return true
    }

    func queue(of id: TaskID) -> FetchQueue? {
        table.tasks.index(of: id).map { table[$0].queue }
    }

    /// The jobs that are transferring.
    var jobsOnNetwork: [(id: JobID, work: Work)] {
        FetchQueue.byUrgency.flatMap { named(queues[$0].running).filter { $0.run?.isOnNetwork == true } }
            .map { ($0.id, $0.work) }
    }

    /// The jobs that wait for the network.
    var jobsWaitingForNetwork: [(id: JobID, work: Work)] {
        named(waitingForNetwork).map { ($0.id, $0.work) }
    }

    private func named(_ list: SlotList<JobIndex>) -> [(id: JobID, work: Work, run: JobRun?)] {
        list.indices(in: table.jobs).map { (table.jobs.id(of: $0), table[$0].work, table[$0].run) }
    }
}
