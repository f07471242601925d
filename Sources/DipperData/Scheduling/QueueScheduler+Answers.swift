/// The answers of the disk tier, the network and the timers.
extension QueueScheduler {
    /// The reason for parking a job after a failure, and what ends its wait.
    enum Parking: Hashable {
        case untilNetworkReturns
        case backOff(Duration)
    }

    /// Takes the answer of the disk tier.
    /// - Parameter answers: returns whether what was found answers a task; the other tasks go on to the network.
    mutating func lookedUp(
        _ id: JobID, hit: Bool, answers: (TaskID, Waiter) -> Bool = { _, _ in true }, into actions: inout [Action]
    ) {
        guard let job = table.jobs.index(of: id), table[job].lookUp == .underWay else { return }
        var isWantedAnew = false
        for task in table.tasks(of: job) {
            let (reads, fetches) = (table[task].reads, table[task].fetches)
            if hit, reads, answers(table.tasks.id(of: task), table[task].waiter) {
                end(task, .cached, into: &actions)
            } else if !fetches {
                end(task, .notCached, into: &actions)
            } else if reads {
                isWantedAnew = true
            }
        }
        // After a hit the tasks that read have ended. The next task that reads asks anew.
        table[job].lookUp = hit && !isWantedAnew ? .notDone : .missed
        if settle(job, into: &actions) {
            switch table[job].phase {
            case .looking(let goesToFront):
                queues[table[job].queue].lookingCount -= 1
                enqueue(job, first: goesToFront, into: &actions)
            case .running(let run) where !run.isOnNetwork:
                goToNetwork(job, run, into: &actions)
            default:
                break
            }
        }
        dispatch(into: &actions)
    }

    /// Takes the answer of the network.
    /// - Parameter answers: returns whether the answer is for a task; for the other tasks the job begins anew.
    mutating func finished(
        _ id: JobID, answers: (TaskID, Waiter) -> Bool = { _, _ in true }, into actions: inout [Action]
    ) {
        guard let job = table.jobs.index(of: id) else { return }
        for task in table.tasks(of: job) where answers(table.tasks.id(of: task), table[task].waiter) {
            end(task, .fetched, into: &actions)
        }
        if !table[job].tasks.isEmpty, table[job].run != nil {
            requeue(job, into: &actions)
        } else {
            settle(job, isFinishing: true, into: &actions)
        }
        dispatch(into: &actions)
    }

    /// Starts a running job over, for the tasks that its result was not for.
    private mutating func requeue(_ job: JobIndex, into actions: inout [Action]) {
        queues[table[job].queue].removeRunning(job, in: &table.jobs)
        forgetLookUp(job, into: &actions)
        settle(job, into: &actions)
        enter(job, into: &actions)
    }

    /// Takes a failure of the network. The named tasks end with the failure, or with what the cache has; the other
    /// tasks wait with the job, which is parked.
    /// - Parameters:
    ///   - ending: the tasks that end with the failure.
    ///   - answered: the tasks that end with what the cache has.
    ///   - parking: how the job is parked; `nil` if the failure is final, even for tasks that have joined since.
    ///   - isSilent: whether the tasks are not told, because nothing has gone wrong.
    mutating func failed(
        _ id: JobID, ending: [TaskID], answered: [TaskID] = [], parking: Parking?, isSilent: Bool = false,
        into actions: inout [Action]
    ) {
        guard let job = table.jobs.index(of: id), table[job].run != nil else { return }
        for (tasks, reason) in [(answered, Ending.keptAnswer), (ending, .failed)] {
            for name in tasks {
                guard let task = table.tasks.index(of: name), table[task].job == id else { continue }
                end(task, reason, into: &actions)
            }
        }
        if parking == nil { endAll(job, .failed, into: &actions) }
        if let parking, !table[job].tasks.isEmpty {
            park(job, parking, isSilent: isSilent, into: &actions)
        } else {
            settle(job, isFinishing: true, into: &actions)
        }
        dispatch(into: &actions)
    }

    private mutating func park(
        _ job: JobIndex, _ parking: Parking, isSilent: Bool, into actions: inout [Action]
    ) {
        queues[table[job].queue].removeRunning(job, in: &table.jobs)
        // The remaining tasks may be less urgent than those that have ended.
        settle(job, into: &actions)
        table[job].isRetry = !isSilent
        parkedCount += 1
        if !isSilent {
            let work = table[job].work
            for task in table.tasks(of: job) { actions.append(.tellFailure(table[task].waiter, work)) }
        }
        note(job, .parked, into: &actions)
        switch parking {
        case .untilNetworkReturns:
            table[job].phase = .parked(.network)
            waitingForNetwork.append(job, in: &table.jobs)
        case .backOff(let delay):
            arm(job, after: delay, into: &actions)
        }
    }

    /// Wakes a parked job, because its wait is over.
    mutating func timerFired(_ id: JobID, token: UInt32, into actions: inout [Action]) {
        guard let job = table.jobs.index(of: id), case .parked(.timer(let current)) = table[job].phase,
            current == token
        else { return }
        wake(job, into: &actions)
        dispatch(into: &actions)
    }

    /// Wakes jobs whose hosts can be reached again: one after the other, urgent ones first, and all within a fixed time
    /// however many there are.
    /// - Parameters:
    ///   - spacing: the time between two jobs, which is shortened if there are many.
    ///   - longest: the time in which all jobs wake.
    ///   - offset: the time before the first job wakes.
    mutating func networkReturned(
        for ids: [JobID], spacing: Duration, within longest: Duration = .seconds(4), offset: Duration = .zero,
        into actions: inout [Action]
    ) {
        let waiting = ids.compactMap { table.jobs.index(of: $0) }.filter { waitsForNetwork($0) }
        let inTurn = FetchQueue.byUrgency.flatMap { queue in waiting.filter { table[$0].queue == queue } }
        let spacing = min(spacing, longest / max(1, inTurn.count))
        for (turn, job) in inTurn.enumerated() where waitsForNetwork(job) {
            waitingForNetwork.remove(job, in: &table.jobs)
            arm(job, after: offset + spacing * turn, into: &actions)
        }
    }

    private func waitsForNetwork(_ job: JobIndex) -> Bool {
        if case .parked(.network) = table[job].phase { true } else { false }
    }
}
