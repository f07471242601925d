/// The disk tier, the network and the timers answer.
extension QueueScheduler {
    /// What becomes of a job after a failure.
    enum Parking: Hashable {
        case untilNetworkReturns
        case backOff(Duration)
    }

    /// The disk tier has answered.
    /// - Parameter answers: whether what was found will do for a task; the others go on to the network.
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
        // After a hit the tasks that read have ended; whoever reads next asks anew.
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

    /// The network has delivered.
    /// - Parameter answers: whether what came is for a task; for the others the job begins anew.
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

    /// Sends a running job back to its beginning, for the tasks that its result was not for.
    private mutating func requeue(_ job: JobIndex, into actions: inout [Action]) {
        queues[table[job].queue].removeRunning(job, in: &table.jobs)
        forgetLookUp(job, into: &actions)
        settle(job, into: &actions)
        enter(job, into: &actions)
    }

    /// The network has failed. The named tasks end with the failure, or with what the cache had all the same; the other
    /// tasks wait with the job, which is parked. Without a parking the failure is final, also for tasks that have joined
    /// since.
    /// - Parameter isSilent: whether the tasks are not told, because nothing went wrong.
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
        // The tasks that are left may be less urgent than those that went.
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

    /// The wait of a parked job is over.
    mutating func timerFired(_ id: JobID, token: UInt32, into actions: inout [Action]) {
        guard let job = table.jobs.index(of: id), case .parked(.timer(let current)) = table[job].phase,
            current == token
        else { return }
        wake(job, into: &actions)
        dispatch(into: &actions)
    }

    /// The hosts of these jobs can be reached again. The jobs wake one after the other, urgent ones first, the last one
    /// within a fixed time however many there are.
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
