/// The disk tier, the network and the timers answer.
extension LaneScheduler {
    /// The disk tier has answered.
    /// - Parameter answers: whether what was found will do for the one who waits; those it will not do for go on to
    ///   the network.
    mutating func lookedUp(
        _ id: JobID, hit: Bool, answers: (TaskID, Waiter) -> Bool = { _, _ in true }, into actions: inout [Action]
    ) {
        guard slots.isCurrent(id), slots.jobs[Int(id.index)].lookup == .underWay else { return }
        let job = id.index
        var isWantedAnew = false
        for task in slots.taskIndices(of: job) {
            let reads = slots.tasks[Int(task)].reads
            if hit, reads, isAnswered(task, answers) {
                end(task, .cached, into: &actions)
            } else if !slots.tasks[Int(task)].fetches {
                end(task, .notCached, into: &actions)
            } else if reads {
                isWantedAnew = true
            }
        }
        // After a hit those who read are gone; whoever reads next asks anew.
        slots.jobs[Int(job)].lookup = hit && !isWantedAnew ? .notDone : .missed
        if settle(job, into: &actions) {
            switch slots.jobs[Int(job)].phase {
            case .looking:
                if slots.jobs[Int(job)].lane == .fast { fastLooking -= 1 }
                enqueue(job, first: slots.jobs[Int(job)].goesToFront, into: &actions)
            case .running where !slots.jobs[Int(job)].onNetwork:
                goToNetwork(job, into: &actions)
            default:
                break
            }
        }
        dispatch(into: &actions)
    }

    /// The network has delivered.
    /// - Parameter answers: whether what came is for the one who waits; for the others the job begins anew.
    mutating func finished(
        _ id: JobID, answers: (TaskID, Waiter) -> Bool = { _, _ in true }, into actions: inout [Action]
    ) {
        guard slots.isCurrent(id) else { return }
        let job = id.index
        for task in slots.taskIndices(of: job) where isAnswered(task, answers) {
            end(task, .fetched, into: &actions)
        }
        if slots.jobs[Int(job)].firstTask >= 0, slots.jobs[Int(job)].phase == .running {
            leaveRunning(job, into: &actions)
            slots.jobs[Int(job)].phase = .parked
            parked += 1
            settle(job, into: &actions)
            slots.jobs[Int(job)].lookup = .notDone
            parked -= 1
            enter(job, into: &actions)
        } else {
            settle(job, finishing: true, into: &actions)
        }
        dispatch(into: &actions)
    }

    private func isAnswered(_ task: Int32, _ answers: (TaskID, Waiter) -> Bool) -> Bool {
        slots.tasks[Int(task)].waiter.map { answers(slots.id(ofTask: task), $0) } ?? true
    }

    /// What becomes of a job after a failure.
    enum Parking: Hashable {
        case untilNetworkReturns
        case backOff(Duration)
    }

    /// The network has failed. The tasks named end, with the failure or with what the cache had all the same; the
    /// others wait with the job, which is parked for them. Without a parking the failure is final, also for those who
    /// have joined since.
    /// - Parameter isSilent: nothing went wrong that those who wait should hear of.
    mutating func failed(
        _ id: JobID, ending: [TaskID], answered: [TaskID] = [], parking: Parking?, isSilent: Bool = false,
        into actions: inout [Action]
    ) {
        guard slots.isCurrent(id), slots.jobs[Int(id.index)].phase == .running else { return }
        let job = id.index
        for task in answered where slots.isCurrent(task) && slots.tasks[Int(task.index)].job == job {
            end(task.index, .keptAnswer, into: &actions)
        }
        for task in ending where slots.isCurrent(task) && slots.tasks[Int(task.index)].job == job {
            end(task.index, .failed, into: &actions)
        }
        if parking == nil {
            for task in slots.taskIndices(of: job) { end(task, .failed, into: &actions) }
        }
        guard let parking, slots.jobs[Int(job)].firstTask >= 0, let work = slots.jobs[Int(job)].work else {
            settle(job, finishing: true, into: &actions)
            dispatch(into: &actions)
            return
        }
        leaveRunning(job, into: &actions)
        slots.jobs[Int(job)].phase = .parked
        slots.jobs[Int(job)].isRetry = !isSilent
        parked += 1
        // Those who are left may be less urgent than those who went.
        settle(job, into: &actions)
        for task in slots.taskIndices(of: job) where !isSilent {
            if let waiter = slots.tasks[Int(task)].waiter { actions.append(.tellFailure(waiter, work)) }
        }
        note(job, .parked, into: &actions)
        switch parking {
        case .untilNetworkReturns:
            slots.jobs[Int(job)].isWaitingForNetwork = true
            parkedForNetwork.insert(job)
        case .backOff(let delay):
            arm(job, after: delay, into: &actions)
        }
        dispatch(into: &actions)
    }

