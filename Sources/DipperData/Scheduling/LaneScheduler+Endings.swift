/// Tasks end, and jobs that nobody waits for.
extension LaneScheduler {
    mutating func end(_ task: Int32, _ ending: Ending, into actions: inout [Action]) {
        let lane = slots.tasks[Int(task)].lane
        guard let work = slots.jobs[Int(slots.tasks[Int(task)].job)].work,
            let waiter = slots.removeTask(task)
        else { return }
        actions.append(.end(waiter, work, ending, lane))
    }

    /// Takes a task out of its job without ending it; the job is settled with the next event.
    /// - Returns: the lane it was in.
    mutating func leave(_ id: TaskID) -> Lane? {
        guard slots.isCurrent(id) else { return nil }
        let lane = slots.tasks[Int(id.index)].lane
        _ = slots.removeTask(id.index)
        return lane
    }

    mutating func endAll(_ job: Int32, into actions: inout [Action]) {
        for task in slots.taskIndices(of: job) {
            end(task, .cancelled, into: &actions)
        }
        settle(job, into: &actions)
    }

    /// Removes the job if nobody waits for it any more, else brings its lane and priority in line with those who
    /// do. True if the job lives on.
    @discardableResult
    mutating func settle(_ job: Int32, finishing: Bool = false, into actions: inout [Action]) -> Bool {
        guard slots.jobs[Int(job)].firstTask < 0 else {
            if slots.jobs[Int(job)].lane == .fast, slots.jobs[Int(job)].fastTasks == 0 {
                demote(job, into: &actions)
            } else {
                refreshLevel(job, into: &actions)
            }
            return true
        }
        if slots.jobs[Int(job)].lookup == .underWay, let work = slots.jobs[Int(job)].work {
            actions.append(.dropLookUp(work))
        }
        switch slots.jobs[Int(job)].phase {
        case .queued:
            withQueue(slots.jobs[Int(job)].lane) { queue, slots in queue.remove(job, from: &slots) }
        case .running:
            let wasOnNetwork = slots.jobs[Int(job)].onNetwork
            leaveRunning(job, into: &actions)
            if wasOnNetwork, !finishing, let work = slots.jobs[Int(job)].work { actions.append(.abort(work)) }
        case .looking:
            if slots.jobs[Int(job)].lane == .fast { fastLooking -= 1 }
        case .parked:
            parked -= 1
            parkedForNetwork.remove(job)
            if let work = slots.jobs[Int(job)].work { actions.append(.disarm(work)) }
        case .free:
            return false
        }
        note(job, .ended, into: &actions)
        slots.removeJob(job)
        return false
    }

    mutating func leaveRunning(_ job: Int32, into actions: inout [Action]) {
        if slots.jobs[Int(job)].lane == .fast {
            fast.removeRunning(group: slots.jobs[Int(job)].group, slots: slots)
            if slots.jobs[Int(job)].onNetwork { fastOnNetwork -= 1 }
        } else {
            leaveSlowRunning(job)
        }
        slots.jobs[Int(job)].onNetwork = false
        transferring.remove(job)
        slots.jobs[Int(job)].isThrottled = false
    }

    mutating func leaveSlowRunning(_ job: Int32) {
        slow.removeRunning(group: slots.jobs[Int(job)].group, slots: slots)
        slowRunning.removeAll { $0 == job }
        if pause == .granted(job) { pause = .none }
    }

    // MARK: Small parts

    mutating func lookUp(_ job: Int32, into actions: inout [Action]) {
        guard let work = slots.jobs[Int(job)].work else { return }
        slots.jobs[Int(job)].lookup = .underWay
        note(job, .looking(slots.jobs[Int(job)].lane), into: &actions)
        actions.append(.lookUp(slots.id(ofJob: job), work))
    }

    /// Brings a look-up that is under way to the place that the job has now.
    func moveLookUp(_ job: Int32, into actions: inout [Action]) {
        guard slots.jobs[Int(job)].lookup == .underWay, let work = slots.jobs[Int(job)].work else { return }
        actions.append(.moveLookUp(slots.id(ofJob: job), work))
    }

    mutating func arm(_ job: Int32, after delay: Duration, into actions: inout [Action]) {
        guard let work = slots.jobs[Int(job)].work else { return }
        slots.jobs[Int(job)].timerToken &+= 1
        actions.append(
            .arm(slots.id(ofJob: job), work, after: delay, token: slots.jobs[Int(job)].timerToken))
    }

    func note(_ job: Int32, _ note: JobNote, into actions: inout [Action]) {
        guard makesNotes else { return }
        if let work = slots.jobs[Int(job)].work { actions.append(.note(work, note)) }
    }

    func anyTaskReads(_ job: Int32) -> Bool { slots.jobs[Int(job)].readers > 0 }

    func anyTaskInsistsOnNetwork(_ job: Int32) -> Bool { slots.jobs[Int(job)].readers < slots.jobs[Int(job)].taskCount }

    func highestLevel(_ job: Int32) -> UInt8 { slots.jobs[Int(job)].levels.highest }

    /// Brings a queued job to the place that its most important task deserves.
    mutating func refreshLevel(_ job: Int32, into actions: inout [Action]) {
        setLevel(job, highestLevel(job), into: &actions)
    }

    /// The same when a task has come: no other needs to be looked at.
    mutating func raiseLevel(_ job: Int32, to level: UInt8, into actions: inout [Action]) {
        if level > slots.jobs[Int(job)].level { setLevel(job, level, into: &actions) }
    }

    private mutating func setLevel(_ job: Int32, _ level: UInt8, into actions: inout [Action]) {
        guard level != slots.jobs[Int(job)].level else { return }
        guard slots.jobs[Int(job)].phase == .queued else {
            slots.jobs[Int(job)].level = level
            moveLookUp(job, into: &actions)
            return
        }
        withQueue(slots.jobs[Int(job)].lane) { queue, slots in
            queue.remove(job, from: &slots)
            slots.jobs[Int(job)].level = level
            slots.jobs[Int(job)].group = queue.group(for: slots.jobs[Int(job)].work?.host ?? "")
            queue.insert(job, first: false, into: &slots)
        }
    }

    mutating func regroup(_ job: Int32) {
        withQueue(slots.jobs[Int(job)].lane) { queue, slots in
            slots.jobs[Int(job)].group = queue.group(for: slots.jobs[Int(job)].work?.host ?? "")
        }
    }

    mutating func withQueue(
        _ lane: Lane, _ body: (inout LaneQueue, inout JobSlots<Waiter, Work>) -> Void
    ) {
        if lane == .fast { body(&fast, &slots) } else { body(&slow, &slots) }
    }

    mutating func set(_ lane: Lane, _ queue: LaneQueue) {
        if lane == .fast { fast = queue } else { slow = queue }
    }
}
