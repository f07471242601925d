import Foundation

/// The consequences of a failed attempt for the waiting tasks.
extension FetchEngine {
    func failed(_ id: JobID, _ job: FetchJob, _ error: DipperError) {
        let time = time.now()
        let isOffline = error.mayPass && error.status == nil && !canReach(job)
        let (found, gaveWay, earlier) = job.withState { state in
            // The server may have given up a transfer that was held back. That does not count as a failure.
            let known = max(state.inherited, state.longestDropped)
            let isLonger = state.partial.map { $0.bytes.count > known } ?? false
            let gaveWay = state.wasThrottled && !isOffline && isLonger && error.isBrokenOff && state.mayGiveWay()
            if isOffline { state.unreachable = state.attempt?.sentURL ?? state.unreachable }
            state.attempt = nil
            if isOffline { state.budget.hold(at: time) }
            return (state.found, gaveWay, state.earlierFailures)
        }
        if gaveWay {
            park(job)
            apply { $0.failed(id, ending: [], parking: .backOff(.zero), isSilent: true, into: &$1) }
            return
        }
        var failure = error
        failure.earlier = earlier
        let waiters = inspect { $0.waiters(of: id) }
        var ending: [TaskID] = []
        var answered: [TaskID] = []
        var patience: [(TaskID, DataTask, Duration)] = []
        var delay: Duration?
        let now = now().timeIntervalSince1970
        // No task waits for the network if another source can be reached.
        let waits = isOffline && !hasAlternativeAtHand(job)
        for (taskID, task) in waiters {
            if let found, error.mayPass,
                task.call.isAnsweredAllTheSame(by: found.value, isOffline: isOffline, at: now)
            {
                answered.append(taskID)
                continue
            }
            switch verdict(on: task, job, error, isOffline: isOffline, mayWait: waits, time: time) {
            case .end: ending.append(taskID)
            case .retry(let wait): delay = min(delay ?? wait, wait)
            case .waitForNetwork(let limit): if let limit { patience.append((taskID, task, limit)) }
            }
        }
        // The next source is asked only if no task would wait for this one any more.
        let isLast = ending.count + answered.count == waiters.count
        let goesOn = isLast && !ending.isEmpty && error.mayHaveAlternative && nextSource(job, waiters, failure)
        if goesOn {
            // A task that has named no stand-in ends with this failure.
            let isStandIn = job.withState { $0.isStandIn }
            let others = waiters.filter { isStandIn && !$0.waiter.call.hasStandIns }.map(\.id)
            ending = ending.filter { others.contains($0) }
        }
        job.withState { [failure] in $0.failure = failure }
        for (taskID, task, limit) in patience { armPatience(limit, of: taskID, task, id) }
        let willRetry = isOffline || delay != nil || goesOn
        reporter.failedAttempt(job.key, error, willRetry: willRetry)
        let parking: Scheduler.Parking? =
            goesOn
            ? .backOff(.zero) : !error.mayPass ? nil : isOffline ? .untilNetworkReturns : .backOff(delay ?? .zero)
        if parking != nil { park(job) }
        apply { [ending, answered] in
            $0.failed(id, ending: ending, answered: answered, parking: parking, into: &$1)
        }
        // The network may have returned between the check and the parking.
        if isOffline, !goesOn, canReach(job) { networkChanged() }
    }

    /// Turns a job to its next source. The waiting tasks count their failures anew.
    /// - Returns: false if there is no source left.
    private func nextSource(
        _ job: FetchJob, _ waiters: [(id: TaskID, waiter: DataTask)], _ error: DipperError
    ) -> Bool {
        let isThere = job.withState { state in
            if state.alternatives.isEmpty {
                // Other calls that have joined the job may have alternatives of their own.
                state.exhausted.append(state.lead)
                let other = waiters.map(\.waiter.call).first { call in
                    call.hasStandIns && !state.exhausted.contains { $0 === call }
                }
                guard let other else { return false }
                state.lead = other
                state.source = 0
            }
            state.source += 1
            var plain = error
            plain.earlier = []
            state.earlierFailures.append(plain)
            state.partial = nil
            state.unreachable = nil
            return true
        }
        guard isThere else { return false }
        for (_, task) in waiters {
            task.withLink { link in
                link.failures = 0
                link.firstFailure = nil
            }
        }
        return true
    }

    /// Returns whether one of the sources that are left can be reached.
    private func hasAlternativeAtHand(_ job: FetchJob) -> Bool {
        job.withState { $0.alternatives }.contains { source in
            source.url.map { network.canReach(transport.firstHop(to: $0)) } ?? true
        }
    }

    private enum Verdict {
        case end
        case retry(after: Duration)
        /// Wait for at most this long; `nil` for ever.
        case waitForNetwork(Duration?)
    }

    private func verdict(
        on task: DataTask, _ job: FetchJob, _ error: DipperError, isOffline: Bool, mayWait: Bool, time: Duration
    ) -> Verdict {
        guard error.mayPass else { return .end }
        let policy = task.call.retryPolicy
        let (failures, elapsed) = task.withLink { link in
            if !isOffline { link.failures += 1 }
            let first = link.firstFailure ?? time
            link.firstFailure = first
            return (link.failures, time - first)
        }
        if isOffline {
            guard mayWait, policy.waitsForNetwork else { return .end }
            guard let deadline = policy.deadline else { return .waitForNetwork(nil) }
            return elapsed < deadline ? .waitForNetwork(deadline - elapsed) : .end
        }
        let context = RetryPolicy.Context(failures: failures, error: error, elapsed: elapsed)
        guard let delay = policy.delay(after: context, unit: options.random()) else { return .end }
        if let timeout = task.call.timeout, job.withState({ $0.budget.spent(at: time) }) + delay >= timeout {
            return .end
        }
        return .retry(after: delay)
    }

    /// Ends a task after it has waited long enough for the network, if its job is still parked.
    private func armPatience(_ patience: Duration, of id: TaskID, _ task: DataTask, _ job: JobID) {
        schedule(.patience, of: task, after: patience) { [weak self] in
            self?.apply { scheduler, actions in
                if scheduler.isParked(job) { scheduler.cancel(id, as: .failed, into: &actions) }
            }
        }
    }
}

extension DipperError {
    /// Whether the failure may have broken off an answer that had begun.
    fileprivate var isBrokenOff: Bool { self == .connectionLost || self == .truncated || self == .timedOut }

    /// Whether another source may do better.
    fileprivate var mayHaveAlternative: Bool { self != .shutDown && !isCancelled }
}
