/// Changes of tasks and of the configuration.
extension QueueScheduler {
    /// Moves the more urgent tasks of a job to a less urgent queue, and the job with them.
    mutating func demote(_ key: CacheKey, to queue: FetchQueue = .slow, into actions: inout [Action]) {
        guard let job = table.job(for: key), queue.yields(to: table[job].queue) else { return }
        for task in table.tasks(of: job) where queue.yields(to: table[task].queue) {
            table.change(task) { $0.queue = queue }
        }
        settle(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Moves a task to a less urgent queue. The job follows if no more urgent task waits for it.
    mutating func demote(_ id: TaskID, to queue: FetchQueue = .slow, into actions: inout [Action]) {
        guard let task = table.tasks.index(of: id), queue.yields(to: table[task].queue) else { return }
        table.change(task) { $0.queue = queue }
        settle(table.job(of: task), into: &actions)
        dispatch(into: &actions)
    }

    /// Moves a task to a more urgent queue, and its job with it. What a new urgent task of the job would do happens: a
    /// job that waits for a back-off wakes.
    mutating func promote(_ id: TaskID, to queue: FetchQueue = .fast, into actions: inout [Action]) {
        guard let task = table.tasks.index(of: id), table[task].queue.yields(to: queue) else { return }
        table.change(task) { $0.queue = queue }
        let job = table.job(of: task)
        if table[job].queue.yields(to: queue) { move(job, to: queue, into: &actions) }
        if queue.rule.endsBackOff, case .parked(.timer) = table[job].phase { wake(job, into: &actions) }
        dispatch(into: &actions)
    }

    mutating func setPriority(_ priority: Priority, of id: TaskID, into actions: inout [Action]) {
        guard let task = table.tasks.index(of: id) else { return }
        table.change(task) { $0.level = UInt8(priority.level) }
        refreshLevel(table.job(of: task), into: &actions)
    }

    /// Ends a task. Its job goes on for the other tasks.
    mutating func cancel(_ id: TaskID, as ending: Ending = .cancelled, into actions: inout [Action]) {
        guard let task = table.tasks.index(of: id) else { return }
        let job = table.job(of: task)
        end(task, ending, into: &actions)
        settle(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Ends all tasks of a job, and the job.
    mutating func cancel(_ key: CacheKey, into actions: inout [Action]) {
        guard let job = table.job(for: key) else { return }
        endAll(job, .cancelled, into: &actions)
        settle(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Ends all tasks and jobs.
    mutating func cancelAll(into actions: inout [Action]) {
        for job in table.jobs.indices {
            endAll(job, .cancelled, into: &actions)
            settle(job, into: &actions)
        }
        dispatch(into: &actions)
    }

    /// Changes the configuration of a queue. If the limit per host comes or goes, this goes through the whole queue.
    mutating func configure(
        _ queue: FetchQueue, _ configuration: QueueConfiguration, into actions: inout [Action]
    ) {
        queues[queue].configure(configuration, in: &table.jobs)
        dispatch(into: &actions)
    }

    /// Lets one job run in a queue that has been held up for its `maxPause`.
    mutating func pauseElapsed(token: UInt32, into actions: inout [Action]) {
        guard let queue = FetchQueue.byUrgency.first(where: { queues[$0].pause == .waiting(token: token) }) else {
            return
        }
        queues[queue].pause = .none
        if let paused = queues[queue].firstThrottled(in: table.jobs) {
            queues[queue].pause = .granted(paused)
        } else if queues[queue].hasRoom, intake.accepts(queue), let job = queues[queue].next(in: table.jobs) {
            queues[queue].pause = .granted(job)
            start(job, into: &actions)
        }
        dispatch(into: &actions)
    }
}
