import Foundation

extension FetchJob {
    /// The state of a job. Each event is one method, which returns what follows from the event and what is to be
    /// released without a lock.
    ///
    /// A look-up may be under way in any phase, for a call that has joined the job. A job may be aborted in any phase
    /// as well: what its transfer leaves is kept all the same.
    struct State: Sendable {
        private(set) var phase = Phase.waiting
        private(set) var sources: JobSources
        private(set) var demand = JobDemand()
        var findings = JobFindings()
        var pace = JobPace()
        /// The look-up on disk that is under way.
        private(set) var lookUp: LookUp?
        private(set) var budget = TimeBudget()
        private var ways = GivenWays()
        private var queue = FetchQueue.fast
        private var isThrottled = false
        /// Whether no task waits for the job any more.
        private(set) var isAborted = false
        /// A number that grows with each turn, and with each transfer that begins or ends. It tells late events of one
        /// transfer from events of the next.
        private(set) var transferNumber = 0
        private(set) var attempts = 0
        /// The failure of the last attempt that failed.
        private(set) var failure: DipperError?

        init(sources: JobSources) { self.sources = sources }

        /// The attempt that is under way.
        var current: JobExchange? {
            get { if case .attempting(let current) = phase { current } else { nil } }
            set { if let newValue { phase = .attempting(newValue) } }
        }

        /// The answer of the last attempt.
        var answer: JobAnswer? { if case .answered(let answer) = phase { answer } else { nil } }

        /// The answer of the tiers, if it may stand in for what the network says now.
        var confirmable: FetchJob.Found? { demand.insistsOnNetwork ? nil : findings.found }

        /// The URL that the job needs a way to; `nil` for a provider, which needs no network as far as is known.
        var destination: URL? {
            sources.provider == nil ? current?.attempt.sentURL ?? sources.unreachable ?? sources.url : nil
        }
    }
}

// MARK: Calls and the scheduler

extension FetchJob.State {
    /// Takes a call, which may have been answered by the tiers.
    /// - Returns: the time spent so far, and the failure of the last attempt.
    mutating func join(_ call: Call, _ found: FetchJob.Found?) -> (spent: TimeBudget, failure: DipperError?) {
        demand.add(call)
        findings.find(found)
        return (budget, failure)
    }

    mutating func apply(_ event: JobEvent) -> JobConsequence {
        var consequence = JobConsequence()
        switch event {
        case .looksUp(let lookUp):
            self.lookUp = lookUp
        case .dropLookUp:
            swap(&lookUp, &consequence.lookUp)
        case .lookedUp(let found, let partial, let claim):
            consequence.dropped = findings.lookedUp(found, partial, claim, isAttempting: current != nil)
        case .found(let found, isAnswer: true):
            let answer = JobAnswer(
                response: DataResponse(found.value, source: found.source), keeping: .kept(found.place))
            consequence.phase = exchange(&phase, with: .answered(answer))
        case .found(let found, isAnswer: false):
            findings.find(found)
        case .beginAnew(let call):
            consequence.dropped = findings.beginAnew()
            sources.begin(anewFor: call)
            failure = nil
        case .throttle(let isThrottled, let now):
            self.isThrottled = isThrottled
            if isThrottled {
                current?.wasThrottled = true
                budget.hold(at: now)
            } else if budget.hasStarted {
                budget.run(at: now)
            }
            consequence.transfer = current?.transfer
        case .changeQueue(let queue):
            self.queue = queue
            consequence.transfer = current?.transfer
        case .abort:
            isAborted = true
            consequence.transfer = current?.transfer
            current?.transfer = nil
        case .backOff(let timer):
            consequence.timer = endBackOff()
            phase = .backingOff(timer)
        case .endBackOff:
            consequence.timer = endBackOff()
        case .waitForTurn(let now):
            budget.hold(at: now)
            consequence.timer = endBackOff()
        case .networkReturned(let now):
            budget.run(at: now)
        }
        return consequence
    }

    /// Ends the wait for a timer.
    /// - Returns: the timer, which is no longer needed.
    private mutating func endBackOff() -> TimerQueue.ID? {
        guard case .backingOff(let timer) = phase else { return nil }
        phase = .waiting
        return timer
    }
}

// MARK: Attempts

