/// The ends of tasks, and of jobs that no task waits for.
extension QueueScheduler {
    mutating func end(_ task: TaskIndex, _ ending: Ending, into actions: inout [Action]) {
        let queue = table[task].queue
        let work = table[table.job(of: task)].work
        actions.append(.end(table.remove(task), work, ending, queue))
    }

    mutating func endAll(_ job: JobIndex, _ ending: Ending, into actions: inout [Action]) {
        for task in table.tasks(of: job) { end(task, ending, into: &actions) }
    }

    /// Removes a task from its job without ending it. The job is settled with the next event.
    /// - Returns: the queue that the task was in.
    mutating func leave(_ id: TaskID) -> FetchQueue? {
        guard let task = table.tasks.index(of: id) else { return nil }
        let queue = table[task].queue
        _ = table.remove(task)
        return queue
    }

    /// Ends a job that has no tasks; otherwise adapts its queue and its priority to its tasks.
    /// - Returns: whether the job goes on.
    @discardableResult
    mutating func settle(_ job: JobIndex, isFinishing: Bool = false, into actions: inout [Action]) -> Bool {
        if let queue = table[job].wishes.queue {
            if queue != table[job].queue { move(job, to: queue, into: &actions) }
            refreshLevel(job, into: &actions)
            return true
        }
        forgetLookUp(job, into: &actions)
        let (queue, work) = (table[job].queue, table[job].work)
        switch table[job].phase {
        case .unplaced:
            break
        case .looking:
            queues[queue].lookingCount -= 1
        case .queued:
            queues[queue].removeQueued(job, in: &table.jobs)
        case .running(let run):
            queues[queue].removeRunning(job, in: &table.jobs)
            // mutant Cancelling: `if run.isOnNetwork, !isFinishing {` => `if run.isOnNetwork, isFinishing {`
            if run.isOnNetwork, !isFinishing { actions.append(.abort(work)) }
        case .parked(let wait):
            parkedCount -= 1
            if case .network = wait { waitingForNetwork.remove(job, in: &table.jobs) }
            actions.append(.disarm(work))
        }
        note(job, .ended, into: &actions)
        table.remove(job)
        return false
    }

    // MARK: Look-ups

    mutating func lookUp(_ job: JobIndex, into actions: inout [Action]) {
        table[job].lookUp = .underWay
        note(job, .looking(table[job].queue), into: &actions)
        actions.append(.lookUp(table.jobs.id(of: job), table[job].work))
    }

    /// Moves a look-up that is under way to the urgency that the job has now.
    func moveLookUp(_ job: JobIndex, into actions: inout [Action]) {
        guard table[job].lookUp == .underWay else { return }
        actions.append(.moveLookUp(table.jobs.id(of: job), table[job].work))
    }

    /// Drops a look-up that is under way. The next task that reads asks anew.
    mutating func forgetLookUp(_ job: JobIndex, into actions: inout [Action]) {
        if table[job].lookUp == .underWay { actions.append(.dropLookUp(table[job].work)) }
        table[job].lookUp = .notDone
    }

    // MARK: Helpers

    mutating func arm(_ job: JobIndex, after delay: Duration, into actions: inout [Action]) {
        lastToken &+= 1
        table[job].phase = .parked(.timer(token: lastToken))
        actions.append(.arm(table.jobs.id(of: job), table[job].work, after: delay, token: lastToken))
    }

    func note(_ job: JobIndex, _ note: JobNote, into actions: inout [Action]) {
        if makesNotes { actions.append(.note(table[job].work, note)) }
    }

    /// Gives a job the priority of its most important task.
    mutating func refreshLevel(_ job: JobIndex, into actions: inout [Action]) {
        setLevel(table[job].wishes.level, of: job, into: &actions)
    }

    mutating func setLevel(_ level: UInt8, of job: JobIndex, into actions: inout [Action]) {
        guard level != table[job].level else { return }
        guard case .queued = table[job].phase else {
            table[job].level = level
            moveLookUp(job, into: &actions)
            return
        }
        let queue = table[job].queue
        queues[queue].removeQueued(job, in: &table.jobs)
        table[job].level = level
        queues[queue].enqueue(job, first: false, in: &table.jobs)
    }
}
