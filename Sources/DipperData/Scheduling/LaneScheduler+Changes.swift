/// Callers and configuration change their mind.
extension LaneScheduler {
    /// Makes every urgent task of the job a slow one, and with them the job.
    mutating func demote(_ key: CacheKey, into actions: inout [Action]) {
        guard let job = slots.job(for: key), slots.jobs[Int(job)].lane == .fast else { return }
        for task in slots.taskIndices(of: job) {
            slots.tasks[Int(task)].lane = .slow
        }
        slots.jobs[Int(job)].fastTasks = 0
        demote(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Makes one task slow; its job follows if no other urgent task waits for it.
    mutating func demote(_ id: TaskID, into actions: inout [Action]) {
        guard slots.isCurrent(id), slots.tasks[Int(id.index)].lane == .fast else { return }
        let job = slots.tasks[Int(id.index)].job
        slots.tasks[Int(id.index)].lane = .slow
        slots.jobs[Int(job)].fastTasks -= 1
        if slots.jobs[Int(job)].fastTasks == 0 {
            demote(job, into: &actions)
        } else {
            refreshLevel(job, into: &actions)
        }
        dispatch(into: &actions)
    }

    mutating func setPriority(_ priority: Priority, of id: TaskID, into actions: inout [Action]) {
        guard slots.isCurrent(id) else { return }
        slots.setLevel(UInt8(priority.level), ofTask: id.index)
        refreshLevel(slots.tasks[Int(id.index)].job, into: &actions)
    }

    /// Ends one task; its job goes on for the others.
    mutating func cancel(_ id: TaskID, as ending: Ending = .cancelled, into actions: inout [Action]) {
        guard slots.isCurrent(id) else { return }
        let job = slots.tasks[Int(id.index)].job
        end(id.index, ending, into: &actions)
        settle(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Ends all tasks of a job, and the job.
    mutating func cancel(_ key: CacheKey, into actions: inout [Action]) {
        guard let job = slots.job(for: key) else { return }
        endAll(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Ends everything.
    mutating func cancelAll(into actions: inout [Action]) {
        for job in slots.jobs.indices where slots.jobs[job].phase != .free {
            endAll(Int32(job), into: &actions)
        }
        dispatch(into: &actions)
    }

    /// Changes the rules of a lane. Costs a pass over its queue if the limit per host comes or goes.
    mutating func configure(_ lane: Lane, _ configuration: LaneConfiguration, into actions: inout [Action]) {
        var queue = lane == .fast ? fast : slow
        if queue.isGrouped == (configuration.maxPerHost != nil) {
            queue.configuration = configuration
            queue.refillCandidates(slots)
            set(lane, queue)
        } else {
            let queued = queue.allQueued(slots)
            queue.reset(configuration)
            set(lane, queue)
            let running = slots.jobs.indices.filter { slots.jobs[$0].phase == .running && slots.jobs[$0].lane == lane }
            for index in running {
                regroup(Int32(index))
                withQueue(lane) { queue, slots in queue.addRunning(group: slots.jobs[index].group) }
            }
            for job in queued {
                regroup(job)
                withQueue(lane) { queue, slots in
                    queue.insert(job, first: false, into: &slots)
                }
            }
        }
        if lane == .slow, configuration.maxPause == nil, pause == .waiting { pause = .none }
        dispatch(into: &actions)
    }

    /// The slow lane has waited for `maxPause`.
    mutating func pauseElapsed(token: UInt32, into actions: inout [Action]) {
        guard pause == .waiting, token == pauseToken else { return }
        pause = .none
        if let paused = slowRunning.first(where: { slots.jobs[Int($0)].isThrottled }) {
            pause = .granted(paused)
        } else if slow.hasRoom, backlog == .none, !isHeldBack(.slow), let job = slow.next(slots) {
            pause = .granted(job)
            start(job, into: &actions)
        }
        dispatch(into: &actions)
    }
}
