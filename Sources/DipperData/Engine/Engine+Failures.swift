import Foundation

/// After a failed attempt, calls end or wait, and the fetch is parked, turns to its next source or ends.
extension Engine {
    func failed(_ fetch: Fetch, _ failure: DipperError) {
        let run = exchange(&fetch.run, with: nil)
        guard !fetch.isOver else { return }
        var error = failure
        error.askedSource = fetch.sources.asked
        if fetch.sources.provider == nil { error = error.at(run?.attempt.sentURL ?? failure.url ?? fetch.sources.url) }
        let time = time.now()
        // Only the host that the caller has named says that there is no network, not one to which it was led on.
        let isOffline = error.mayPass && error.status == nil && !canReach(fetch)
        if isOffline {
            if !mayUseNetwork(fetch) { error = .networkNotAllowed.at(error.url) }
            fetch.findings.budget.hold(at: time)
        } else if let run, run.givesWay && failure.isCancelled || gaveWay(fetch, run, error) {
            park(fetch, for: .zero, isSilent: true)
            // Those that wait take the slot before the fetch may have it again.
            return decide()
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
            guard !attempt.isOffline, !attempt.error.isOfRequest, !attempt.error.isRemembered,
                let rule = waiter.call.retryPolicy.rule
            else { continue }
            asked.append((waiter, { await rule(context) }))
        }
        if asked.isEmpty { return decide(fetch, attempt) }
        queues.park(fetch)
        fetch.findings.budget.hold(at: attempt.time)
        if fetch.sources.remaining.isEmpty { endOthers(of: fetch, attempt) }
        reconsider()
        runHook(of: fetch) { [asked, attempt] in
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
        let mayUse = mayUseNetwork(fetch)
        attempt.mayWait = !fetch.sources.remaining.contains {
            $0.url.map { mayUse && canReach($0, transport(of: fetch.sources.lead)) } ?? true
        }
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
        let mayGoOn =
            ending.count + answered.count == waiters.count && !ending.isEmpty && error != .shutDown
            && !error.isCancelled
        // A later call's signature may still hold.
        let hasOtherURL = mayGoOn && !error.isRemembered && fetch.followLatestURL()
        let goesOn = hasOtherURL || mayGoOn && fetch.sources.goOn(for: waiters.map(\.call), after: error)
        if goesOn {
            if !hasOtherURL { fetch.findings.partial = nil }
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
        let hop = fetch.destination.map(transport(of: fetch.sources.lead).firstHop) ?? ""
        let place = (host: hop, number: nextNumber())
        fetch.findings.offline = place
        offline[place.host, default: [:]][place.number] = fetch
    }

    var waitingFetches: Int {
        let all = [Array(fetches.values)] + others.values.map { Array($0.values) }
        return all.joined().count { $0.knownFindings?.backOff != nil || $0.knownFindings?.offline != nil }
    }

    func forgetOffline(_ findings: Findings) {
        guard let place = exchange(&findings.offline, with: nil) else { return }
        offline[place.host]?[place.number] = nil
        if offline[place.host]?.isEmpty == true { offline[place.host] = nil }
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
        for case let fetch as Fetch in queues.onNetwork {
            fetch.sources.lead.request.transport?.networkChanged()
        }
        permissionsChanged()
    }

    /// The queue of the fetch, or the calls that share it, may decide otherwise about the network.
    func permissionChanged(of fetch: Fetch) {
        guard canReach(fetch) else { return watchUnreachable(fetch) }
        if fetch.knownFindings?.offline != nil { wake(fetch, after: .zero) }
    }

    func permissionsChanged() {
        wakeReachable()
        for case let fetch as Fetch in queues.onNetwork where !canReach(fetch) { watchUnreachable(fetch) }
    }

    /// Whether the queue of a fetch, and one of its calls, may use the network in its present conditions.
    func mayUseNetwork(_ fetch: Fetch) -> Bool {
        if network.conditions == NetworkConditions() || fetch.sources.provider != nil { return true }
        return queues.configuration(of: fetch.queue).allowsConstrainedNetwork
            && fetch.calls.contains { $0.request.allowsConstrainedNetwork }
    }

    func canReach(_ fetch: Fetch) -> Bool {
        mayUseNetwork(fetch) && fetch.destination.map { canReach($0, transport(of: fetch.sources.lead)) } ?? true
    }

    func canReach(_ url: URL, _ transport: any Transport) -> Bool { network.canReach(transport.firstHop(to: url)) }

    nonisolated func transport(of call: Call) -> any Transport {
        (call.request.hasHooks ? call.request.transport : nil) ?? transport
    }

    private func wakeReachable() {
        // One question for each host, however many calls wait.
        let reached = offline.keys.filter(network.canReach)
        let waiting = reached.flatMap { offline[$0] ?? [:] }.sorted { $0.key < $1.key }.map(\.value).filter(
            mayUseNetwork)
        let inTurn = waiting.filter { $0.queue == .fast } + waiting.filter { $0.queue == .slow }
        guard !inTurn.isEmpty else { return }
        // Several caches and processes hear of the network at the same time, and should not start at the same time.
        let offset = options.wakeSpacing * Double.random(in: 0..<1)
        let spacing = min(options.wakeSpacing, options.wakeSpread / inTurn.count)
        for (place, fetch) in inTurn.enumerated() { wake(fetch, after: offset + spacing * place) }
    }

    private func wake(_ fetch: Fetch, after delay: Duration) {
        run(fetch)
        forgetOffline(fetch.findings)
        backOff(fetch, for: delay)
    }

    /// Cancels a transfer if its host cannot be reached and no bytes arrive for a while: its fetch then waits for the
    /// network. Bytes that still arrive show that the routes do not tell the whole truth.
    func watchUnreachable(_ fetch: Fetch, since seen: (number: UInt64, received: Int)? = nil) {
        guard let run = fetch.run, !fetch.isOver else { return }
        if !mayUseNetwork(fetch), let transfer = run.transfer {
            run.isLost = true
            return transfer.cancel()
        }
        // One look at a time, however often the network changes.
        if seen.map({ $0.number != run.number }) ?? (run.watched == run.number) { return }
        run.watched = 0
        guard !canReach(fetch) else { return }
        let received = run.reception.received
        if let seen, received == seen.received, let transfer = run.transfer {
            run.isLost = true
            return transfer.cancel()
        }
        run.watched = run.number
        timers.add(at: time.now() + options.lostNetworkGrace, .grace(fetch, run.number, received: received))
    }
}

/// No host decides for how long others wait: while no fetch of a queue starts although some wait, the transfer that brings
/// least gives its slot back, keeps its bytes, and goes on after those that wait.
extension Engine {
    private static let lookInterval = Duration.seconds(5)
    /// In bytes a second: the rate that a transfer needs to keep its slot grows with each second of others' wait.
    private static let rateGrowth = 128.0
    private static let mostNeeded = 16_384.0

    func watchSlots(of queue: FetchQueue, _ starts: Int, since blocked: Duration) {
        timers.add(at: time.now() + Self.lookInterval, .slots(queue, starts, since: blocked))
    }

    func relieve(_ queue: FetchQueue, _ starts: Int, since blocked: Duration) {
        let (now, latest) = (time.now(), queues.starts(of: queue))
        let inTheWay = queues.inTheWay(of: queue)
        if inTheWay.isEmpty { return }
        let needed = min((now - blocked).timeInterval * Self.rateGrowth, Self.mostNeeded)
        var slowest: (run: Run, fetch: Fetch, rate: Double)?
        for case let fetch as Fetch in inTheWay {
            guard let run = fetch.run, run.transfer != nil, run.attempt.isRepeatable, fetch.sources.provider == nil
            else {
                continue
            }
            let received = run.reception.received
            let looks = run.looks ?? (now, now, received)
            run.looks = (looks.first, now, received)
            // Each time it holds its slot for longer, so that a body that cannot be continued comes through in the end.
            let held = Self.lookInterval * (1 << min(fetch.findings.yields, 8))
            guard now > looks.last, now - looks.first >= held, received >= looks.received else { continue }
            let rate = Double(received - looks.received) / (now - looks.last).timeInterval
            if rate < slowest?.rate ?? needed { slowest = (run, fetch, rate) }
        }
        if let slowest, latest == starts {
            slowest.fetch.findings.yields += 1
            slowest.run.givesWay = true
            slowest.run.transfer?.cancel()
        }
        watchSlots(of: queue, latest, since: latest == starts ? blocked : now)
    }
}
