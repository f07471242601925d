/// What the scheduler asks of the work it schedules.
protocol SchedulableWork: Sendable {
    /// The host the work is fetched from: the unit of the limit per host.
    var host: String { get }
}

/// Decides which job runs next. A value: no lock, no clock, no thread, no I/O.
///
/// Events go in, actions come out, appended to an array of the caller's. Rules:
/// 1. at most one job per key;
/// 2. no slow job starts while a fast job is announced, looked up, queued or running; slow jobs running then are throttled
///    as soon as a fast job is on the network, until the fast lane is drained;
/// 3. jobs start only while their lane has room; a running job that changes its lane keeps running, and of the
///    slow ones no more than the lane's number move bytes, the others wait throttled for their turn;
/// 4. each task ends exactly once;
/// 5. parked jobs hold no slot and do not hold up the slow lane;
/// 6. no event costs more because more jobs are queued;
/// 7. inside a lane the higher priority starts first, then the lane's order decides;
/// 8. with `maxPause`, one slow job at a time may run beside fast work after that wait;
/// 9. while the budget of bytes is spent one transfer goes on, an urgent one if there is one, and nothing else begins;
/// 10. while a holder of a lane cannot take more nothing begins there; what has begun goes on.
struct LaneScheduler<Waiter: Sendable, Work: SchedulableWork> {
    typealias Action = SchedulerAction<Waiter, Work>

    var slots = JobSlots<Waiter, Work>()
    var fast: LaneQueue
    var slow: LaneQueue
    /// Fast jobs waiting for the disk tier, without a slot.
    var fastLooking = 0
    /// Fast work that is about to come.
    var fastReservations = 0
    /// Fast jobs that are transferring.
    var fastOnNetwork = 0
    /// Slow jobs that hold a slot, oldest first. Never many.
    var slowRunning: [Int32] = []
    /// Jobs of both lanes that are on the network. Never many.
    var transferring = Set<Int32>()
    var parkedForNetwork = Set<Int32>()
    var parked = 0
    /// Fast work is on the network: running slow jobs are throttled until the fast lane is drained.
    var isThrottling = false
    var backlog = StorageBacklog.none
    var backlogNumber: UInt64 = 0
    /// The transfers hold as many bytes as they may.
    var isBudgetSpent = false
    var budgetNumber: UInt64 = 0
    /// Urgent transfers are throttled because the budget is spent.
    var isHoldingFast = false
    /// Consumers of fetched bytes that may be unable to take more. Never many.
    var holders: [HolderID: Holder] = [:]
    /// Holders so far.
    var holderNumber: UInt64 = 0
    /// Transfers that have begun so far.
    var starts: UInt64 = 0
    /// No more calls are taken.
    var isClosed = false
    /// Whether ``SchedulerAction/note(_:_:)`` is wanted.
    var makesNotes = true
    var pause = Pause.none
    var pauseToken: UInt32 = 0

    /// One who takes what is fetched.
    struct Holder: Sendable {
        /// The lane it holds back; with the fast lane the slow one, too.
        let lane: Lane
        /// Its latest word.
        var notice: ByteBudget.Notice?
    }

    enum Pause: Equatable {
        case none
        /// The slow lane is held up and the timer runs.
        case waiting
        /// This slow job may run beside fast work.
        case granted(Int32)
    }

    init(fast: LaneConfiguration = .fast, slow: LaneConfiguration = .slow) {
        self.fast = LaneQueue(fast)
        self.slow = LaneQueue(slow)
    }

    // MARK: What there is

    /// Jobs of any kind.
    var jobCount: Int { slots.jobCount }

    var isFastBusy: Bool { fastReservations + fastLooking + fast.queued + fast.running > 0 }

    /// Whether nothing is to begin in a lane, because what is fetched could not be taken.
    func isHeldBack(_ lane: Lane) -> Bool {
        holders.values.contains { $0.notice?.isSpent == true && ($0.lane == .fast || lane == .slow) }
    }

    /// Where a look-up for the job waits: as urgent as the job is now.
    func lookUpPlace(_ id: JobID) -> LookUpQueue.Place? {
        guard slots.isCurrent(id) else { return nil }
        let job = slots.jobs[Int(id.index)]
        let order = (job.lane == .fast ? fast : slow).configuration.order
        return .init(job.lane, Priority(Double(job.level) / 100), isLIFO: order == .lifo)
    }

    /// Jobs by what they are doing.
    var counts: LaneCounts {
        LaneCounts(
            fastWaiting: fast.queued + fastLooking, fastRunning: fast.running, slowWaiting: slow.queued,
            slowRunning: slow.running, parked: parked)
    }

    func job(for key: CacheKey) -> JobID? {
        slots.job(for: key).map(slots.id(ofJob:))
    }

    func work(of job: JobID) -> Work? {
        slots.isCurrent(job) ? slots.jobs[Int(job.index)].work : nil
    }

    /// The tasks that wait for a job, oldest first.
    func waiters(of job: JobID) -> [(id: TaskID, waiter: Waiter)] {
        guard slots.isCurrent(job) else { return [] }
        return slots.taskIndices(of: job.index).compactMap { index in
            slots.tasks[Int(index)].waiter.map { (slots.id(ofTask: index), $0) }
        }
    }

    /// What the job of a task is doing; `nil` once the task has ended.
    func state(of task: TaskID) -> DataTask.State? {
        guard slots.isCurrent(task) else { return nil }
        let job = Int(slots.tasks[Int(task.index)].job)
        switch slots.jobs[job].phase {
        case .running where slots.jobs[job].onNetwork: return slots.jobs[job].isThrottled ? .paused : .transferring
        case .parked: return .parked
        case .running, .looking, .queued, .free: return .waiting
        }
    }

    func isParked(_ job: JobID) -> Bool {
        slots.isCurrent(job) && slots.jobs[Int(job.index)].phase == .parked
    }

    func lane(of task: TaskID) -> Lane? {
        slots.isCurrent(task) ? slots.tasks[Int(task.index)].lane : nil
    }

    /// The jobs that are transferring.
    var jobsOnNetwork: [(id: JobID, work: Work)] {
        transferring.compactMap { index in
            slots.jobs[Int(index)].work.map { (slots.id(ofJob: index), $0) }
        }
    }

    /// The jobs that wait for the network.
    var jobsWaitingForNetwork: [(id: JobID, work: Work)] {
        parkedForNetwork.compactMap { index in
            slots.jobs[Int(index)].work.map { (slots.id(ofJob: index), $0) }
        }
    }
}
