import Foundation

extension Engine {
    enum Ending {
        case cached
        case fetched(Fetch.Answer)
        /// With a stored answer that is out of date, because the network has failed.
        case keptAnswer
        case failed, notCached, cancelled, timedOut
    }

    func end(_ waiter: DataTask, _ ending: Ending) {
        guard let fetch = waiter.wait.fetch else { return }
        leave(waiter, ending)
        settle(fetch)
    }

    func leave(_ task: DataTask, _ ending: Ending) {
        guard let fetch = task.wait.fetch else { return }
        fetch.remove(task)
        if let timer = task.wait.timeout { timers.cancel(timer) }
        if let timer = task.wait.patience { timers.cancel(timer) }
        task.detach(in: task.wait.queue, attempts: fetch.attempts)
        let found = fetch.knownFindings?.found
        let result: Result<DataResponse, DipperError> =
            switch ending {
            case .cached:
                found.map { .success(response(of: $0, for: task.call)) } ?? .failure(.notCached.about(task.key))
            case .keptAnswer:
                found.map { .success(DataResponse($0.value, source: .stale)) } ?? .failure(fetch.failure ?? .transport)
            case .fetched(let answer): .success(answer.response)
            case .failed: .failure(task.wait.refusal ?? fetch.failure ?? .transport)
            case .notCached: .failure(.notCached.about(task.key))
            case .cancelled: .failure(.cancelled)
            case .timedOut: .failure(.timedOut)
            }
        var place: CacheKey?
        if case .fetched(let answer) = ending { place = answer.place }
        if case .fetched(let answer) = ending, let write = answer.write {
            finish(task, result, whenOnDisk: write.whenEnded)
        } else {
            finish(task, result, kept: place ?? found?.place ?? task.key)
        }
    }

    private func response(of found: FoundEntry, for call: Call) -> DataResponse {
        // The look-up has asked the call's validation.
        switch call.use(of: found.value.info, at: now().timeIntervalSince1970) {
        case .fresh: DataResponse(found.value, source: found.source)
        case .staleWhileRevalidating: DataResponse(found.value, source: .stale, revalidation: found.revalidation)
        case .stale, .revalidate: DataResponse(found.value, source: .stale)
        }
    }

    /// Ends a task, once the entry is on disk if the task waits for that.
    nonisolated func finish(_ task: DataTask, _ result: Result<DataResponse, DipperError>, kept place: CacheKey) {
        finish(task, result) { [store] finish in
            store.settle(place, task.call, task.call.mustBeDurable ? .durable : .relaxed, whenDone: finish)
        }
    }

    private nonisolated func finish(
        _ task: DataTask, _ result: Result<DataResponse, DipperError>,
        whenOnDisk wait: (@escaping @Sendable (_ isOnDisk: Bool) -> Void) -> Void
    ) {
        guard task.request.waitsForDiskWrite, case .success = result else { return finish(task, result) }
        let pending = task.call.pending
        pending.begin()
        wait { isOnDisk in
            self.finish(task, isOnDisk || !task.call.mustBeDurable ? result : .failure(.notWritten))
            pending.end()
        }
    }

    nonisolated func finish(_ task: DataTask, _ result: Result<DataResponse, DipperError>) {
        if task.isRevalidation {
            let dropped = revalidations.withLock { $0.forget(task) }
            withExtendedLifetime(dropped) {}
        }
        if task.tellsEnd { events.ended(task, result.map(\.source)) }
        if task.end(result) { Afterwards.run(task.flush) }
    }

    /// Tells a task something, and has its hooks called.
    func tell(_ task: DataTask, _ body: (DataTask) -> Bool) {
        if body(task) { Afterwards.run(task.flush) }
    }

    /// Gives a fetch the queue and the priority of its most urgent call. Ends it if no call is left.
    /// - Parameter isFinishing: whether the fetch has ended by itself.
    func settle(_ fetch: Fetch, isFinishing: Bool = false) {
        guard !fetch.isOver else { return }
        reconsider()
        guard fetch.isWanted else { return end(fetch, isFinishing: isFinishing) }
        if fetch.queue != fetch.wantedQueue { move(fetch, to: fetch.wantedQueue) }
        if fetch.level != fetch.wantedLevel {
            queues.setLevel(fetch.wantedLevel, of: fetch)
            moveLookUp(of: fetch)
        }
    }

    private func move(_ fetch: Fetch, to queue: FetchQueue) {
        events.note(fetch, .queueChanged(queue))
        let wasQueued = fetch.place == .queued
        queues.move(fetch, to: queue)
        if wasQueued { events.note(fetch, .queued(queue)) }
        fetch.run?.transfer?.setQueue(queue)
        moveLookUp(of: fetch)
    }

