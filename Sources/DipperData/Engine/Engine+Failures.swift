import Foundation

/// After a failed attempt, calls end or wait, and the fetch is parked, turns to its next source or ends.
extension Engine {
    func failed(_ fetch: Fetch, _ failure: DipperError) {
        let run = exchange(&fetch.run, with: nil)
        guard !fetch.isOver else { return }
        let error =
            fetch.sources.provider == nil
            ? failure.at(run?.attempt.sentURL ?? failure.url ?? fetch.sources.url) : failure
        let time = time.now()
        // Only the host that the caller has named says that there is no network, not one to which it was led on.
        let isOffline = error.mayPass && error.status == nil && !canReach(fetch)
        if isOffline {
            fetch.findings.budget.hold(at: time)
        } else if let run, gaveWay(fetch, run, error) {
            return park(fetch, for: .zero, isSilent: true)
        }
        let attempt = FailedAttempt(
            error: error, isOffline: isOffline,
            isUnreached: error.isUnreached && run?.hasBroughtBytes != true, time: time,
            spent: fetch.findings.budget.spent(at: time))
        judge(error.mayPass ? fetch.findings.found?.value : nil, for: fetch.calls) { engine, verdicts in
            var attempt = attempt
            attempt.verdicts = verdicts
            if !fetch.isOver { engine.conclude(fetch, attempt) }
        }
    }

    /// Returns whether the server has given up a transfer that was held back, which does not count as a failure.
    private func gaveWay(_ fetch: Fetch, _ run: Run, _ error: DipperError) -> Bool {
        let bytes = fetch.findings.partial?.count ?? 0
        return run.wasThrottled && error.isBrokenOff && bytes > max(run.inherited, fetch.findings.longestDropped)
            && fetch.findings.ways.add(bytes: bytes)
    }

    /// While a rule of the program's own is asked, the fetch takes no slot; calls that end whatever it says have ended.
    private func conclude(_ fetch: Fetch, _ attempt: FailedAttempt) {
        var attempt = attempt
        var asked: [(DataTask, @Sendable () async -> Duration?)] = []
        for waiter in fetch.waiters where attempt.counts[waiter] == nil {
            let context = waiter.wait.limits.failures.add(attempt)
            attempt.counts[waiter] = FailedAttempt.Count(context: context)
            guard !attempt.isOffline, !attempt.error.isOfRequest, let rule = waiter.call.retryPolicy.rule else {
                continue
            }
            asked.append((waiter, { await rule(context) }))
        }
        if asked.isEmpty { return decide(fetch, attempt) }
        queues.park(fetch)
        fetch.findings.budget.hold(at: attempt.time)
        if fetch.sources.remaining.isEmpty { endOthers(of: fetch, attempt) }
        reconsider()
        Task.detached { [asked, attempt] in
            let answered = await withTaskGroup(of: (DataTask, Duration?).self) { group in
                for (task, ask) in asked { group.addTask { (task, await ask()) } }
                return await group.reduce(into: attempt) { $0.counts[$1.0]?.answer = $1.1 }
            }
            self.post { engine in
                guard !fetch.isOver else { return }
                engine.run(fetch)
                engine.conclude(fetch, answered)
            }
        }
    }

    private func setFailure(_ error: DipperError, of fetch: Fetch) {
        fetch.findings.failure = error
        fetch.findings.failure?.earlier = fetch.sources.earlierFailures
    }

    private func endOthers(of fetch: Fetch, _ attempt: FailedAttempt) {
        setFailure(attempt.error, of: fetch)
        for waiter in fetch.waiters where waiter.call.retryPolicy.rule == nil {
            switch verdict(on: waiter, of: fetch, attempt) {
            case .end: leave(waiter)
            case .takeKept(let value): leave(waiter, .success(DataResponse(value, source: .stale)))
            case .retry, .waitForNetwork: break
            }
        }
    }

    private func decide(_ fetch: Fetch, _ attempt: FailedAttempt) {
        var attempt = attempt
        let (error, isOffline) = (attempt.error, attempt.isOffline)
        setFailure(error, of: fetch)
        // No call waits for the network if another source can be reached.
        attempt.mayWait = !fetch.sources.remaining.contains { $0.url.map { canReach($0) } ?? true }
        let waiters = Array(fetch.waiters)
        var (ending, answered) = ([DataTask](), [(DataTask, StoredData)]())
        var delay: Duration?
        for waiter in waiters {
            switch verdict(on: waiter, of: fetch, attempt) {
            case .end: ending.append(waiter)
            case .takeKept(let value): answered.append((waiter, value))
            case .retry(let wait): delay = min(delay ?? wait, wait)
            case .waitForNetwork(let longest):
                guard let longest else { continue }
                if let old = waiter.wait.limits.patience { timers.cancel(old) }
                waiter.wait.limits.patience = timers.add(at: time.now() + longest, .patience(waiter))
            }
        }
        // The next source is asked only if no call would wait for this one any more.
        let goesOn =
            ending.count + answered.count == waiters.count && !ending.isEmpty && error != .shutDown
            && !error.isCancelled && fetch.sources.goOn(for: waiters.map(\.call), after: error)
        if goesOn {
            fetch.findings.dropPartial()
            for waiter in waiters { waiter.wait.limits.failures = FailureCount() }
            // A call that has named no stand-in ends with this failure.
            ending.removeAll { !fetch.sources.isStandIn || $0.call.hasStandIns }
        }
        events.failed(fetch, error, willRetry: isOffline || delay != nil || goesOn)
        for (waiter, value) in answered { leave(waiter, .success(DataResponse(value, source: .stale))) }
        for waiter in ending { leave(waiter) }
        if !goesOn, !error.mayPass, delay == nil { for waiter in fetch.waiters { leave(waiter) } }
        guard !fetch.wants.isEmpty else { return settle(fetch, isFinishing: true) }
        let wait: Duration? = isOffline ? nil : delay ?? .zero
        park(fetch, for: goesOn ? .zero : wait)
    }