extension FetchJob.State {
    /// Takes the job's turn, with a slot of a queue.
    /// - Parameter claim: the right to keep what is fetched, if the job has none that holds.
    /// - Returns: the number of parked bytes, which count as the transfer's from now on, and what is dropped.
    mutating func takeTurn(
        in queue: FetchQueue, isThrottled: Bool, _ claim: Claim, _ history: StoreHistory
    ) -> (unparked: Int, dropped: (FetchJob.Phase, JobFindings.Dropped)) {
        self.queue = queue
        self.isThrottled = isThrottled
        // The thread of the last attempt may still be about to give back what that attempt held.
        transferNumber += 1
        return (findings.unpark(), (exchange(&phase, with: .waiting), findings.reclaim(claim, history)))
    }

    /// The place among the look-ups for the reading of the beginning that was left on disk; `nil` if there is none.
    var leftover: LookUpQueue.Place? {
        findings.isLeftOnDisk && findings.partial == nil ? .init(queue, sources.lead.request.priority) : nil
    }

    /// Takes the beginning that was left on disk, which may have been removed since the job's turn began.
    /// - Returns: whether the job keeps it, and what is dropped; `nil` if no task waits for the job any more.
    mutating func readBack(
        _ partial: PartialBody?, _ fresh: Claim, _ history: StoreHistory
    ) -> (isKept: Bool, dropped: JobFindings.Dropped)? {
        if isAborted { return nil }
        let isKept = findings.readBack(partial)
        return (isKept, findings.reclaim(fresh, history))
    }

    /// Begins an attempt.
    /// - Parameter stored: the answer that the server may confirm.
    /// - Returns: the attempt, and the time spent on the job if a call has a time limit; `nil` if no source is left.
    mutating func begin(
        confirming stored: StoredData?, maximumRedirects: Int, at now: Duration
    ) -> (attempt: Attempt, limited: Duration?)? {
        guard let url = sources.url else { return nil }
        attempts += 1
        pace = JobPace()
        budget.run(at: now)
        if isThrottled { budget.hold(at: now) }
        let request = sources.lead.request
        let attempt = Attempt(
            url, insteadOf: request.url ?? url, headers: request.headers, hooks: request.hooks,
            maximumRedirects: maximumRedirects, stored: demand.insistsOnNetwork ? nil : stored,
            partial: findings.partial)
        // What the attempt begins with is counted before the hooks run: a hook that fails gives no way.
        phase = .attempting(
            JobExchange(
                attempt: attempt, inherited: findings.partial?.bytes.count ?? 0, wasThrottled: isThrottled,
                sent: request.headers))
        return (attempt, demand.hasTimeLimits ? budget.spent(at: now) : nil)
    }

    /// Takes the attempt's next step.
    /// - Returns: false if the attempt is over.
    mutating func goOn(with attempt: Attempt) -> Bool {
        guard current != nil else { return false }
        current?.attempt = attempt
        return true
    }

    /// Sends a request, as the hooks have changed it.
    /// - Parameter sent: the caller's header fields, changed likewise; `nil` if no hook has changed them.
    /// - Returns: the transfer to start; `nil` if no task waits for it any more.
    mutating func send(
        _ request: TransferRequest, of attempt: Attempt, sent: HTTPHeaders? = nil, at moment: TimeInterval
    ) -> Start? {
        guard !isAborted, var next = current else { return nil }
        let dropped = exchange(&next.joined, with: findings.partial.map { JoinedBody($0.bytes) })
        next.attempt = attempt
        next.attempt.sent(to: request.url)
        next.attempt.asksForRange = request.headers["Range"] != nil
        if let sent { next.sent = sent }
        next.requested = moment
        phase = .attempting(next)
        transferNumber += 1
        sources.unreachable = nil
        return Start(number: transferNumber, orders: orders, inherited: next.inherited, dropped: dropped)
    }

    private var orders: Orders { Orders(queue: queue, isThrottled: isThrottled, isAborted: isAborted) }

    /// Takes a transfer that has been started. One that has ended holds the job: if the job kept it, neither would ever
    /// be released.
    /// - Parameter told: the orders that the transfer has.
    /// - Returns: the orders that hold by now; `nil` if they are those, or if the transfer has ended.
    mutating func started(_ transfer: any Transfer, number: Int, told: Orders) -> Orders? {
        guard transferNumber == number else { return nil }
        current?.transfer = transfer
        return orders == told ? nil : orders
    }

