import Foundation

/// After a failed attempt, calls end or wait, and the fetch is parked, turns to its next source or ends.
extension Fetch {
    func failed(_ failure: DipperError) {
        let run = exchange(&self.run, with: nil)
        guard !isOver else { return }
        var error = failure
        error.askedSource = sources.asked
        if sources.provider == nil { error = error.at(run?.attempt.sentURL ?? failure.url ?? sources.url) }
        let time = engine.time.now()
        // Only the host that the caller has named says that there is no network, not one to which it was led on.
        let isOffline = error.mayPass && error.status == nil && !canReach
        if isOffline {
            if !mayUseNetwork { error = .networkNotAllowed.at(error.url) }
            findings.budget.hold(at: time)
        } else if let run, run.givesWay && failure.isCancelled || gaveWay(run, error) {
            park(for: .zero, isSilent: true)
            // Those that wait take the slot before the fetch may have it again.
            return engine.decide()
        }
        let attempt = FailedAttempt(
            error: error, isOffline: isOffline,
            isUnreached: error.isUnreached && run?.hasBroughtBytes != true, time: time,
            spent: findings.budget.spent(at: time))
        engine.judge(error.mayPass ? findings.found?.value : nil, for: calls) { verdicts in
            var attempt = attempt
            attempt.verdicts = verdicts
            if !self.isOver { self.conclude(attempt) }
        }
    }

    /// Returns whether the server has given up a transfer that was held back, which does not count as a failure.
    private func gaveWay(_ run: Run, _ error: DipperError) -> Bool {
        let bytes = findings.partial?.count ?? 0
        return run.wasThrottled && error.isBrokenOff && bytes > max(run.inherited, findings.longestDropped)
            && findings.ways.add(bytes: bytes)
    }

    /// While a rule of the program's own is asked, the fetch takes no slot; calls that end whatever it says have ended.
    private func conclude(_ attempt: FailedAttempt) {
        var attempt = attempt
        var asked: [(Waiter, @Sendable () async -> Duration?)] = []
        for waiter in waiters where attempt.counts[waiter] == nil {
            let context = waiter.limits.failures.add(attempt)
            attempt.counts[waiter] = FailedAttempt.Count(context: context)
            guard !attempt.isOffline, !attempt.error.isOfRequest, !attempt.error.isRemembered,
                let rule = waiter.call.retryPolicy.rule
            else { continue }
            asked.append((waiter, { await rule(context) }))
        }
        if asked.isEmpty { return decide(attempt) }
        engine.queues.park(self)
        findings.budget.hold(at: attempt.time)
        if sources.remaining.isEmpty { endOthers(attempt) }
        engine.reconsider()
        engine.runHook(of: self) { [asked, attempt] in
            let answered = await withTaskGroup(of: (Waiter, Duration?).self) { group in
                for (waiter, ask) in asked { group.addTask { (waiter, await ask()) } }
                return await group.reduce(into: attempt) { $0.counts[$1.0]?.answer = $1.1 }
            }
            self.post {
                guard !self.isOver else { return }
                self.runClock()
                self.conclude(answered)
            }
        }
    }

    private func setFailure(_ error: DipperError) {
        findings.failure = error
        findings.failure?.earlier = sources.earlierFailures
    }

    private func endOthers(_ attempt: FailedAttempt) {
        setFailure(attempt.error)
        for waiter in waiters where waiter.call.retryPolicy.rule == nil {
            switch verdict(on: waiter, attempt) {
            case .end: leave(waiter)
            case .takeKept(let value): leave(waiter, .success(DataResponse(value, source: .stale)))
            case .retry, .waitForNetwork: break
            }
        }
    }

    private func decide(_ attempt: FailedAttempt) {
        var attempt = attempt
        let (error, isOffline) = (attempt.error, attempt.isOffline)
        setFailure(error)
        // No call waits for the network if another source can be reached.
        let mayUse = mayUseNetwork
        attempt.mayWait = !sources.remaining.contains {
            $0.url.map { mayUse && reaches($0) } ?? true
        }
        // Some end below.
        let waiters = waiters
        var (ending, answered) = ([Waiter](), [(Waiter, StoredData)]())
        var delay: Duration?
        for waiter in waiters {
            switch verdict(on: waiter, attempt) {
            case .end: ending.append(waiter)
            case .takeKept(let value): answered.append((waiter, value))
            case .retry(let wait): delay = min(delay ?? wait, wait)
            case .waitForNetwork(let longest):
                guard let longest else { continue }
                if let old = waiter.limits.patience { engine.timers.cancel(old) }
                waiter.limits.patience = engine.timers.add(at: engine.time.now() + longest, .patience(waiter))
            }
        }
        // The next source is asked only if no call would wait for this one any more.
        let mayGoOn =
            ending.count + answered.count == waiters.count && !ending.isEmpty && error != .shutDown
            && !error.isCancelled
        // A later call's signature may still hold.
        let hasOtherURL = mayGoOn && !error.isRemembered && followLatestURL()
        let goesOn = hasOtherURL || mayGoOn && sources.goOn(for: waiters.map(\.call), after: error)
        if goesOn {
            if !hasOtherURL { findings.forgetPartial() }
            for waiter in waiters { waiter.limits.failures = FailureCount() }
            // A call that has named no stand-in ends with this failure.
            ending.removeAll { !sources.isStandIn || $0.call.hasStandIns }
        }
        engine.events.failed(self, error, willRetry: isOffline || delay != nil || goesOn)
        for (waiter, value) in answered { leave(waiter, .success(DataResponse(value, source: .stale))) }
        for waiter in ending { leave(waiter) }
        if !goesOn, !error.mayPass, delay == nil { for waiter in waiters { leave(waiter) } }
        guard !wants.isEmpty else {
            noteFailure(error)
            return settle(isFinishing: true)
        }
        let wait: Duration? = isOffline ? nil : delay ?? .zero
        park(for: goesOn ? .zero : wait)
    }

    private func verdict(on waiter: Waiter, _ attempt: FailedAttempt) -> FailureVerdict {
        let call = waiter.call
        let verdict =
            attempt.counts[waiter].map {
                attempt.verdict(by: call.retryPolicy, timeout: call.timeout, after: $0, unit: .random(in: 0..<1))
            } ?? .end
        // A transfer that was broken off is continued first.
        let isLast = if case .end = verdict { attempt.error.isUnreached } else { false }
        guard attempt.error.mayPass, !waiter.isRevalidation, let found = findings.found,
            attempt.verdicts.isAnsweredAllTheSame(
                call, by: found.value, isOffline: attempt.isOffline, isUnreached: attempt.isUnreached || isLast,
                at: engine.now().timeIntervalSince1970)
        else { return verdict }
        return .takeKept(found.value)
    }
}