    private func verdict(on waiter: DataTask, of fetch: Fetch, _ attempt: FailedAttempt) -> FailureVerdict {
        let call = waiter.call
        let verdict =
            attempt.counts[waiter].map {
                attempt.verdict(by: call.retryPolicy, timeout: call.timeout, after: $0, unit: .random(in: 0..<1))
            } ?? .end
        // A transfer that was broken off is continued first.
        let isLast = if case .end = verdict { attempt.error.isUnreached } else { false }
        guard attempt.error.mayPass, !waiter.isRevalidation, let found = fetch.findings.found,
            attempt.verdicts.isAnsweredAllTheSame(
                call, by: found.value, isOffline: attempt.isOffline, isUnreached: attempt.isUnreached || isLast,
                at: now().timeIntervalSince1970)
        else { return verdict }
        return .takeKept(found.value)
    }

    // MARK: Parking

    /// Takes the slot of a fetch until its next attempt. Its partial body stays in memory if there is room.
    /// - Parameter delay: `nil` to wait for the network.
    private func park(_ fetch: Fetch, for delay: Duration?, isSilent: Bool = false) {
        let held = exchange(&fetch.findings.held, with: 0)
        account { fetch.findings.park(insteadOf: held, in: &$0) }
        queues.park(fetch)
        settle(fetch)
        fetch.findings.isRetry = !isSilent
        if !isSilent, let failure = fetch.failure {
            for waiter in fetch.waiters { waiter.hear(.failure(failure, isFatal: false)) }
        }
        events.leftNetwork(fetch, .parked)
        if let delay = delay ?? (canReach(fetch) ? options.wakeSpacing : nil) {
            return backOff(fetch, for: delay)
        }
        fetch.findings.offlineNumber = nextNumber()
        offline[fetch.findings.offlineNumber] = fetch
    }

    private func backOff(_ fetch: Fetch, for delay: Duration) {
        // Clocks trap if a sum does not fit.
        fetch.findings.backOff = timers.add(at: time.now() + min(delay, .seconds(1_000_000_000)), .backOff(fetch))
    }

    func endBackOff(of fetch: Fetch) {
        if fetch.place == .parked, fetch.findings.backOff != nil { wake(fetch) }
    }

    func wake(_ fetch: Fetch) {
        if let timer = exchange(&fetch.findings.backOff, with: nil) { timers.cancel(timer) }
        queues.remove(fetch)
        fetch.findings.budget.hold(at: time.now())
        enqueue(fetch)
    }

    // MARK: Network

    func networkChanged() {
        transport.networkChanged()
        wakeReachable()
        for case let fetch as Fetch in queues.onNetwork where !canReach(fetch) { watchUnreachable(fetch) }
    }

    func canReach(_ fetch: Fetch) -> Bool { fetch.destination.map { canReach($0) } ?? true }

    func canReach(_ url: URL) -> Bool { network.canReach(transport.firstHop(to: url)) }

    private func wakeReachable() {
        let waiting = offline.sorted { $0.key < $1.key }.map(\.value).filter { canReach($0) }
        let inTurn = waiting.filter { $0.queue == .fast } + waiting.filter { $0.queue == .slow }
        guard !inTurn.isEmpty else { return }
        // Several caches and processes hear of the network at the same time, and should not start at the same time.
        let offset = options.wakeSpacing * Double.random(in: 0..<1)
        let spacing = min(options.wakeSpacing, options.wakeSpread / inTurn.count)
        for (place, fetch) in inTurn.enumerated() {
            run(fetch)
            offline[exchange(&fetch.findings.offlineNumber, with: 0)] = nil
            backOff(fetch, for: offset + spacing * place)
        }
    }

    /// Cancels a transfer if its host cannot be reached and no bytes arrive for a while: its fetch then waits for the
    /// network. Bytes that still arrive show that the routes do not tell the whole truth.
    func watchUnreachable(_ fetch: Fetch, since seen: (number: UInt64, received: Int)? = nil) {
        guard let run = fetch.run, !fetch.isOver, !canReach(fetch) else { return }
        let received = run.reception.received
        if let seen {
            guard run.number == seen.number, let transfer = run.transfer else { return }
            if received == seen.received {
                run.isLost = true
                return transfer.cancel()
            }
        }
        timers.add(at: time.now() + options.lostNetworkGrace, .grace(fetch, run.number, received: received))
    }
}
