/// A call comes in.
extension LaneScheduler {
    /// A call for `key`: makes the job, or joins it, promoting it if the call is urgent.
    /// - Parameters:
    ///   - reads: the disk tier may answer.
    ///   - fetches: the network may answer.
    mutating func submit(
        _ key: CacheKey, _ waiter: Waiter, lane: Lane, priority: Priority = .normal, reads: Bool = true,
        fetches: Bool = true, makeWork: () -> Work, into actions: inout [Action]
    ) -> (job: JobID, task: TaskID) {
        let level = UInt8(priority.level)
        let job: Int32
        if let existing = slots.job(for: key) {
            job = existing
        } else {
            job = slots.addJob(key: key, work: makeWork())
            slots.jobs[Int(job)].lane = lane
            slots.jobs[Int(job)].level = level
            let task = slots.addTask(waiter, to: job, lane: lane, level: level, reads: reads, fetches: fetches)
            enter(job, into: &actions)
            dispatch(into: &actions)
            return (slots.id(ofJob: job), slots.id(ofTask: task))
        }
        let task = slots.addTask(waiter, to: job, lane: lane, level: level, reads: reads, fetches: fetches)
        let ids = (slots.id(ofJob: job), slots.id(ofTask: task))
        join(job, task, lane: lane, into: &actions)
        dispatch(into: &actions)
        return ids
    }

    /// Fast work may come in a moment: no slow job starts until that is settled.
    mutating func reserveFast() { fastReservations += 1 }

    /// The work has come, or will not.
    mutating func releaseFast(into actions: inout [Action]) {
        fastReservations -= 1
        dispatch(into: &actions)
    }

    /// The first step of a job that holds nothing yet: an urgent one asks the disk tier at once and so never
    /// waits behind downloads; a slow one waits for its turn.
    mutating func enter(_ job: Int32, into actions: inout [Action]) {
        if slots.jobs[Int(job)].lane == .fast, slots.jobs[Int(job)].lookup == .notDone, anyTaskReads(job) {
            slots.jobs[Int(job)].phase = .looking
            fastLooking += 1
            lookUp(job, into: &actions)
        } else {
            enqueue(job, first: false, into: &actions)
        }
    }

    mutating func join(_ job: Int32, _ task: Int32, lane: Lane, into actions: inout [Action]) {
        let reads = slots.tasks[Int(task)].reads
        if slots.jobs[Int(job)].lookup == .missed, !slots.tasks[Int(task)].fetches {
            end(task, .notCached, into: &actions)
            settle(job, into: &actions)
            return
        }
        if lane == .fast, slots.jobs[Int(job)].lane == .slow {
            promote(job, into: &actions)
        }
        raiseLevel(job, to: slots.tasks[Int(task)].level, into: &actions)
        let phase = slots.jobs[Int(job)].phase
        let waitsForTurn = phase == .queued && slots.jobs[Int(job)].lane == .slow
        if reads, slots.jobs[Int(job)].lookup == .notDone, !waitsForTurn {
            lookUp(job, into: &actions)
        }
        if lane == .fast, phase == .parked, !slots.jobs[Int(job)].isWaitingForNetwork {
            wake(job, into: &actions)
        }
    }
}
