/// New calls.
extension QueueScheduler {
    /// Adds a call: makes the job of its key, or joins the job and promotes it if the call is more urgent.
    /// - Parameters:
    ///   - reads: whether the disk tier may answer.
    ///   - fetches: whether the network may answer.
    mutating func submit(
        _ key: CacheKey, _ waiter: Waiter, queue: FetchQueue, priority: Priority = .normal, reads: Bool = true,
        fetches: Bool = true, makeWork: () -> Work, into actions: inout [Action]
    ) -> (job: JobID, task: TaskID) {
        let level = UInt8(priority.level)
        let present = table.job(for: key)
        let job = present ?? table.add(Job(key: key, work: makeWork(), queue: queue, level: level))
        let task = table.add(waiter, to: job, queue: queue, level: level, reads: reads, fetches: fetches)
        let ids = (table.jobs.id(of: job), table.tasks.id(of: task))
        if present == nil { enter(job, into: &actions) } else { join(job, task, into: &actions) }
        dispatch(into: &actions)
        return ids
    }

    /// Announces work that may come: until the reservation is released, the queues that yield to this one start no job.
    mutating func reserve(_ queue: FetchQueue) { queues[queue].reservations += 1 }

    /// Ends a reservation, because the work has come or will not come.
    mutating func release(_ queue: FetchQueue, into actions: inout [Action]) {
        queues[queue].reservations -= 1
        dispatch(into: &actions)
    }

    /// Takes the first step of a job that is in no list: the disk tier is asked, or the job is queued.
    mutating func enter(_ job: JobIndex, into actions: inout [Action]) {
        let queue = table[job].queue
        if queue.rule.looksUpFirst, table[job].lookUp == .notDone, table[job].wishes.includeReading {
            table[job].phase = .looking(goesToFront: false)
            queues[queue].lookingCount += 1
            lookUp(job, into: &actions)
        } else {
            enqueue(job, first: false, into: &actions)
        }
    }

    private mutating func join(_ job: JobIndex, _ task: TaskIndex, into actions: inout [Action]) {
        let (queue, level, reads) = (table[task].queue, table[task].level, table[task].reads)
        if table[job].lookUp == .missed, !table[task].fetches {
            end(task, .notCached, into: &actions)
            settle(job, into: &actions)
            return
        }
        if table[job].queue.yields(to: queue) { move(job, to: queue, into: &actions) }
        if level > table[job].level { setLevel(level, of: job, into: &actions) }
        if reads, table[job].lookUp == .notDone, !looksUpInItsTurn(job) { lookUp(job, into: &actions) }
        if queue.rule.endsBackOff, case .parked(.timer) = table[job].phase { wake(job, into: &actions) }
    }

    /// Returns whether the job is queued and asks the disk tier when it has a slot.
    private func looksUpInItsTurn(_ job: JobIndex) -> Bool {
        if case .queued = table[job].phase { !table[job].queue.rule.looksUpFirst } else { false }
    }
}
