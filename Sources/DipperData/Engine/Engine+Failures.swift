import Foundation

/// After a failed attempt, calls end or wait, and the fetch is parked, turns to its next source or ends.
extension Engine {
    enum Parking {
        case untilNetworkReturns
        case backOff(Duration)
    }

    func failed(_ fetch: Fetch, _ failure: DipperError) {
        let run = exchange(&fetch.run, with: nil)
        guard !fetch.isOver else { return }
        let error = fetch.sources.provider == nil ? failure.at(run?.attempt.sentURL ?? fetch.sources.url) : failure
        let time = time.now()
        let isOffline = error.mayPass && error.status == nil && !canReach(fetch, after: run)
        if isOffline {
            fetch.sources.unreachable = run?.attempt.sentURL ?? fetch.sources.unreachable
            fetch.findings.budget.hold(at: time)
        } else if let run, gaveWay(fetch, run, error) {
            return park(fetch, .backOff(.zero), isSilent: true)
        }
        guard error.mayPass, let found = fetch.findings.found else {
            return conclude(fetch, error, isOffline: isOffline, at: time, Verdicts())
        }
        let number = wait(for: fetch)
        judge(found.value, for: fetch.calls) { engine, verdicts in
            guard let fetch = engine.awaiting.removeValue(forKey: number), !fetch.isOver else { return }
            engine.conclude(fetch, error, isOffline: isOffline, at: time, verdicts)
        }
    }

    /// Returns whether the server has given up a transfer that was held back, which does not count as a failure.
    private func gaveWay(_ fetch: Fetch, _ run: Run, _ error: DipperError) -> Bool {
        let bytes = fetch.findings.partial?.bytes.count ?? 0
        return run.wasThrottled && error.isBrokenOff && bytes > max(run.inherited, fetch.findings.longestDropped)
            && fetch.findings.ways.add(bytes: bytes)
    }

    /// The failures that a call has counted, and the answer of its own rule to the last one.
    private struct Count: Sendable {
        let context: RetryPolicy.Context
        var answer: Duration?
    }

    /// Decides what follows from a failure. A rule of the program's own is asked elsewhere; meanwhile the fetch takes
    /// no slot, and calls that end whatever it says have ended.
    /// - Parameters:
    ///   - verdicts: on the stored answer.
    ///   - counts: of the calls that have counted the failure.
    private func conclude(
        _ fetch: Fetch, _ error: DipperError, isOffline: Bool, at time: Duration, _ verdicts: Verdicts,
        _ counts: [DataTask: Count] = [:]
    ) {
        var counts = counts
        var asked: [(DataTask, @Sendable () async -> Duration?)] = []
        for waiter in fetch.waiters where counts[waiter] == nil {
            let failures = waiter.wait.failures.add(isOffline: isOffline, at: time)
            let context = RetryPolicy.Context(failures: failures.count, error: error, elapsed: failures.elapsed)
            counts[waiter] = Count(context: context)
            guard !isOffline, !error.isOfRequest, let rule = waiter.call.retryPolicy.rule else { continue }
            asked.append((waiter, { await rule(context) }))
        }
        if asked.isEmpty { return decide(fetch, error, isOffline: isOffline, at: time, verdicts, counts) }
        let number = wait(for: fetch)
        queues.park(fetch)
        fetch.findings.budget.hold(at: time)
        if fetch.sources.remaining.isEmpty {
            endOthers(of: fetch, error, at: time, verdicts, counts)
        }
        reconsider()
        Task.detached { [asked, counts] in
            let answers = await withTaskGroup(of: (DataTask, Duration?).self) { group in
                for (task, ask) in asked { group.addTask { (task, await ask()) } }
                return await group.reduce(into: counts) { $0[$1.0]?.answer = $1.1 }
            }
            self.post { engine in
                guard let fetch = engine.awaiting.removeValue(forKey: number), !fetch.isOver else { return }
                engine.run(fetch)
                engine.conclude(fetch, error, isOffline: isOffline, at: time, verdicts, answers)
            }
        }
    }

