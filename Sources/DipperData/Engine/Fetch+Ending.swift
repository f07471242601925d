import Foundation

/// How calls leave a fetch, and what follows for the fetch.
extension Fetch {
    func end(_ waiter: Waiter, _ result: Result<DataResponse, DipperError>? = nil) {
        guard waiter.fetch === self else { return }
        leave(waiter, result)
        settle()
        // The call may have been the one that permitted the network.
        if !isOver, engine.network.conditions != NetworkConditions() { permissionChanged() }
    }

    /// - Parameters:
    ///   - result: `nil` for the last failure of the fetch.
    ///   - place: the key of the entry in the tiers; `nil` for that of the entry found there.
    func leave(
        _ waiter: Waiter, _ result: Result<DataResponse, DipperError>? = nil, kept place: CacheKey? = nil,
        _ write: PendingWrite? = nil
    ) {
        guard waiter.fetch === self else { return }
        remove(waiter)
        if let limits = waiter.knownLimits {
            if let timer = exchange(&limits.timeout, with: nil) { engine.timers.cancel(timer) }
            if let timer = exchange(&limits.patience, with: nil) { engine.timers.cancel(timer) }
        }
        if attempts > 0, case .success? = result { waiter.remember(self) }
        waiter.end(
            result ?? .failure(failure ?? .transport), kept: place ?? knownFindings?.found?.place, write,
            attempts: attempts)
    }

    func response(of found: FoundEntry, for call: Call) -> DataResponse {
        // The look-up has asked the call's validation.
        switch call.use(of: found.value.info, at: engine.now().timeIntervalSince1970) {
        case .fresh: DataResponse(found.value, source: found.source)
        case .staleWhileRevalidating: DataResponse(found.value, source: .stale, revalidation: found.revalidation)
        case .stale, .revalidate: DataResponse(found.value, source: .stale)
        }
    }

    /// Gives a fetch the queue and the priority of its most urgent call. Ends it if no call is left.
    /// - Parameter isFinishing: whether the fetch has ended by itself.
    func settle(isFinishing: Bool = false) {
        guard !isOver else { return }
        engine.reconsider()
        if wants.isEmpty { return end(isFinishing: isFinishing) }
        let want = urgency
        if queue != want.queue { move(to: want.queue) }
        if level != want.level {
            engine.queues.setLevel(want.level, of: self)
            moveLookUp()
        }
    }

    private func move(to queue: FetchQueue) {
        engine.events.tell(self, .queueChanged(queue))
        engine.queues.move(self, to: queue)
        lease?.moved(to: queue)
        if place == .queued { engine.events.tell(self, .queued(queue)) }
        run?.transfer?.setQueue(queue)
        moveLookUp()
        if engine.network.conditions != NetworkConditions() { permissionChanged() }
    }

    private func end(isFinishing: Bool) {
        forgetLookUp()
        isOver = true
        leaveParking()
        if let hook = knownFindings?.hook { engine.cancelHook(hook) }
        engine.queues.remove(self)
        // mutant Cancelling: `if !isFinishing {` => `if isFinishing {`
        if !isFinishing { run?.transfer?.cancel() }
        let parked = knownFindings?.unpark() ?? 0
        if parked > 0 { engine.account { $0.giveBack(parked: parked) } }
        // A cancelled transfer gives its bytes back when it has ended.
        if run?.transfer == nil { giveBack() }
        endLease()
        engine.events.leftNetwork(self, .fetchEnded)
        engine.fetches.remove(self)
    }

    func throttle(_ isThrottled: Bool) {
        if isThrottled {
            run?.noteThrottling()
            findings.budget.hold(at: engine.time.now())
        } else if findings.budget.hasStarted {
            runClock()
        }
        // mutant Pausing|QueueTests: `run?.transfer?.setThrottled(isThrottled)` => `_ = isThrottled`
        run?.transfer?.setThrottled(isThrottled)
        engine.events.tell(self, isThrottled ? .paused : .resumed)
    }

    // MARK: Time limits

    /// - Parameter spent: the time that the fetch has taken so far.
    func armTimeout(of waiter: Waiter, spent: Duration) {
        guard let timeout = waiter.call.timeout, waiter.knownLimits?.limit == nil else { return }
        waiter.limits.limit = spent + timeout
        watch(waiter)
    }

