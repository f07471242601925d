/// The work that a scheduler schedules.
protocol SchedulableWork: Sendable {
    /// The host that the work is fetched from. The limit per host applies to it.
    var host: String { get }
}

/// The scheduler, which decides which job runs next. A value: no lock, no clock, no thread, no I/O.
///
/// Events go in, and actions are appended to an array of the caller's. ``QueueRule`` says which queue yields to which.
/// Rules:
/// 1. There is at most one job per key.
/// 2. No job starts while work in a queue that comes first is announced, looked up, queued or running. Running jobs are
///    throttled as soon as such work is on the network, until its queue is drained.
/// 3. Jobs start only while their queue has room. A running job that changes its queue keeps running. At most as many
///    slow jobs as their queue has slots move bytes; the others wait throttled for their turn.
/// 4. Each task ends exactly once.
/// 5. Parked jobs hold no slot and hold no queue up.
/// 6. No event costs more because more jobs are queued, apart from storage that is given back now and then: each job
///    that ends pays for a few places of it.
/// 7. Inside a queue the job with the higher priority starts first; among equals the queue's order decides.
/// 8. With `maxPause`, after that wait one job at a time may run beside the work that it yields to.
/// 9. While the budget of bytes is spent one transfer goes on, an urgent one if there is one, and nothing else begins.
/// 10. While a holder of a queue cannot take more, nothing begins in that queue; running jobs go on.
struct QueueScheduler<Waiter: Sendable, Work: SchedulableWork>: Sendable {
    typealias Action = SchedulerAction<Waiter, Work>

    var table: JobTable<Waiter, Work>
    var queues: JobQueues
    var intake = Intake()
    /// The parked jobs that wait for the network.
    var waitingForNetwork = SlotList<JobIndex>()
    var parkedCount = 0
    /// The number of the latest transfer.
    var lastTransfer: UInt32 = 0
    /// The token of the latest timer.
    var lastToken: UInt32 = 0
    /// Whether the scheduler takes no more calls.
    var isClosed = false
    /// Whether the scheduler makes the actions ``SchedulerAction/note(_:_:)``.
    var makesNotes = true

    /// - Parameter leastCapacity: the number of jobs and tasks whose storage is kept even if few of them are left.
    init(fast: QueueConfiguration = .fast, slow: QueueConfiguration = .slow, leastCapacity: Int = 64) {
        table = JobTable(leastCapacity: leastCapacity)
        queues = JobQueues(
            fast: JobQueue(fast, leastCapacity: leastCapacity), slow: JobQueue(slow, leastCapacity: leastCapacity))
    }

    // MARK: State

    /// The number of jobs, whatever they are doing.
    var jobCount: Int { table.jobs.count }

    /// The numbers of jobs by what they are doing.
    var counts: QueueCounts {
        QueueCounts(
            fastWaiting: queues[.fast].waitingCount, fastRunning: queues[.fast].runningCount,
            slowWaiting: queues[.slow].waitingCount, slowRunning: queues[.slow].runningCount, parked: parkedCount)
    }

    func job(for key: CacheKey) -> JobID? {
        table.job(for: key).map(table.jobs.id(of:))
    }

    func work(of id: JobID) -> Work? {
        table.jobs.index(of: id).map { table[$0].work }
    }

    /// Returns the tasks that wait for a job, oldest first.
    func waiters(of id: JobID) -> [(id: TaskID, waiter: Waiter)] {
        guard let job = table.jobs.index(of: id) else { return [] }
        return table.tasks(of: job).map { (table.tasks.id(of: $0), table[$0].waiter) }
    }

    /// Returns the urgency of a job now, by which its look-up waits.
    func urgency(of id: JobID) -> JobUrgency? {
        guard let index = table.jobs.index(of: id) else { return nil }
        let (queue, level) = (table[index].queue, table[index].level)
        return JobUrgency(
            queue: queue, priority: Priority(Double(level) / 100), isLIFO: queues[queue].configuration.order == .lifo)
    }

    /// Returns the state of the job of a task; `nil` once the task has ended.
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
