/// The jobs and tasks of a scheduler, in slots that are used again. Lists run through the slots by index, so that
/// linking, unlinking and finding cost the same whatever the number of jobs.
struct JobSlots<Waiter: Sendable, Work: Sendable> {
    static var none: Int32 { -1 }

    enum Phase: UInt8 {
        /// The slot is free.
        case free
        /// Waits for the disk tier's answer; holds no lane slot.
        case looking
        /// Waits in its lane for a slot.
        case queued
        /// Holds a lane slot.
        case running
        /// Waits for the network or a back-off; holds no slot.
        case parked
    }

    /// Whether the disk tier has been asked for this job.
    enum Lookup: UInt8 {
        case notDone, underWay, missed
    }

    struct Job {
        var generation: UInt32 = 0
        var phase = Phase.free
        var lane = Lane.slow
        var lookup = Lookup.notDone
        /// The transfer has begun.
        var onNetwork = false
        var isThrottled = false
        var isWaitingForNetwork = false
        /// A new attempt after a failure: its tasks hear of it when it starts.
        var isRetry = false
        /// Queued at the front once it leaves the look-up.
        var goesToFront = false
        /// Tells a timer that is still meant from one that is not.
        var timerToken: UInt32 = 0
        /// The priority the job is queued by, 0…100.
        var level: UInt8 = 0
        /// The place inside its level; lower is earlier.
        var order: Int64 = 0
        /// The host group it is counted in.
        var group: Int32 = 0
        var previous: Int32 = -1
        var next: Int32 = -1
        var firstTask: Int32 = -1
        var lastTask: Int32 = -1
        var fastTasks: Int32 = 0
        /// Tasks, and those of them that the disk tier may answer.
        var taskCount: Int32 = 0
        var readers: Int32 = 0
        /// The priorities of the tasks.
        var levels = LevelCounts()
        /// Which of those on the network began first.
        var started: UInt64 = 0
        var key: CacheKey?
        var work: Work?
    }

    struct Task {
        var generation: UInt32 = 0
        var lane = Lane.slow
        var level: UInt8 = 0
        /// The task can be answered by the disk tier, by the network.
        var reads = true
        var fetches = true
        var job: Int32 = -1
        var previous: Int32 = -1
        var next: Int32 = -1
        var waiter: Waiter?
    }

    var jobs: [Job] = []
    var tasks: [Task] = []
    /// Counts the tasks that are gone through, for tests.
    var steps: StepCounter?
    private var jobsByKey = KeyTable()
    private var freeJob: Int32 = -1
    private var freeTask: Int32 = -1

    func isCurrent(_ id: JobID) -> Bool {
        jobs[Int(id.index)].generation == id.generation && jobs[Int(id.index)].phase != .free
    }

    func isCurrent(_ id: TaskID) -> Bool {
        tasks[Int(id.index)].generation == id.generation && tasks[Int(id.index)].waiter != nil
    }

    var jobCount: Int { jobsByKey.count }

    func job(for key: CacheKey) -> Int32? {
        let job = jobsByKey.find(key.hashCode) { jobs[Int($0)].key == key }
        return job >= 0 ? job : nil
    }

    func id(ofJob index: Int32) -> JobID {
        JobID(index: index, generation: jobs[Int(index)].generation)
    }

    func id(ofTask index: Int32) -> TaskID {
        TaskID(index: index, generation: tasks[Int(index)].generation)
    }

    mutating func addJob(key: CacheKey, work: Work) -> Int32 {
        let index: Int32
        if freeJob >= 0 {
            index = freeJob
            freeJob = jobs[Int(index)].next
        } else {
            index = Int32(jobs.count)
            jobs.append(Job())
        }
        let generation = jobs[Int(index)].generation &+ 1
        let hash = key.hashCode
        jobs[Int(index)] = Job(generation: generation, key: key, work: work)
        jobsByKey.insert(hash, index)
        return index
    }

    mutating func removeJob(_ index: Int32) {
        let generation = jobs[Int(index)].generation
        if let key = jobs[Int(index)].key { jobsByKey.remove(key.hashCode, index) }
        jobs[Int(index)] = Job(generation: generation, next: freeJob)
        freeJob = index
    }

    mutating func addTask(_ waiter: Waiter, to job: Int32, lane: Lane, level: UInt8, reads: Bool, fetches: Bool)
        -> Int32
    {
        let index: Int32
        if freeTask >= 0 {
            index = freeTask
            freeTask = tasks[Int(index)].next
        } else {
            index = Int32(tasks.count)
            tasks.append(Task())
        }
        let last = jobs[Int(job)].lastTask
        tasks[Int(index)] = Task(
            generation: tasks[Int(index)].generation &+ 1, lane: lane, level: level, reads: reads,
            fetches: fetches, job: job, previous: last, waiter: waiter)
        if last >= 0 { tasks[Int(last)].next = index } else { jobs[Int(job)].firstTask = index }
        jobs[Int(job)].lastTask = index
        if lane == .fast { jobs[Int(job)].fastTasks += 1 }
        if reads { jobs[Int(job)].readers += 1 }
        jobs[Int(job)].taskCount += 1
        jobs[Int(job)].levels.add(level)
        return index
    }

    mutating func setLevel(_ level: UInt8, ofTask index: Int32) {
        let job = Int(tasks[Int(index)].job)
        jobs[job].levels.remove(tasks[Int(index)].level)
        jobs[job].levels.add(level)
        tasks[Int(index)].level = level
    }

    /// Takes the task out of its job and hands its waiter back, so that the caller decides where it is released.
    mutating func removeTask(_ index: Int32) -> Waiter? {
        let task = tasks[Int(index)]
        if task.previous >= 0 {
            tasks[Int(task.previous)].next = task.next
        } else {
            jobs[Int(task.job)].firstTask = task.next
        }
        if task.next >= 0 {
            tasks[Int(task.next)].previous = task.previous
        } else {
            jobs[Int(task.job)].lastTask = task.previous
        }
        if task.lane == .fast { jobs[Int(task.job)].fastTasks -= 1 }
        if task.reads { jobs[Int(task.job)].readers -= 1 }
        jobs[Int(task.job)].taskCount -= 1
        jobs[Int(task.job)].levels.remove(task.level)
        tasks[Int(index)] = Task(generation: task.generation, next: freeTask)
        freeTask = index
        return task.waiter
    }

    /// The tasks of a job, oldest first.
    func taskIndices(of job: Int32) -> [Int32] {
        var indices: [Int32] = []
        var index = jobs[Int(job)].firstTask
        while index >= 0 {
            indices.append(index)
            index = tasks[Int(index)].next
        }
        steps?.add(indices.count)
        return indices
    }
}
