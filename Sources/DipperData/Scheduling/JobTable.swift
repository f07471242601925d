/// The jobs and tasks of a scheduler.
struct JobTable<Waiter: Sendable, Work: Sendable> {
    var jobs: SlotTable<JobIndex, Job<Work>>
    private(set) var tasks: SlotTable<TaskIndex, JobTask<Waiter>>
    private(set) var keys = KeyTable<JobIndex>()
    /// Counts the tasks that are iterated over, for tests.
    var steps: StepCounter?

    init(leastCapacity: Int) {
        jobs = SlotTable(leastCapacity: leastCapacity)
        tasks = SlotTable(leastCapacity: leastCapacity)
    }

    subscript(job: JobIndex) -> Job<Work> {
        _read { yield jobs[job] }
        _modify { yield &jobs[job] }
    }

    subscript(task: TaskIndex) -> JobTask<Waiter> { _read { yield tasks[task] } }

    // MARK: Jobs

    func job(for key: CacheKey) -> JobIndex? {
        keys.find(key.hashCode) { jobs[$0].key == key }
    }

    mutating func add(_ job: Job<Work>) -> JobIndex {
        let hash = job.key.hashCode
        let index = jobs.insert(job)
        keys.insert(hash, index)
        return index
    }

    mutating func remove(_ job: JobIndex) {
        keys.remove(jobs[job].key.hashCode, job)
        jobs.remove(job)
    }

    // MARK: Tasks

    /// Returns the job that a task waits for.
    func job(of task: TaskIndex) -> JobIndex {
        guard let job = jobs.index(of: tasks[task].job) else { preconditionFailure("a task outlives its job") }
        return job
    }

    /// Returns the tasks of a job, oldest first.
    func tasks(of job: JobIndex) -> [TaskIndex] {
        let indices = jobs[job].tasks.indices(in: tasks)
        steps?.add(indices.count)
        return indices
    }

    mutating func add(
        _ waiter: Waiter, to job: JobIndex, queue: FetchQueue, level: UInt8, reads: Bool, fetches: Bool
    ) -> TaskIndex {
        let task = JobTask(
            waiter, of: jobs.id(of: job), queue: queue, level: level, reads: reads, fetches: fetches)
        let index = tasks.insert(task)
        jobs[job].tasks.append(index, in: &tasks)
        jobs[job].wishes.add(task)
        return index
    }

    /// Changes the queue or the priority of a task.
    mutating func change(_ task: TaskIndex, _ body: (inout JobTask<Waiter>) -> Void) {
        let job = job(of: task)
        jobs[job].wishes.remove(tasks[task])
        body(&tasks[task])
        jobs[job].wishes.add(tasks[task])
    }

    /// Removes a task from its job and returns its waiter, so that the caller decides where the waiter is released.
    mutating func remove(_ task: TaskIndex) -> Waiter {
        let job = job(of: task)
        jobs[job].tasks.remove(task, in: &tasks)
        let removed = tasks.remove(task)
        jobs[job].wishes.remove(removed)
        return removed.waiter
    }

    // MARK: Storage

    /// Gives back the storage of tasks that have ended.
    mutating func compactTasks() {
        let moves = tasks.compact()
        for task in tasks.indices { tasks[task].links.follow(moves) }
        for job in jobs.indices { jobs[job].tasks.follow(moves) }
    }

    /// Gives back the storage of jobs that have ended.
    /// - Returns: the moves of the other jobs, which the lists of jobs must follow.
    mutating func compactJobs() -> SlotMoves<JobIndex> {
        let moves = jobs.compact()
        for job in jobs.indices { jobs[job].links.follow(moves) }
        moves.forEach { old, new in keys.move(jobs[new].key.hashCode, from: old, to: new) }
        return moves
    }
}
