import Foundation

extension Engine {
    func end(_ waiter: DataTask, _ result: Result<DataResponse, DipperError>? = nil) {
        guard let fetch = waiter.wait.fetch else { return }
        leave(waiter, result)
        settle(fetch)
        // The call may have been the one that permitted the network.
        if !fetch.isOver, network.conditions != NetworkConditions() { permissionChanged(of: fetch) }
    }

    /// - Parameters:
    ///   - result: `nil` for the last failure of the fetch.
    ///   - place: the key of the entry in the tiers; `nil` for that of the entry found there.
    func leave(
        _ task: DataTask, _ result: Result<DataResponse, DipperError>? = nil, kept place: CacheKey? = nil,
        _ write: PendingWrite? = nil
    ) {
        guard let fetch = task.wait.fetch else { return }
        fetch.remove(task)
        if let limits = task.wait.knownLimits {
            if let timer = exchange(&limits.timeout, with: nil) { timers.cancel(timer) }
            if let timer = exchange(&limits.patience, with: nil) { timers.cancel(timer) }
        }
        task.detach(in: task.wait.want.queue, attempts: fetch.attempts)
        // Perhaps nothing can be made of the answer.
        if !task.tellsEnd, fetch.attempts > 0, case .success? = result { task.wait.limits.past = fetch }
        finish(
            task, result ?? .failure(fetch.failure ?? .transport),
            kept: place ?? fetch.knownFindings?.found?.place ?? task.key, write)
    }

    func response(of found: FoundEntry, for call: Call) -> DataResponse {
        // The look-up has asked the call's validation.
        switch call.use(of: found.value.info, at: now().timeIntervalSince1970) {
        case .fresh: DataResponse(found.value, source: found.source)
        case .staleWhileRevalidating: DataResponse(found.value, source: .stale, revalidation: found.revalidation)
        case .stale, .revalidate: DataResponse(found.value, source: .stale)
        }
    }

    @inline(__always)
    nonisolated func finish(
        _ task: DataTask, _ result: Result<DataResponse, DipperError>, kept place: @autoclosure () -> CacheKey,
        _ write: PendingWrite? = nil
    ) {
        guard task.call.request.waitsForDiskWrite, case .success = result else { return finish(task, result) }
        wait(toFinish: task, result, place(), write)
    }

    private nonisolated func wait(
        toFinish task: DataTask, _ result: Result<DataResponse, DipperError>, _ place: CacheKey, _ write: PendingWrite?
    ) {
        let call = task.call
        call.pending.begin()
        let finish: @Sendable (Bool) -> Void = { isOnDisk in
            self.finish(task, isOnDisk || !call.mustBeDurable ? result : .failure(.notWritten))
            call.pending.end()
        }
        guard let write else {
            return store.settle(place, call, call.mustBeDurable ? .durable : .relaxed, whenDone: finish)
        }
        write.whenEnded(finish)
    }

    nonisolated func finish(_ task: DataTask, _ result: Result<DataResponse, DipperError>) {
        if task.isRevalidation {
            let dropped = revalidations.withLock { $0.forget(task) }
            withExtendedLifetime(dropped) {}
        }
        if task.tellsEnd { events.ended(task, result.map(\.source)) }
        task.end(result)
    }

    /// Gives a fetch the queue and the priority of its most urgent call. Ends it if no call is left.
    /// - Parameter isFinishing: whether the fetch has ended by itself.
    func settle(_ fetch: Fetch, isFinishing: Bool = false) {
        guard !fetch.isOver else { return }
        reconsider()
        if fetch.wants.isEmpty { return end(fetch, isFinishing: isFinishing) }
        let want = fetch.wants.highest
        if fetch.queue != want.queue { move(fetch, to: want.queue) }
        if fetch.level != want.level {
            queues.setLevel(want.level, of: fetch)
            moveLookUp(of: fetch)
        }
    }

    private func move(_ fetch: Fetch, to queue: FetchQueue) {
        events.tell(fetch, .queueChanged(queue))
        queues.move(fetch, to: queue)
        if fetch.place == .queued { events.tell(fetch, .queued(queue)) }
        fetch.run?.transfer?.setQueue(queue)
        moveLookUp(of: fetch)
        if network.conditions != NetworkConditions() { permissionChanged(of: fetch) }
    }

    private func end(_ fetch: Fetch, isFinishing: Bool) {
        forgetLookUp(of: fetch)
        fetch.isOver = true
        if let known = fetch.knownFindings {
            if let timer = exchange(&known.backOff, with: nil) { timers.cancel(timer) }
            forgetOffline(known)
            cancelHook(known.hook)
        }
        queues.remove(fetch)
        // mutant Cancelling: `if !isFinishing {` => `if isFinishing {`
        if !isFinishing { fetch.run?.transfer?.cancel() }
        let parked = fetch.knownFindings?.unpark() ?? 0
        if parked > 0 { account { $0.giveBack(parked: parked) } }
        // A cancelled transfer gives its bytes back when it has ended.
        if fetch.run?.transfer == nil { giveBack(of: fetch) }
        events.leftNetwork(fetch, .fetchEnded)
        if fetches[fetch.key] === fetch { fetches[fetch.key] = nil } else { forget(fetch, under: fetch.key) }
        if let alias = fetch.alias { forget(fetch, under: alias) }
    }