    private func endOthers(
        of fetch: Fetch, _ error: DipperError, at time: Duration, _ verdicts: Verdicts, _ counts: [DataTask: Count]
    ) {
        let attempt = FailedAttempt(error: error, isOffline: false, spent: fetch.findings.budget.spent(at: time))
        fetch.findings.failure = failure(error, of: fetch)
        for waiter in Array(fetch.waiters) where waiter.call.retryPolicy.rule == nil {
            guard let count = counts[waiter] else { continue }
            switch verdict(on: waiter, attempt, fetch.findings.found, count, verdicts) {
            case .end: leave(waiter, .failed)
            case .takeKept: leave(waiter, .keptAnswer)
            case .retry, .waitForNetwork: break
            }
        }
    }

    private func failure(_ error: DipperError, of fetch: Fetch) -> DipperError {
        var failure = error
        failure.earlier = fetch.sources.earlierFailures
        return failure
    }

    private func decide(
        _ fetch: Fetch, _ error: DipperError, isOffline: Bool, at time: Duration, _ verdicts: Verdicts,
        _ counts: [DataTask: Count]
    ) {
        // No call waits for the network if another source can be reached.
        let hasOther = fetch.sources.remaining.contains { $0.url.map { canReach($0) } ?? true }
        let attempt = FailedAttempt(
            error: error, isOffline: isOffline, mayWait: isOffline && !hasOther,
            spent: fetch.findings.budget.spent(at: time))
        let waiters = Array(fetch.waiters)
        var (ending, answered, limits) = ([DataTask](), [DataTask](), [(DataTask, Duration)]())
        var delay: Duration?
        for waiter in waiters {
            guard let count = counts[waiter] else { continue }
            switch verdict(on: waiter, attempt, fetch.findings.found, count, verdicts) {
            case .end: ending.append(waiter)
            case .takeKept: answered.append(waiter)
            case .retry(let wait): delay = min(delay ?? wait, wait)
            case .waitForNetwork(let limit): if let limit { limits.append((waiter, limit)) }
            }
        }
        let failure = failure(error, of: fetch)
        fetch.findings.failure = failure
        // The next source is asked only if no call would wait for this one any more.
        let goesOn =
            ending.count + answered.count == waiters.count && !ending.isEmpty && attempt.mayHaveAlternative
            && fetch.sources.goOn(for: waiters.map(\.call), after: failure)
        if goesOn {
            fetch.findings.dropPartial()
            for waiter in waiters { waiter.wait.failures = FailureCount() }
            // A call that has named no stand-in ends with this failure.
            ending.removeAll { !fetch.sources.isStandIn || $0.call.hasStandIns }
        }
        for (waiter, limit) in limits {
            if let old = waiter.wait.patience { timers.cancel(old) }
            waiter.wait.patience = timers.add(at: self.time.now() + limit, .patience(waiter))
        }
        events.failed(fetch, error, willRetry: isOffline || delay != nil || goesOn)
        for waiter in answered { leave(waiter, .keptAnswer) }
        for waiter in ending { leave(waiter, .failed) }
        guard let parking = attempt.parking(after: delay, goesOn: goesOn) else {
            for waiter in fetch.waiters { leave(waiter, .failed) }
            return settle(fetch, isFinishing: true)
        }
        if fetch.isWanted { park(fetch, parking) } else { settle(fetch, isFinishing: true) }
    }

    private func verdict(
        on waiter: DataTask, _ attempt: FailedAttempt, _ found: FoundEntry?, _ count: Count, _ verdicts: Verdicts
    ) -> FailureVerdict {
        if attempt.error.mayPass, let found,
            verdicts.isAnsweredAllTheSame(
                waiter.call, by: found.value, isOffline: attempt.isOffline, at: now().timeIntervalSince1970)
        {
            return .takeKept
        }
        return attempt.verdict(
            by: waiter.call.retryPolicy, timeout: waiter.call.timeout, after: count.context, answer: count.answer,
            unit: .random(in: 0..<1))
    }

    // MARK: Parking

