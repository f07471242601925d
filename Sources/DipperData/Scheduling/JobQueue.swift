typealias Jobs<Work: Sendable> = SlotTable<JobIndex, Job<Work>>

/// A queue: its configuration, the jobs that wait in it, and the jobs that hold its slots.
struct JobQueue {
    /// The state of a pause, in which one job may run beside the work that its queue yields to.
    enum Pause: Equatable {
        case none
        /// The queue is held up, and the timer with this token runs.
        case waiting(token: UInt32)
        case granted(JobIndex)
    }

    private(set) var configuration: QueueConfiguration
    private var waiting: QueuedJobs
    /// The jobs that hold a slot, in the order in which they came into the queue. There are never many.
    private(set) var running = SlotList<JobIndex>()
    private(set) var runningCount = 0
    /// The number of running jobs that are on the network.
    private(set) var onNetworkCount = 0
    private(set) var throttledCount = 0
    /// The number of jobs that are looked up before they are queued.
    var lookingCount = 0
    /// The number of announcements of work that may come.
    var reservations = 0
    /// Whether work that comes first has been on the network and its queue has not drained since. Running jobs are
    /// throttled meanwhile.
    var isYielding = false
    var pause = Pause.none

    init(_ configuration: QueueConfiguration, leastCapacity: Int) {
        self.configuration = configuration
        waiting = QueuedJobs(configuration, leastCapacity: leastCapacity)
    }

    var queuedCount: Int { waiting.count }

    /// The number of jobs that are looked up before they are queued, or wait for a slot.
    var waitingCount: Int { lookingCount + queuedCount }

    /// Whether there is work in this queue, or work is announced. Parked jobs do not count.
    var isBusy: Bool { reservations + waitingCount + runningCount > 0 }

    /// The number of jobs that may run at a time.
    var slots: Int { max(1, configuration.maxConcurrent) }

    // mutant Queue: `var hasRoom: Bool { runningCount < slots` => `var hasRoom: Bool { runningCount <= slots`
    // mutant Queue: `runningCount < slots && !configuration.isSuspended }` => `runningCount < slots }`
    var hasRoom: Bool { runningCount < slots && !configuration.isSuspended }

    /// The numbers of noted candidates, and of hosts that there is storage for; for tests.
    var capacity: (candidates: Int, hosts: Int) { waiting.capacity }

    // MARK: Queued jobs

    /// Adds a job as the latest to arrive, or in front of all its equals.
    mutating func enqueue<Work: SchedulableWork>(_ job: JobIndex, first: Bool, in jobs: inout Jobs<Work>) {
        waiting.insert(job, first: first, in: &jobs)
    }

    mutating func removeQueued<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        waiting.remove(job, in: &jobs)
    }

    /// Returns the job that starts next and leaves it in its place; `nil` if none may start.
    mutating func next<Work>(in jobs: Jobs<Work>) -> JobIndex? { waiting.next(in: jobs) }

    // MARK: Running jobs

    /// Gives a queued job a slot.
    mutating func start<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        waiting.start(job, in: &jobs)
        addRunning(job, JobRun(), in: &jobs)
    }

    /// Takes a running job over from another queue.
    mutating func takeOver<Work: SchedulableWork>(_ job: JobIndex, _ run: JobRun, in jobs: inout Jobs<Work>) {
        waiting.addRunning(job, in: &jobs)
        addRunning(job, run, in: &jobs)
    }

    private mutating func addRunning<Work>(_ job: JobIndex, _ run: JobRun, in jobs: inout Jobs<Work>) {
        running.append(job, in: &jobs)
        runningCount += 1
        jobs[job].phase = .running(JobRun())
        change(job, to: run, in: &jobs)
    }

    /// Notes that a running job has begun its transfer, or has been throttled or released.
    mutating func change<Work>(_ job: JobIndex, to run: JobRun, in jobs: inout Jobs<Work>) {
        guard let old = jobs[job].run else { return }
        onNetworkCount += (run.isOnNetwork ? 1 : 0) - (old.isOnNetwork ? 1 : 0)
        throttledCount += (run.isThrottled ? 1 : 0) - (old.isThrottled ? 1 : 0)
        jobs[job].phase = .running(run)
    }

    mutating func removeRunning<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        change(job, to: JobRun(), in: &jobs)
        running.remove(job, in: &jobs)
        runningCount -= 1
        waiting.removeRunning(job, in: jobs)
        jobs[job].phase = .unplaced
        if pause == .granted(job) { pause = .none }
    }

    /// Returns the first of the running jobs that is throttled.
    func firstThrottled<Work>(in jobs: Jobs<Work>) -> JobIndex? {
        var next = running.first
        while let job = next, jobs[job].run?.isThrottled == false { next = jobs[job].links.next }
        return next
    }

    /// Returns the job whose transfer began first.
    func oldestTransfer<Work>(in jobs: Jobs<Work>) -> JobIndex? {
        running.indices(in: jobs)
            .compactMap { job in jobs[job].run?.transfer.map { (job: job, number: $0) } }
            .min { $0.number < $1.number }?.job
    }

    // MARK: Changes

    /// Changes the configuration. If the limit per host comes or goes, this goes through the whole queue.
    mutating func configure<Work: SchedulableWork>(_ configuration: QueueConfiguration, in jobs: inout Jobs<Work>) {
        self.configuration = configuration
        if case .waiting = pause, configuration.maxPause == nil { pause = .none }
        waiting.configure(configuration, running: running.indices(in: jobs), in: &jobs)
    }

    /// Updates the lists after jobs have been moved to other places.
    mutating func follow<Work>(_ moves: SlotMoves<JobIndex>, in jobs: Jobs<Work>) {
        running.follow(moves)
        waiting.follow(moves, in: jobs)
        if case .granted(let job) = pause { pause = .granted(moves[job]) }
    }
}
