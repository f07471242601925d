import Foundation

/// The answers of the tiers.
extension FetchEngine {
    /// - Parameters:
    ///   - claim: the right to keep what was found, claimed before the look-up began.
    ///   - delivered: to be called once those who wait have been told.
    func lookedUp(
        _ id: JobID, _ job: FetchJob, _ hit: FetchJob.Found?, partial: PartialBody?, _ claim: Claim,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        events.lookedUp(job, hit?.source)
        let now = now().timeIntervalSince1970
        let renewal = hit.flatMap { revalidations.renewal(of: $0, for: calls(of: id), at: now) }
        let found = renewal?.found ?? hit
        tell(job, .lookedUp(found, partial, claim))
        let answers = judge(id) { task in found.map { task.call.isAnswered(by: $0.value, at: now) } ?? false }
        apply { scheduler, actions in
            if found == nil { turnToSubstitutes(id, &scheduler, &actions) }
            scheduler.lookedUp(id, hit: found != nil, answers: answers, into: &actions)
            actions.append(.call(delivered))
        }
        if let renewal { revalidations.start(renewal) }
    }

    /// Begins a job's turn, unless memory has an answer for all waiting tasks by now.
    func beginTurn(_ id: JobID, _ job: FetchJob, queue: FetchQueue, isThrottled: Bool) {
        let state = unpark(job, in: queue, isThrottled: isThrottled)
        let lead = state.sources.lead
        if !state.demand.insistsOnNetwork, let value = store.kept(for: job.key, lead) {
            // The entry may have come into memory by another way since the call was made. It must do for all waiting
            // tasks.
            let moment = now().timeIntervalSince1970
            let answers = judgeAll(id) {
                $0.call.cachePolicy != .ignoreCache && $0.call.use(of: value, at: moment) == .fresh
            }
            let found = FetchJob.Found(value: value, source: .memory, place: store.place(of: value, for: lead))
            tell(job, .found(found, isAnswer: answers != nil))
            if let answers {
                events.answered(job, .memory)
                return apply { $0.finished(id, answers: answers, into: &$1) }
            }
        }
        // Without a way to the host no attempt is made, and none is counted.
        guard canReach(job) else { return FailureJudge(engine: self, id: id, job: job).failed(.unreachable) }
        let begin: @Sendable () -> Void = { [self] in SourceExchange.begin(self, id, job) }
        if !readPartial(of: job, then: begin) { begin() }
    }

    // MARK: Waiting tasks

    /// Returns the calls that wait for a job, oldest first.
    func calls(of id: JobID) -> [Call] { inspect { $0.waiters(of: id) }.map(\.waiter.call) }

    /// Returns a verdict on each task of a job, made before the lock is taken, because the caller's own rules are part
    /// of it. A task with such a rule that joins at this very moment is answered in the next round.
    func judge(
        _ id: JobID, _ verdict: @escaping @Sendable (DataTask) -> Bool
    ) -> @Sendable (TaskID, DataTask) -> Bool {
        let verdicts = Dictionary(
            inspect { $0.waiters(of: id) }.map { ($0.id, verdict($0.waiter)) }, uniquingKeysWith: { $1 })
        return { id, task in verdicts[id] ?? (!task.call.hasOwnValidation && verdict(task)) }
    }

    /// Returns the verdict on each task of a job; `nil` unless all of them pass.
    func judgeAll(
        _ id: JobID, _ verdict: @escaping @Sendable (DataTask) -> Bool
    ) -> (@Sendable (TaskID, DataTask) -> Bool)? {
        let answers = judge(id, verdict)
        return inspect { $0.waiters(of: id) }.allSatisfy { answers($0.id, $0.waiter) } ? answers : nil
    }
}