    /// Takes the slot of a fetch until its next attempt. Its partial body stays in memory if there is room.
    private func park(_ fetch: Fetch, _ parking: Parking, isSilent: Bool = false) {
        let held = exchange(&fetch.findings.held, with: 0)
        account { fetch.findings.park(insteadOf: held, in: &$0) }
        queues.park(fetch)
        settle(fetch)
        fetch.findings.isRetry = !isSilent
        if !isSilent, let failure = fetch.failure {
            for waiter in fetch.waiters { tell(waiter) { $0.tellFailure(failure) } }
        }
        events.note(fetch, .parked)
        switch parking {
        case .backOff(let delay): backOff(fetch, for: delay)
        // The network may have returned since the failure.
        case .untilNetworkReturns where canReach(fetch): backOff(fetch, for: options.wakeSpacing)
        case .untilNetworkReturns:
            fetch.findings.offlineNumber = nextNumber()
            offline[fetch.findings.offlineNumber] = fetch
        }
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

    /// Returns whether there is a way to the host, or to the proxy on the way to it.
    func canReach(_ fetch: Fetch, after run: Run? = nil) -> Bool {
        if let run, fetch.sources.provider == nil { return canReach(run.attempt.sentURL) }
        return fetch.destination.map { canReach($0) } ?? true
    }

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

    /// Watches a transfer whose host cannot be reached. If no bytes arrive for a while, cancels it: its fetch then
    /// waits for the network, instead of standing still until its time is up. Bytes that still arrive show that the
    /// routes do not tell the whole truth.
    /// - Parameter seen: the transfer at the last look, and the bytes that had arrived; `nil` at first.
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

/// The facts that decide what follows from a failed attempt. A value that asks only the retry policy of a call.
struct FailedAttempt: Sendable {
    let error: DipperError
    let isOffline: Bool
    /// Calls do not wait for the network if another source can be reached.
    var mayWait = true
    var spent = Duration.zero

    /// Returns the verdict for a call that the cache does not answer.
    /// - Parameters:
    ///   - context: the failures that the call has counted, and the time since the first one.
    ///   - answer: the answer of the call's own rule.
    ///   - unit: a random number in 0..<1 for the jitter.
    func verdict(
        by policy: RetryPolicy, timeout: Duration?, after context: RetryPolicy.Context, answer: Duration?,
        unit: @autoclosure () -> Double
    ) -> FailureVerdict {
        guard error.mayPass || answer != nil else { return .end }
        if isOffline {
            guard mayWait, policy.waitsForNetwork else { return .end }
            guard let deadline = policy.deadline else { return .waitForNetwork(nil) }
            // mutant Offline|Retry: `eadline - context.elapsed) : .en` => `eadline) : .en`
            return context.elapsed < deadline ? .waitForNetwork(deadline - context.elapsed) : .end
        }
        guard let delay = policy.delay(after: context, answer: answer, unit: unit()) else { return .end }
        if let timeout, spent + delay >= timeout { return .end }
        return .retry(after: delay)
    }

    /// Returns the reason for parking the fetch; `nil` if the failure is final.
    /// - Parameters:
    ///   - delay: the shortest wait that a call asks for before the next attempt.
    ///   - goesOn: whether the fetch turns to its next source.
    func parking(after delay: Duration?, goesOn: Bool) -> Engine.Parking? {
        if goesOn { return .backOff(.zero) }
        guard error.mayPass || delay != nil else { return nil }
        return isOffline ? .untilNetworkReturns : .backOff(delay ?? .zero)
    }

    var mayHaveAlternative: Bool { error != .shutDown && !error.isCancelled }
}

extension DipperError {
    var isOfRequest: Bool {
        isCancelled || [.shutDown, .invalidURL, .unsupportedScheme, .emptyKey, .invalidHeader].contains(self)
    }

    var isBrokenOff: Bool { self == .connectionLost || self == .truncated || self == .timedOut }
}

enum FailureVerdict: Hashable, Sendable {
    case end
    /// The call ends with what the cache has, although it is out of date.
    case takeKept
    /// The call waits at least this long for the next attempt.
    case retry(after: Duration)
    case waitForNetwork(Duration?)
}

struct FailureCount: Sendable {
    private var count = 0
    private var first: Duration?

    /// - Parameter isOffline: whether there was no way to the host. Such a failure does not count as an attempt.
    /// - Returns: the number of failures that count, and the time since the first failure of either kind.
    mutating func add(isOffline: Bool, at now: Duration) -> (count: Int, elapsed: Duration) {
        // mutant Offline|Retry: `if !isOffline { count += 1 }` => `count += 1`
        if !isOffline { count += 1 }
        let first = first ?? now
        self.first = first
        return (count, now - first)
    }
}