    private func end(_ fetch: Fetch, isFinishing: Bool) {
        forgetLookUp(of: fetch)
        fetch.isOver = true
        if let known = fetch.knownFindings {
            if let timer = exchange(&known.backOff, with: nil) { timers.cancel(timer) }
            if known.offlineNumber > 0 { offline[known.offlineNumber] = nil }
        }
        queues.remove(fetch)
        // mutant Cancelling: `if !isFinishing {` => `if isFinishing {`
        if !isFinishing { fetch.run?.transfer?.cancel() }
        let parked = fetch.knownFindings?.unpark() ?? 0
        if parked > 0 { account { $0.end(held: 0, parked: parked) } }
        // A cancelled transfer gives its bytes back when it has ended.
        if fetch.run?.transfer == nil { giveBack(of: fetch) }
        events.note(fetch, .ended)
        if fetches[fetch.key] === fetch {
            fetches[fetch.key] = nil
        } else if let others = outdated[fetch.key]?.filter({ $0 !== fetch }) {
            outdated[fetch.key] = others.isEmpty ? nil : others
        }
        if let alias = fetch.alias {
            aliases[alias]?[ObjectIdentifier(fetch)] = nil
            if aliases[alias]?.isEmpty == true { aliases[alias] = nil }
        }
    }

    func throttle(_ fetch: Fetch, _ isThrottled: Bool) {
        if isThrottled {
            fetch.run?.wasThrottled = true
            fetch.findings.budget.hold(at: time.now())
        } else if fetch.findings.budget.hasStarted {
            run(fetch)
        }
        // mutant Pausing|QueueTests: `fetch.run?.transfer?.setThrottled(isThrottled)` => `_ = isThrottled`
        fetch.run?.transfer?.setThrottled(isThrottled)
        events.note(fetch, isThrottled ? .paused : .resumed)
    }

    // MARK: Time limits

    /// Starts the time limit of a call, unless it has been started.
    /// - Parameter spent: the time that the fetch has taken so far.
    func armTimeout(of waiter: DataTask, spent: Duration) {
        guard let timeout = waiter.call.timeout, waiter.wait.limit == nil else { return }
        waiter.wait.limit = spent + timeout
        watch(waiter)
    }

    /// Lets the time of a fetch go on: it may use the link again.
    func run(_ fetch: Fetch) {
        fetch.findings.budget.run(at: time.now())
        guard fetch.demand.hasTimeLimits else { return }
        for waiter in fetch.waiters where waiter.wait.limit != nil && waiter.wait.timeout == nil { watch(waiter) }
    }

    func watch(_ waiter: DataTask) {
        waiter.wait.timeout = nil
        guard let fetch = waiter.wait.fetch, let limit = waiter.wait.limit else { return }
        let left = limit - fetch.findings.budget.spent(at: time.now())
        guard left > .zero else { return end(waiter, .timedOut) }
        // While the time stands still, `run` starts the timer.
        if fetch.findings.budget.isRunning { waiter.wait.timeout = timers.add(at: time.now() + left, .timeout(waiter)) }
    }
}

extension Engine {
    /// Tells progress from now on, beginning with the present one: the next bytes may be long in coming.
    func wantProgress(_ task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.wantsProgress = true
        fetch.run?.reception.setWanted(true)
        if let progress = fetch.progress { report(.progress, of: fetch, progress) }
    }

    func wantBytes(_ task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.wantsBytes = true
        fetch.run?.reception.setWanted(true)
        if let progress = fetch.progress { report(.bytes, of: fetch, progress) }
    }

    func report(_ news: Fetch.News, of fetch: Fetch, _ progress: TaskProgress, isAgain: Bool = false) {
        guard let run = fetch.run, !fetch.isOver else { return }
        let isLast = news == .progress && progress.received == progress.expected
        let own = fetch.demand.hasOwnPace ? fetch.calls.compactMap(\.request.progressInterval).min() : nil
        let answer = run.ask(
            news, at: time.now(), interval: own ?? options.progressInterval, isLast: isLast, isAgain: isAgain)
        switch answer {
        case .no: break
        case .later(let wait):
            // News just before the flow stops must be told as well.
            timers.add(at: time.now() + wait, .report(fetch, news))
        case .now:
            switch news {
            case .progress:
                for waiter in fetch.waiters { tell(waiter) { $0.tell(progress) } }
            case .bytes: showBytes(of: fetch, run)
            }
        }
    }

    private func showBytes(of fetch: Fetch, _ run: Run) {
        let viewers = fetch.waiters.filter(\.hasViewer)
        guard let transfer = run.transfer, !viewers.isEmpty else {
            fetch.wantsBytes = !viewers.isEmpty
            return
        }
        transfer.copyBody { [weak self, joined = run.joined, inherited = run.inherited] bytes, offset in
            // Joining bodies and looking at them takes time.
            self?.views.async {
                guard offset == 0 || offset == inherited, let whole = offset == 0 ? bytes : joined?.joined(bytes)
                else { return }
                for task in viewers { task.show(whole) }
            }
        }
    }
}

extension Run {
    fileprivate func ask(
        _ news: Fetch.News, at time: Duration, interval: Duration, isLast: Bool, isAgain: Bool
    ) -> Pacing.Answer {
        switch news {
        case .progress: progressPace.ask(at: time, interval: interval, isLast: isLast, isAgain: isAgain)
        case .bytes: bytesPace.ask(at: time, interval: interval, isAgain: isAgain)
        }
    }
}

/// The pacing of reports: at most one per interval, the latest one last. A value that is asked before each report.
struct Pacing: Sendable {
    enum Answer: Equatable {
        case now
        /// Ask again after this time.
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
