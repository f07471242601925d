/// The place of a job in the scheduler's table.
struct JobIndex: SlotIndex {
    let raw: UInt32
}

/// The place of a task in the scheduler's table.
struct TaskIndex: SlotIndex {
    let raw: UInt32
}

/// The identifier of a job. It is never reused.
typealias JobID = SlotID<JobIndex>

/// The identifier of a task that waits for a job. It is never reused.
typealias TaskID = SlotID<TaskIndex>

/// The state of a job as its tasks see it.
enum JobState: Sendable, Hashable {
    /// The job is queued or being looked up on disk.
    case waiting
    case transferring
    /// The transfer is held back for more urgent work.
    case paused
    /// The job waits for the network or a back-off.
    case parked
}

/// The urgency of a job now: its queue, its priority in the queue, and the order among jobs of equal priority.
struct JobUrgency: Sendable, Hashable {
    let queue: FetchQueue
    let priority: Priority
    /// Whether newer work comes first (last in, first out).
    let isLIFO: Bool
}

/// The phase of a job.
enum JobPhase: Sendable {
    /// The job is between two phases, within an event.
    case unplaced
    /// The disk tier has been asked, and the job holds no slot. After the answer the job is queued, in front of its
    /// equals or behind them.
    case looking(goesToFront: Bool)
    /// The job waits in its queue for a slot. Among jobs of equal priority the one with the lowest order arrived first.
    case queued(order: Int64)
    /// The job holds a slot of its queue.
    case running(JobRun)
    /// The job waits for the network or a back-off; no slot is held.
    case parked(JobWait)
}

/// The state of a job that holds a slot.
struct JobRun: Sendable {
    /// The number of the job's transfer, lower for transfers that began earlier; `nil` before the transfer begins.
    var transfer: UInt32?
    var isThrottled = false

    var isOnNetwork: Bool { transfer != nil }
}

/// The reason why a job is parked.
enum JobWait: Sendable {
    case network
    /// The job waits for a timer. The token tells this timer from those of earlier waits.
    case timer(token: UInt32)
}

/// One piece of work, and the tasks that wait for it.
struct Job<Work: Sendable>: SlotElement, Linked {
    /// Whether the disk tier has been asked.
    enum LookUp: UInt8 {
        case notDone, underWay, missed
    }

    /// The key and the work; `nil` for a blank.
    private let content: (key: CacheKey, work: Work)?
    /// The most urgent queue of the tasks.
    var queue: FetchQueue
    /// The priority level that the job is queued by, 0…100.
    var level: UInt8
    var phase = JobPhase.unplaced
    var lookUp = LookUp.notDone
    /// Whether the next attempt follows a failure. The tasks are told when it starts.
    var isRetry = false
    /// The host group that counts the job while it is queued or running.
    var group: GroupID?
    /// The neighbours in the list of the job's phase.
    var links = SlotLinks<JobIndex>()
    /// The tasks, oldest first.
    var tasks = SlotList<TaskIndex>()
    /// A summary of what the tasks want.
    var wishes = TaskWishes()

    init(key: CacheKey, work: Work, queue: FetchQueue, level: UInt8) {
        content = (key, work)
        self.queue = queue
        self.level = level
    }

    init() {
        content = nil
        queue = .slow
        level = 0
    }

    var key: CacheKey {
        guard let content else { preconditionFailure("a blank has no key") }
        return content.key
    }

    var work: Work {
        guard let content else { preconditionFailure("a blank has no work") }
        return content.work
    }

    /// The state of the job in its slot; `nil` if it holds none.
    var run: JobRun? {
        if case .running(let run) = phase { run } else { nil }
    }
}

/// A call that waits for a job.
struct JobTask<Waiter: Sendable>: SlotElement, Linked {
    /// The waiter and its job; `nil` for a blank.
    private let content: (waiter: Waiter, job: JobID)?
    var queue: FetchQueue
    var level: UInt8
    /// Whether the disk tier may answer.
    let reads: Bool
    /// Whether the network may answer.
    let fetches: Bool
    /// The neighbours among the tasks of the job.
    var links = SlotLinks<TaskIndex>()

    init(_ waiter: Waiter, of job: JobID, queue: FetchQueue, level: UInt8, reads: Bool, fetches: Bool) {
        content = (waiter, job)
        self.queue = queue
        self.level = level
        self.reads = reads
        self.fetches = fetches
    }

    init() {
        content = nil
        queue = .slow
        level = 0
        reads = false
        fetches = false
    }

    var waiter: Waiter {
        guard let content else { preconditionFailure("a blank has no waiter") }
        return content.waiter
    }

    var job: JobID {
        guard let content else { preconditionFailure("a blank has no job") }
        return content.job
    }
}