    /// Counts the time limits of the calls from now on.
    func startClock() {
        runClock()
        guard demand.hasTimeLimits else { return }
        let spent = findings.budget.spent(at: engine.time.now())
        for waiter in waiters { armTimeout(of: waiter, spent: spent) }
    }

    func runClock() {
        findings.budget.run(at: engine.time.now())
        guard demand.hasTimeLimits else { return }
        for waiter in waiters where waiter.knownLimits?.timeout == nil { watch(waiter) }
    }

    func watch(_ waiter: Waiter) {
        guard waiter.fetch === self, let limits = waiter.knownLimits, let limit = limits.limit else {
            return
        }
        limits.timeout = nil
        let left = limit - findings.budget.spent(at: engine.time.now())
        guard left > .zero else { return timeOut(waiter, findings.found?.value) }
        // While the time stands still, `runClock` starts the timer.
        if findings.budget.isRunning {
            limits.timeout = engine.timers.add(at: engine.time.now() + left, .timeout(waiter))
        }
    }

    private func timeOut(_ waiter: Waiter, _ found: StoredData?) {
        engine.judge(waiter.isRevalidation ? nil : found, for: [waiter.call]) { verdicts in
            let moment = self.engine.now().timeIntervalSince1970
            let kept = found.flatMap { found in
                !waiter.isRevalidation
                    && verdicts.isAnsweredAllTheSame(waiter.call, by: found, isUnreached: true, at: moment)
                    ? found : nil
            }
            self.end(
                waiter, kept.map { .success(DataResponse($0, source: .stale)) } ?? .failure(.timedOut))
        }
    }
}

extension Fetch {
    /// Reports from now on, beginning with the bytes so far: the next ones may be long in coming.
    func want(_ reports: Fetch.Reports, for waiter: Waiter) {
        guard waiter.fetch === self else { return }
        wanted.formUnion(reports)
        if let progress { report(reports, progress) }
    }

    func report(_ reports: Fetch.Reports, _ progress: TaskProgress, isAgain: Bool = false) {
        guard !reports.isEmpty, let run, !isOver else { return }
        let own = demand.hasOwnPace ? calls.compactMap(\.request.progressInterval).min() : nil
        let (now, interval) = (engine.time.now(), own ?? engine.options.progressInterval)
        if reports.contains(.bytes) {
            let isImpatient = waiters.contains { $0.viewer?.isImpatient == true }
            let answer = run.bytesPace.ask(
                at: now, interval: isImpatient ? min(interval, .milliseconds(10)) : interval, isAgain: isAgain)
            if allows(answer, .bytes) { showBytes(run) }
        }
        if reports.contains(.progress) {
            let isLast = progress.received == progress.expected
            let answer = run.progressPace.ask(at: now, interval: interval, isLast: isLast, isAgain: isAgain)
            if allows(answer, .progress) { for waiter in waiters { waiter.hear(.progress(progress)) } }
        }
    }

    private func allows(_ answer: Pacing.Answer, _ report: Fetch.Reports) -> Bool {
        // The last bytes before the flow stops must be reported as well.
        if case .later(let wait) = answer { engine.timers.add(at: engine.time.now() + wait, .report(self, report)) }
        return answer == .now
    }

    private func showBytes(_ run: Run) {
        let viewers = waiters.compactMap { mayShow(to: $0) ? $0.viewer : nil }
        guard let transfer = run.transfer, !viewers.isEmpty else {
            if viewers.isEmpty { wanted.remove(.bytes) }
            return
        }
        transfer.copyBody { [views = engine.views, joined = run.joined, inherited = run.inherited] bytes, offset in
            views.async {
                guard offset == 0 || offset == inherited, let whole = offset == 0 ? bytes : joined?.joined(bytes)
                else { return }
                for viewer in viewers { viewer.view(whole) }
            }
        }
    }
}

/// The pacing of reports: at most one per interval, the latest one last.
struct Pacing: Sendable {
    enum Answer: Equatable {
        case now
        case later(Duration)
        case no
    }

    private var last: Duration?
    private var willAsk = false

    /// - Parameters:
    ///   - isLast: whether nothing follows, so that the interval does not matter.
    ///   - isAgain: whether an earlier answer told the reporter to ask later.
    mutating func ask(at time: Duration, interval: Duration, isLast: Bool = false, isAgain: Bool = false) -> Answer {
        if isAgain { willAsk = false }
        if let last, time - last < interval, !isLast {
            if willAsk { return .no }
            willAsk = true
            return .later(last + interval - time)
        }
        last = time
        return .now
    }
}
