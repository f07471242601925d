/// Jobs go from state to state.
extension LaneScheduler {
    mutating func promote(_ job: Int32, into actions: inout [Action]) {
        slots.jobs[Int(job)].goesToFront = false
        note(job, .laneChanged(.fast), into: &actions)
        switch slots.jobs[Int(job)].phase {
        case .queued:
            slow.remove(job, from: &slots)
            slots.jobs[Int(job)].lane = .fast
            enter(job, into: &actions)
        case .running:
            leaveSlowRunning(job)
            slots.jobs[Int(job)].lane = .fast
            regroup(job)
            fast.addRunning(group: slots.jobs[Int(job)].group)
            if let work = slots.jobs[Int(job)].work { actions.append(.setLane(work, .fast)) }
            if slots.jobs[Int(job)].isThrottled { setThrottled(job, false, into: &actions) }
            if slots.jobs[Int(job)].onNetwork { fastOnNetwork += 1 } else { moveLookUp(job, into: &actions) }
        case .looking:
            slots.jobs[Int(job)].lane = .fast
            fastLooking += 1
            moveLookUp(job, into: &actions)
        case .parked, .free:
            slots.jobs[Int(job)].lane = .fast
        }
    }

    mutating func demote(_ job: Int32, into actions: inout [Action]) {
        note(job, .laneChanged(.slow), into: &actions)
        switch slots.jobs[Int(job)].phase {
        case .queued:
            fast.remove(job, from: &slots)
            slots.jobs[Int(job)].lane = .slow
            enqueue(job, first: true, into: &actions)
        case .running:
            fast.removeRunning(group: slots.jobs[Int(job)].group, slots: slots)
            slots.jobs[Int(job)].lane = .slow
            regroup(job)
            slow.addRunning(group: slots.jobs[Int(job)].group)
            slowRunning.append(job)
            if slots.jobs[Int(job)].onNetwork { fastOnNetwork -= 1 }
            if let work = slots.jobs[Int(job)].work { actions.append(.setLane(work, .slow)) }
        case .looking:
            slots.jobs[Int(job)].lane = .slow
            slots.jobs[Int(job)].goesToFront = true
            fastLooking -= 1
            moveLookUp(job, into: &actions)
        case .parked, .free:
            slots.jobs[Int(job)].lane = .slow
        }
    }

    mutating func wake(_ job: Int32, into actions: inout [Action]) {
        parked -= 1
        slots.jobs[Int(job)].timerToken &+= 1
        if let work = slots.jobs[Int(job)].work { actions.append(.waitForTurn(work)) }
        enqueue(job, first: false, into: &actions)
    }

    mutating func enqueue(_ job: Int32, first: Bool, into actions: inout [Action]) {
        slots.jobs[Int(job)].goesToFront = false
        slots.jobs[Int(job)].phase = .queued
        slots.jobs[Int(job)].level = highestLevel(job)
        regroup(job)
        let lane = slots.jobs[Int(job)].lane
        withQueue(lane) { queue, slots in queue.insert(job, first: first, into: &slots) }
        note(job, .queued(lane), into: &actions)
    }

    /// Starts what may start, and throttles and releases what runs in the slow lane.
    mutating func dispatch(into actions: inout [Action]) {
        while backlog < .full, !isHeldBack(.fast), fast.hasRoom, !isBudgetSpent || fastOnNetwork == 0,
            let job = fast.next(slots)
        {
            start(job, into: &actions)
        }
        while !isFastBusy, backlog == .none, !isHeldBack(.slow), slow.hasRoom, !isBudgetSpent || transferring.isEmpty,
            let job = slow.next(slots)
        {
            start(job, into: &actions)
        }
        balance(into: &actions)
    }