    /// - Returns: the job's number of transfers, the attempt without its transfer, if it is not over, and the transfer.
    mutating func transferEnded() -> (number: Int, current: JobExchange?, dropped: (any Transfer)?) {
        let transfer = current?.transfer
        current?.transfer = nil
        transferNumber += 1
        return (transferNumber, current, transfer)
    }

    /// Takes the beginning that a transfer has left.
    /// - Parameter isKeepable: whether the beginning may be kept on disk.
    /// - Returns: the right with which it is to be written, if it is, and what is dropped.
    mutating func interrupted(
        _ partial: PartialBody?, isKeepable: Bool
    ) -> (claim: Claim?, dropped: JobFindings.Dropped) {
        let goesToDisk = demand.keepsOnDisk && isKeepable
        return (goesToDisk ? findings.claim : nil, findings.interrupted(partial, keepsOnDisk: goesToDisk))
    }

    /// Watches a transfer to whose host there is no way, and gives it up unless bytes still arrive.
    /// - Parameters:
    ///   - seen: the transfer when it was looked at last; `nil` at first.
    ///   - received: the bytes that have arrived by now.
    /// - Returns: the transfer to look at again, or the one that is to be cancelled; neither if it has ended.
    mutating func unreachable(
        since seen: Sighting?, received: Int
    ) -> (watched: Sighting?, lost: (any Transfer)?) {
        let sighting = Sighting(number: transferNumber, received: received)
        guard let seen else { return (sighting, nil) }
        guard transferNumber == seen.number, let transfer = current?.transfer else { return (nil, nil) }
        if received != seen.received { return (sighting, nil) }
        current?.isLost = true
        return (nil, transfer)
    }
}

// MARK: Results

extension FetchJob.State {
    /// Takes an answer of the network.
    /// - Parameters:
    ///   - call: the call that the answer was fetched for, or that accepts it.
    ///   - isComplete: whether the partial body is of no use any more.
    /// - Returns: whether a partial body is to be dropped from disk, and what is dropped.
    mutating func deliver(
        _ value: StoredData, _ source: ResponseSource, _ metrics: TransferMetrics, _ write: PendingWrite,
        for call: Call, isComplete: Bool
    ) -> (dropsPartial: Bool, dropped: (FetchJob.Phase, JobFindings.Dropped, Call)) {
        let formerLead = sources.follow(call)
        var (dropsPartial, dropped) = (false, JobFindings.Dropped())
        if isComplete { (dropsPartial, dropped) = findings.complete() }
        let response = DataResponse(
            data: value.data, info: value.info, source: source, attempts: attempts, metrics: metrics)
        let answer = JobAnswer(response: response, keeping: .written(write))
        return (dropsPartial, (exchange(&phase, with: .answered(answer)), dropped, formerLead))
    }

    /// Ends an attempt that has failed.
    /// - Returns: whether the transfer was held back and the server has given it up, which does not count as a failure,
    ///   and the phase that has ended.
    mutating func failed(
        _ error: DipperError, isOffline: Bool, at now: Duration
    ) -> (gaveWay: Bool, dropped: FetchJob.Phase) {
        let bytes = findings.partial?.bytes.count ?? 0
        let known = max(current?.inherited ?? 0, findings.longestDropped)
        let mayGiveWay = current?.wasThrottled == true && !isOffline && error.isBrokenOff
        let gaveWay = mayGiveWay && bytes > known && ways.add(bytes: bytes)
        if isOffline {
            sources.unreachable = current?.attempt.sentURL ?? sources.unreachable
            budget.hold(at: now)
        }
        return (gaveWay, exchange(&phase, with: .waiting))
    }

    /// Notes a failure, and turns to the next source if no call waits for the present one any more.
    /// - Parameter calls: the calls that the next source is for; `nil` if it must not be asked.
    /// - Returns: whether the job goes on, whether its source is a stand-in, and what is dropped.
    mutating func note(
        _ failure: DipperError, goingOnFor calls: [Call]?
    ) -> (goesOn: Bool, isStandIn: Bool, dropped: JobFindings.Dropped) {
        self.failure = failure
        guard let calls, sources.goOn(for: calls, after: failure) else {
            return (false, sources.isStandIn, JobFindings.Dropped())
        }
        return (true, sources.isStandIn, findings.dropPartial())
    }
}
