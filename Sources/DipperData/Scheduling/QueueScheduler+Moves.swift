/// Moves of jobs from phase to phase.
extension QueueScheduler {
    /// Moves a job to another queue and leaves it in its phase. A queued job that has become less urgent comes to the
    /// front; one that has become more urgent begins as a new job would.
    mutating func move(_ job: JobIndex, to queue: FetchQueue, into actions: inout [Action]) {
        let old = table[job].queue
        let isDemoted = queue.yields(to: old)
        note(job, .queueChanged(queue), into: &actions)
        switch table[job].phase {
        case .unplaced, .parked:
            table[job].queue = queue
        case .looking:
            queues[old].lookingCount -= 1
            queues[queue].lookingCount += 1
            table[job].queue = queue
            table[job].phase = .looking(goesToFront: isDemoted)
            moveLookUp(job, into: &actions)
        case .queued:
            queues[old].removeQueued(job, in: &table.jobs)
            table[job].queue = queue
            if isDemoted { enqueue(job, first: true, into: &actions) } else { enter(job, into: &actions) }
        case .running(let run):
            queues[old].removeRunning(job, in: &table.jobs)
            table[job].queue = queue
            queues[queue].takeOver(job, run, in: &table.jobs)
            actions.append(.setQueue(table[job].work, queue))
            moveLookUp(job, into: &actions)
        }
    }

    mutating func wake(_ job: JobIndex, into actions: inout [Action]) {
        parkedCount -= 1
        actions.append(.waitForTurn(table[job].work))
        enqueue(job, first: false, into: &actions)
    }

    mutating func enqueue(_ job: JobIndex, first: Bool, into actions: inout [Action]) {
        let queue = table[job].queue
        table[job].level = table[job].wishes.level
        queues[queue].enqueue(job, first: first, in: &table.jobs)
        note(job, .queued(queue), into: &actions)
    }

    // MARK: Starting

    /// Ends an event: starts the jobs that may start, throttles and releases running jobs, and gives storage back. Jobs
    /// and tasks may be in other places afterwards.
    mutating func dispatch(into actions: inout [Action]) {
        for queue in FetchQueue.byUrgency {
            while mayStart(queue), let job = queues[queue].next(in: table.jobs) { start(job, into: &actions) }
        }
        let only = intake.isBudgetSpent ? oldestTransfer : nil
        for queue in FetchQueue.byUrgency { balance(queue, sparing: only, into: &actions) }
        giveStorageBack()
    }

    private func mayStart(_ queue: FetchQueue) -> Bool {
        // mutant Queue: `queues[queue].hasRoom && !isHeldUp(queue) && intake` => `queues[queue].hasRoom && intake`
        queues[queue].queuedCount > 0 && queues[queue].hasRoom && !isHeldUp(queue) && intake.accepts(queue)
            // When the budget is spent one transfer may still begin, so that work never stops altogether.
            && (!intake.isBudgetSpent || queues[queue].onNetworkCount == 0)
    }

    /// Returns whether a queue that this one yields to has work.
    private func isHeldUp(_ queue: FetchQueue) -> Bool {
        FetchQueue.byUrgency.contains { queue.yields(to: $0) && queues[$0].isBusy }
    }

    mutating func start(_ job: JobIndex, into actions: inout [Action]) {
        queues[table[job].queue].start(job, in: &table.jobs)
        if table[job].lookUp == .notDone, table[job].wishes.includeReading {
            lookUp(job, into: &actions)
        } else if table[job].lookUp != .underWay || table[job].wishes.insistOnNetwork {
            goToNetwork(job, JobRun(), into: &actions)
        }
    }

    mutating func goToNetwork(_ job: JobIndex, _ run: JobRun, into actions: inout [Action]) {
        lastTransfer &+= 1
        let (queue, work) = (table[job].queue, table[job].work)
        queues[queue].change(
            job, to: JobRun(transfer: lastTransfer, isThrottled: run.isThrottled), in: &table.jobs)
        if table[job].isRetry {
            table[job].isRetry = false
            for task in table.tasks(of: job) { actions.append(.tellRetry(table[task].waiter, work)) }
        }
        note(job, .transferring(queue), into: &actions)
        actions.append(.transfer(table.jobs.id(of: job), work, queue: queue, throttled: run.isThrottled))
    }

    // MARK: Throttling

    /// Throttles and releases the jobs of a queue according to the work that comes first.
    /// - Parameter only: the one job of all queues that may move bytes; `nil` if there is no such limit.
    private mutating func balance(_ queue: FetchQueue, sparing only: JobIndex?, into actions: inout [Action]) {
        // mutant Pausing: `ount > 0` => `ount > 1`
        if FetchQueue.byUrgency.contains(where: { queue.yields(to: $0) && queues[$0].onNetworkCount > 0 }) {
            queues[queue].isYielding = true
        } else if !isHeldUp(queue) {
            queues[queue].isYielding = false
        }
        throttle(queue, sparing: only, into: &actions)
        armPause(queue, into: &actions)
    }

    /// The transfer that goes on where only one may: the oldest one of the most urgent queue that has transfers.
    private var oldestTransfer: JobIndex? {
        let queue = FetchQueue.byUrgency.first { queues[$0].onNetworkCount > 0 }
        return queue.flatMap { queues[$0].oldestTransfer(in: table.jobs) }
    }

    /// Throttles the running jobs that may not move bytes, and releases the others.
    private mutating func throttle(_ queue: FetchQueue, sparing only: JobIndex?, into actions: inout [Action]) {
        let isYielding = queues[queue].isYielding
        let limit = queue.rule.throttlesExcess ? queues[queue].slots : .max
        // mutant Pausing: `isYielding || queues[queue].throttledCount > 0 || queues` => `isYielding || queues`
        guard only != nil || isYielding || queues[queue].throttledCount > 0 || queues[queue].runningCount > limit
        else { return }
        var moving = 0
        var next = queues[queue].running.first
        while let job = next {
            next = table[job].links.next
            let isGranted = queues[queue].pause == .granted(job)
            let mayMove = (only == nil || only == job) && (isGranted || (!isYielding && moving < limit))
            if mayMove { moving += 1 }
            guard var run = table[job].run, run.isThrottled == mayMove else { continue }
            run.isThrottled = !mayMove
            queues[queue].change(job, to: run, in: &table.jobs)
            actions.append(.setThrottled(table[job].work, !mayMove))
            note(job, mayMove ? .resumed : .paused, into: &actions)
        }
    }

    /// Starts the timer for a pause if the queue is held up, and ends the wait for a pause if it is not.
    private mutating func armPause(_ queue: FetchQueue, into actions: inout [Action]) {
        if case .granted = queues[queue].pause { return }
        let isWaiting =
            isHeldUp(queue) && !queues[queue].configuration.isSuspended
            && queues[queue].queuedCount + queues[queue].throttledCount > 0
        if !isWaiting {
            queues[queue].pause = .none
        } else if queues[queue].pause == .none, let maxPause = queues[queue].configuration.maxPause {
            lastToken &+= 1
            queues[queue].pause = .waiting(token: lastToken)
            actions.append(.armPause(after: maxPause, token: lastToken))
        }
    }

    // MARK: Storage

    /// Gives back the storage of jobs and tasks that have ended, once most of it is unused.
    private mutating func giveStorageBack() {
        if table.tasks.isSparse { table.compactTasks() }
        guard table.jobs.isSparse else { return }
        let moves = table.compactJobs()
        waitingForNetwork.follow(moves)
        for queue in FetchQueue.byUrgency { queues[queue].follow(moves, in: table.jobs) }
    }
}