    mutating func start(_ job: Int32, into actions: inout [Action]) {
        let lane = slots.jobs[Int(job)].lane
        withQueue(lane) { queue, slots in
            queue.remove(job, from: &slots)
            // Its group may have been given up with its last queued job.
            slots.jobs[Int(job)].group = queue.group(for: slots.jobs[Int(job)].work?.host ?? "")
            queue.addRunning(group: slots.jobs[Int(job)].group)
        }
        slots.jobs[Int(job)].phase = .running
        if lane == .slow { slowRunning.append(job) }
        if slots.jobs[Int(job)].lookup == .notDone, anyTaskReads(job) {
            lookUp(job, into: &actions)
        } else if slots.jobs[Int(job)].lookup != .underWay || anyTaskInsistsOnNetwork(job) {
            goToNetwork(job, into: &actions)
        }
    }

    mutating func goToNetwork(_ job: Int32, into actions: inout [Action]) {
        guard let work = slots.jobs[Int(job)].work else { return }
        slots.jobs[Int(job)].onNetwork = true
        transferring.insert(job)
        starts += 1
        slots.jobs[Int(job)].started = starts
        let lane = slots.jobs[Int(job)].lane
        if lane == .fast { fastOnNetwork += 1 }
        if slots.jobs[Int(job)].isRetry {
            slots.jobs[Int(job)].isRetry = false
            for task in slots.taskIndices(of: job) {
                if let waiter = slots.tasks[Int(task)].waiter { actions.append(.tellRetry(waiter, work)) }
            }
        }
        note(job, .transferring(lane), into: &actions)
        actions.append(
            .transfer(
                slots.id(ofJob: job), work, lane: lane, throttled: slots.jobs[Int(job)].isThrottled))
    }

    mutating func balance(into actions: inout [Action]) {
        if fastOnNetwork > 0 { isThrottling = true } else if !isFastBusy { isThrottling = false }
        // Over budget one transfer goes on, so that it ends and gives back what it holds.
        let only = isBudgetSpent ? transferring.min { goesOnBefore($0, $1) } : nil
        if isBudgetSpent || isHoldingFast { balanceFast(only, into: &actions) }
        var moving = 0
        for job in slowRunning {
            let mayMove =
                (only == nil || only == job)
                && (pause == .granted(job)
                    || (!isThrottling && moving < max(1, slow.configuration.maxConcurrent)))
            if mayMove { moving += 1 }
            if slots.jobs[Int(job)].isThrottled == mayMove {
                setThrottled(job, !mayMove, into: &actions)
            }
        }
        armPauseIfHeldUp(into: &actions)
    }

    /// Whether the first of two transfers goes on where only one may: the urgent one, then the older one.
    private func goesOnBefore(_ a: Int32, _ b: Int32) -> Bool {
        let (one, other) = (slots.jobs[Int(a)].lane, slots.jobs[Int(b)].lane)
        return one == other ? slots.jobs[Int(a)].started < slots.jobs[Int(b)].started : one == .fast
    }

    /// Throttles the urgent transfers but one, or releases them again.
    private mutating func balanceFast(_ only: Int32?, into actions: inout [Action]) {
        isHoldingFast = false
        for job in transferring where slots.jobs[Int(job)].lane == .fast {
            let isHeld = only != nil && only != job
            if isHeld { isHoldingFast = true }
            if slots.jobs[Int(job)].isThrottled != isHeld { setThrottled(job, isHeld, into: &actions) }
        }
    }

    mutating func armPauseIfHeldUp(into actions: inout [Action]) {
        guard pause == .none || pause == .waiting else { return }
        let isHeldUp =
            isFastBusy && !slow.configuration.isSuspended
            && (slow.queued > 0 || slowRunning.contains { slots.jobs[Int($0)].isThrottled })
        if !isHeldUp {
            pause = .none
        } else if pause == .none, let maxPause = slow.configuration.maxPause {
            pauseToken &+= 1
            pause = .waiting
            actions.append(.armPause(after: maxPause, token: pauseToken))
        }
    }

    mutating func setThrottled(_ job: Int32, _ isThrottled: Bool, into actions: inout [Action]) {
        guard let work = slots.jobs[Int(job)].work else { return }
        slots.jobs[Int(job)].isThrottled = isThrottled
        actions.append(.setThrottled(work, isThrottled))
        note(job, isThrottled ? .paused : .resumed, into: &actions)
    }
}
