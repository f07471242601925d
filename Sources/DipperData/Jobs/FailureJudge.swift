import Foundation

/// The part of the engine that judges the failure of an attempt, and carries the verdict out: calls end or wait, and
/// the job is parked, turns to its next source or ends.
struct FailureJudge: Sendable {
    let engine: FetchEngine
    let id: JobID
    let job: FetchJob

    func failed(_ error: DipperError) {
        let time = engine.time.now()
        let isOffline = error.mayPass && error.status == nil && !engine.canReach(job)
        let (failed, state) = job.withState { ($0.failed(error, isOffline: isOffline, at: time), $0) }
        if failed.gaveWay {
            engine.park(job)
            engine.apply { $0.failed(id, ending: [], parking: .backOff(.zero), isSilent: true, into: &$1) }
            return
        }
        // No task waits for the network if another source can be reached.
        let hasOther = state.sources.remaining.contains { $0.url.map { engine.canReach($0) } ?? true }
        let attempt = FailedAttempt(
            error: error, isOffline: isOffline, mayWait: isOffline && !hasOther, spent: state.budget.spent(at: time))
        let waiters = engine.inspect { $0.waiters(of: id) }
        var verdicts = FailureVerdicts()
        for (taskID, task) in waiters {
            verdicts.add(verdict(on: task, attempt, state.findings.found, time), on: taskID)
        }
        var failure = error
        failure.earlier = state.sources.earlierFailures
        // The next source is asked only if no task would wait for this one any more.
        let asksNext = verdicts.asksForNextSource && attempt.mayHaveAlternative
        let calls = asksNext ? waiters.map(\.waiter.call) : nil
        let (goesOn, isStandIn, dropped) = job.withState { [failure] in $0.note(failure, goingOnFor: calls) }
        withExtendedLifetime(dropped) {}
        if goesOn {
            // The waiting tasks count their failures anew.
            for (_, task) in waiters { task.withLink { $0.failures = FailureCount() } }
            // A task that has named no stand-in ends with this failure.
            verdicts.goOn(without: Set(waiters.filter { isStandIn && !$0.waiter.call.hasStandIns }.map(\.id)))
        }
        for (taskID, task) in waiters {
            if let limit = verdicts.limits[taskID] { armPatience(limit, of: taskID, task) }
        }
        let willRetry = isOffline || verdicts.delay != nil || goesOn
        // An attempt that no call waits for any more is stopped, and has not failed.
        if !state.isAborted { engine.events.failed(job, error, willRetry: willRetry) }
        let parking = attempt.parking(after: verdicts.delay, goesOn: goesOn)
        if parking != nil { engine.park(job) }
        engine.apply { [verdicts] in
            $0.failed(id, ending: verdicts.ending, answered: verdicts.answered, parking: parking, into: &$1)
        }
        // The network may have returned between the check and the parking.
        if isOffline, !goesOn, engine.canReach(job) { engine.networkChanged() }
    }

    private func verdict(
        on task: DataTask, _ attempt: FailedAttempt, _ found: FetchJob.Found?, _ time: Duration
    ) -> FailureVerdict {
        let now = engine.now().timeIntervalSince1970
        if attempt.error.mayPass, let found,
            task.call.isAnsweredAllTheSame(by: found.value, isOffline: attempt.isOffline, at: now)
        {
            return .takeKept
        }
        let failures = task.withLink { $0.failures.add(isOffline: attempt.isOffline, at: time) }
        return attempt.verdict(
            by: task.call.retryPolicy, timeout: task.call.timeout, after: failures, unit: engine.options.random())
    }

    /// Ends a task after it has waited long enough for the network, if its job is still parked.
    private func armPatience(_ patience: Duration, of task: TaskID, _ waiter: DataTask) {
        engine.schedule(.patience, of: waiter, after: patience) { [weak engine, id] in
            engine?.apply { scheduler, actions in
                if scheduler.isParked(id) { scheduler.cancel(task, as: .failed, into: &actions) }
            }
        }
    }
}