    /// The wait of a parked job is over.
    mutating func timerFired(_ id: JobID, token: UInt32, into actions: inout [Action]) {
        guard slots.isCurrent(id), slots.jobs[Int(id.index)].phase == .parked,
            slots.jobs[Int(id.index)].timerToken == token
        else { return }
        wake(id.index, into: &actions)
        dispatch(into: &actions)
    }

    /// The hosts of these jobs can be reached again. They wake one after the other, urgent ones first, the last of them
    /// within a fixed time however many they are.
    mutating func networkReturned(
        for ids: [JobID], spacing: Duration, within longest: Duration = .seconds(4), offset: Duration = .zero,
        into actions: inout [Action]
    ) {
        let waiting = ids.filter { slots.isCurrent($0) && parkedForNetwork.contains($0.index) }
        let inTurn =
            waiting.filter { slots.jobs[Int($0.index)].lane == .fast }
            + waiting.filter { slots.jobs[Int($0.index)].lane == .slow }
        let spacing = min(spacing, longest / max(1, inTurn.count))
        for (turn, id) in inTurn.enumerated() {
            parkedForNetwork.remove(id.index)
            slots.jobs[Int(id.index)].isWaitingForNetwork = false
            arm(id.index, after: offset + spacing * turn, into: &actions)
        }
    }

    /// The transfers hold all the bytes that they may, or fewer again.
    mutating func budgetChanged(_ notice: ByteBudget.Notice, into actions: inout [Action]) {
        guard notice.number > budgetNumber else { return }
        budgetNumber = notice.number
        isBudgetSpent = notice.isSpent
        dispatch(into: &actions)
    }

    /// Someone comes who takes what is fetched.
    mutating func addHolder(of lane: Lane) -> HolderID {
        holderNumber += 1
        let id = HolderID(number: holderNumber)
        holders[id] = Holder(lane: lane)
        return id
    }

    /// The holder goes, and holds nothing back any more.
    mutating func removeHolder(_ id: HolderID, into actions: inout [Action]) {
        if holders.removeValue(forKey: id)?.notice?.isSpent == true { holdingChanged(into: &actions) }
    }

    /// A holder cannot take more of what is fetched for now, or can again.
    mutating func hold(_ notice: ByteBudget.Notice, for id: HolderID, into actions: inout [Action]) {
        guard let holder = holders[id], (holder.notice?.number ?? 0) < notice.number else { return }
        holders[id]?.notice = notice
        holdingChanged(into: &actions)
    }

    private mutating func holdingChanged(into actions: inout [Action]) {
        actions.append(.beginLookUps(downTo: !isHeldBack(.slow) ? .slow : !isHeldBack(.fast) ? .fast : nil))
        dispatch(into: &actions)
    }

    /// The disk falls behind, or has caught up.
    mutating func storageBacklogged(_ notice: BacklogNotice, into actions: inout [Action]) {
        guard notice.number > backlogNumber else { return }
        backlogNumber = notice.number
        backlog = notice.backlog
        dispatch(into: &actions)
    }
}