    private func forget(_ fetch: Fetch, under key: CacheKey) {
        others[key]?[ObjectIdentifier(fetch)] = nil
        if others[key]?.isEmpty == true { others[key] = nil }
    }

    func throttle(_ fetch: Fetch, _ isThrottled: Bool) {
        if isThrottled {
            fetch.run?.wasThrottled = true
            fetch.run?.looks = nil
            fetch.findings.budget.hold(at: time.now())
        } else if fetch.findings.budget.hasStarted {
            run(fetch)
        }
        // mutant Pausing|QueueTests: `fetch.run?.transfer?.setThrottled(isThrottled)` => `_ = isThrottled`
        fetch.run?.transfer?.setThrottled(isThrottled)
        events.tell(fetch, isThrottled ? .paused : .resumed)
    }

    // MARK: Time limits

    /// - Parameter spent: the time that the fetch has taken so far.
    func armTimeout(of waiter: DataTask, spent: Duration) {
        guard let timeout = waiter.call.timeout, waiter.wait.knownLimits?.limit == nil else { return }
        waiter.wait.limits.limit = spent + timeout
        watch(waiter)
    }

    func run(_ fetch: Fetch) {
        fetch.findings.budget.run(at: time.now())
        guard fetch.demand.hasTimeLimits else { return }
        for waiter in fetch.waiters where waiter.wait.knownLimits?.timeout == nil { watch(waiter) }
    }

    func watch(_ waiter: DataTask) {
        guard let fetch = waiter.wait.fetch, let limits = waiter.wait.knownLimits, let limit = limits.limit else {
            return
        }
        limits.timeout = nil
        let left = limit - fetch.findings.budget.spent(at: time.now())
        guard left > .zero else { return timeOut(waiter, fetch.findings.found?.value) }
        // While the time stands still, `run` starts the timer.
        if fetch.findings.budget.isRunning { limits.timeout = timers.add(at: time.now() + left, .timeout(waiter)) }
    }

    private func timeOut(_ waiter: DataTask, _ found: StoredData?) {
        judge(waiter.isRevalidation ? nil : found, for: [waiter.call]) { engine, verdicts in
            let moment = engine.now().timeIntervalSince1970
            let kept = found.flatMap { found in
                !waiter.isRevalidation
                    && verdicts.isAnsweredAllTheSame(waiter.call, by: found, isUnreached: true, at: moment)
                    ? found : nil
            }
            engine.end(
                waiter, kept.map { .success(DataResponse($0, source: .stale)) } ?? .failure(.timedOut))
        }
    }
}

extension Engine {
    /// Reports from now on, beginning with the bytes so far: the next ones may be long in coming.
    func want(_ reports: Fetch.Reports, for task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.wanted.formUnion(reports)
        if let progress = fetch.progress { report(reports, of: fetch, progress) }
    }

    func report(_ reports: Fetch.Reports, of fetch: Fetch, _ progress: TaskProgress, isAgain: Bool = false) {
        guard !reports.isEmpty, let run = fetch.run, !fetch.isOver else { return }
        let own = fetch.demand.hasOwnPace ? fetch.calls.compactMap(\.request.progressInterval).min() : nil
        let (now, interval) = (time.now(), own ?? options.progressInterval)
        if reports.contains(.bytes) {
            let answer = run.bytesPace.ask(at: now, interval: interval, isAgain: isAgain)
            if allows(answer, .bytes, of: fetch) { showBytes(of: fetch, run) }
        }
        if reports.contains(.progress) {
            let isLast = progress.received == progress.expected
            let answer = run.progressPace.ask(at: now, interval: interval, isLast: isLast, isAgain: isAgain)
            if allows(answer, .progress, of: fetch) { for waiter in fetch.waiters { waiter.hear(.progress(progress)) } }
        }
    }

    private func allows(_ answer: Pacing.Answer, _ report: Fetch.Reports, of fetch: Fetch) -> Bool {
        // The last bytes before the flow stops must be reported as well.
        if case .later(let wait) = answer { timers.add(at: time.now() + wait, .report(fetch, report)) }
        return answer == .now
    }

    private func showBytes(of fetch: Fetch, _ run: Run) {
        let viewers = fetch.waiters.compactMap { $0.viewer }
        guard let transfer = run.transfer, !viewers.isEmpty else {
            if viewers.isEmpty { fetch.wanted.remove(.bytes) }
            return
        }
        transfer.copyBody { [weak self, joined = run.joined, inherited = run.inherited] bytes, offset in
            self?.views.async {
                guard offset == 0 || offset == inherited, let whole = offset == 0 ? bytes : joined?.joined(bytes)
                else { return }
                for view in viewers { view(whole) }
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
