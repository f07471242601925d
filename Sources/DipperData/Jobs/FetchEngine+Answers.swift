import Foundation

/// The answers of the tiers and the network, and what is kept of them.
extension FetchEngine {
    /// - Parameter delivered: to be called once those who wait have been told.
    func lookedUp(
        _ id: JobID, _ job: FetchJob, _ found: FetchJob.Found?, partial: PartialBody?,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        let now = now().timeIntervalSince1970
        let waiters = inspect { $0.waiters(of: id) }.map(\.waiter.call)
        var found = found
        // The entry is out of date but may be used, so newer bytes are fetched behind the urgent work.
        let refresher = found.flatMap { found in
            waiters.first { $0.use(of: found.value, at: now) == .staleWhileRevalidating && $0.mayFetch }
        }
        let revalidation = refresher.map { self.revalidation(for: $0.withoutStandIns) }
        found?.revalidation = revalidation?.task
        let unused = job.withState { [found] state -> (Claim?, FetchJob.Found?) in
            let earlier = exchange(&state.found, with: found)
            // An attempt that is under way has its own beginning.
            let takesPartial = partial != nil && state.partial == nil && state.attempt == nil
            if takesPartial {
                state.partial = partial
                state.hasPartialOnDisk = true
            }
            let claim = exchange(&state.lookUpClaim, with: nil)
            // If the tiers have nothing, nothing older will be part of what is fetched. An attempt has a claim of its own,
            // which may be later than a removal of what has been found.
            let holds = state.claim == nil || claim?.isRevoked == true
            guard holds, found != nil || takesPartial else { return (claim, earlier) }
            return (exchange(&state.claim, with: claim), earlier)
        }
        withExtendedLifetime(unused) {}
        let answers = judge(id) { [found] task in found.map { task.call.isAnswered(by: $0.value, at: now) } ?? false }
        apply { [found] scheduler, actions in
            if found == nil { turnToSubstitutes(id, &scheduler, &actions) }
            scheduler.lookedUp(id, hit: found != nil, answers: answers, into: &actions)
            actions.append(.call(delivered))
        }
        if let found, revalidation?.isNew == true { startRevalidating(found) }
    }

    /// Answers a task from memory with bytes that are out of date, and has newer ones fetched.
    func answerWhileRevalidating(_ task: DataTask, with value: StoredData) {
        let revalidation = self.revalidation(for: task.call.withoutStandIns)
        let found = FetchJob.Found(
            value: value, source: .memory, place: store.place(of: value, for: task.call),
            revalidation: revalidation.task)
        if revalidation.isNew { startRevalidating(found) }
        let result = Result<DataResponse, DipperError>.success(
            DataResponse(value, source: .stale, revalidation: found.revalidation))
        if task.request.waitsForDiskWrite {
            finish(task, whenOnDisk: found.place, result)
        } else {
            finish(task, nil, result)
        }
    }

    /// Returns the task that fetches newer bytes: the one under way, or a new one, which the caller starts.
    func revalidation(for call: Call) -> (task: DataTask, isNew: Bool) {
        let name = Revalidation(key: call.key, headers: call.request.headers)
        return revalidations.withLock { tasks in
            if let task = tasks[name] { return (task, false) }
            let task = DataTask(call, queue: .slow, isRevalidation: true)
            tasks[name] = task
            return (task, true)
        }
    }

    /// Forgets a fetch of newer bytes, because its task is about to end. The next call that finds an answer out of date
    /// has it fetched anew.
    func forgetRevalidation(_ task: DataTask) {
        guard task.isRevalidation else { return }
        let name = Revalidation(key: task.key, headers: task.request.headers)
        let dropped = revalidations.withLock { $0[name] === task ? $0.removeValue(forKey: name) : nil }
        _ = consume dropped
    }

    private func startRevalidating(_ found: FetchJob.Found) {
        guard let task = found.revalidation else { return }
        submit(
            task, reads: false,
            found: .init(value: found.value, source: found.source, place: found.place))
    }

    /// Returns the response of a task that is answered with what the tiers have.
    func keptAnswer(for task: DataTask, _ found: FetchJob.Found) -> DataResponse {
        // The task's validation has accepted the answer at the look-up, and is not asked again.
        switch task.call.use(of: found.value.info, at: now().timeIntervalSince1970) {
        case .fresh: DataResponse(found.value, source: found.source)
        case .staleWhileRevalidating:
            DataResponse(found.value, source: .stale, revalidation: found.revalidation)
        case .stale, .revalidate: DataResponse(found.value, source: .stale)
        }
    }

    // MARK: The network

    /// Takes an answer with a body of its own.
    func answered(_ id: JobID, _ job: FetchJob, _ response: TransferResponse, redirects: Int) {
        var response = response
        response.metrics.redirects = redirects
        let (lead, requested, found, isStandIn) = job.withState { ($0.lead, $0.requested, $0.found, $0.isStandIn) }
        let refusal = lead.request.validation.check(response)
        // Each waiting task has a validation of its own.
        var refused: [(id: TaskID, task: DataTask, error: DipperError)] = []
        var call = refusal == nil ? lead : nil
        for (taskID, task) in inspect({ $0.waiters(of: id) }) {
            if let error = task.call === lead ? refusal : task.call.request.validation.check(response) {
                refused.append((taskID, task, error))
            } else if call == nil {
                call = task.call
            }
        }
        guard let call, !standsIn(found, for: call, response) else {
            var error = refusal ?? .status(response.status)
            error.retryAfter = response.headers["Retry-After"].flatMap { RetryAfter.delay(from: $0, now: now()) }
            return failed(id, job, error)
        }
        if call !== lead { job.withState { $0.lead = call } }
        for (taskID, task, error) in refused where !error.mayPass {
            task.withLink { $0.failure = error }
            apply { $0.cancel(taskID, as: .failed, into: &$1) }
        }
        if !isStandIn { dropPartial(of: job) }
        let (source, chain) = job.withState { ($0.attempt?.url ?? $0.sourceURL, $0.attempt?.chain ?? RedirectChain()) }
        let value = StoredData(
            data: response.body,
            info: info(
                of: response, url: source?.withoutFragment ?? call.request.address, call, job, requested: requested,
                after: chain, isStandIn: isStandIn))
        deliver(
            id, job, value, source: .network, metrics: response.metrics,
            mayStore: chain.mayStore(ignoresServer: call.freshness.ignoresServer))
    }

    /// Returns whether what the tiers have is better than a server error that the call's validation accepts
    /// (`stale-if-error`, RFC 5861).
    private func standsIn(_ found: FetchJob.Found?, for call: Call, _ response: TransferResponse) -> Bool {
        guard response.status >= 500, let found else { return false }
        return call.isAnsweredAllTheSame(by: found.value, isOffline: false, at: now().timeIntervalSince1970)
    }

    /// Takes the server's confirmation that the stored answer is still valid.
    func confirmed(_ id: JobID, _ job: FetchJob, _ response: TransferResponse) {
        let (attempt, call, requested) = job.withState { ($0.attempt, $0.lead, $0.requested) }
        guard let attempt, let stored = attempt.stored else { return }
        var refreshed = response
        refreshed.status = stored.info.status
        refreshed.headers = Refreshing.headers(stored.info.headers, refreshedBy: response.headers)
        let value = StoredData(
            data: stored.data,
            info: info(
                of: refreshed, url: stored.info.url, call, job, requested: requested, after: attempt.chain,
                family: stored.info.family))
        // If each use must be confirmed, one more confirmation tells the disk nothing new.
        let isNews = !value.info.saysTheSame(as: stored.info)
        deliver(
            id, job, value, source: .revalidated, metrics: response.metrics, isNewsToDisk: isNews,
            mayStore: attempt.chain.mayStore(ignoresServer: call.freshness.ignoresServer))
    }

    private func info(
        of response: TransferResponse, url: String, _ call: Call, _ job: FetchJob, requested: TimeInterval,
        after chain: RedirectChain,
        family: UInt64 = 0, isStandIn: Bool = false
    ) -> EntryInfo {
        let received = now().timeIntervalSince1970
        // An answer to this request alone is not kept, so there are no variants to choose from.
        let variant = Variant(
            vary: chain.vary(with: response.headers), request: job.withState { $0.sent })
        let isKeptByVariant = variant?.isUnmatchable == false && !call.freshness.ignoresServer
        return EntryInfo(
            url: url, status: response.status, headers: response.headers, stored: received,
            freshness: isStandIn
                ? Freshness(generated: received, until: received)
                : store.freshness(of: response, call, requested: requested, received: received, after: chain),
            variant: isKeptByVariant ? variant : nil, family: family, isStandIn: isStandIn,
            begun: job.begun)
    }

    private func deliver(
        _ id: JobID, _ job: FetchJob, _ value: StoredData, source: ResponseSource, metrics: TransferMetrics,
        isNewsToDisk: Bool = true, mayStore: Bool
    ) {
        let write = PendingWrite()
        let (call, keepsOnDisk, found, isUnwanted, replacesKept, durability, claim) = job.withState { state in
            state.fetched = DataResponse(
                data: value.data, info: value.info, source: source, attempts: state.attempts, metrics: metrics)
            state.attempt = nil
            state.write = write
            return (
                // An entry that must be durable now may not have been durable before.
                state.lead, state.keepsOnDisk && (isNewsToDisk || state.durability == .durable), state.found,
                !state.keepsInMemory || value.info.isStandIn || !mayStore,
                !mayStore && state.keepsInMemory && !value.info.isStandIn && value.info.status < 400,
                state.durability, state.claim
            )
        }
        if isUnwanted {
            // The answer that was kept before is out of date by now.
            if replacesKept { store.remove(found?.place ?? job.key) }
            write.end(isOnDisk: false)
        } else {
            store.keep(
                value, for: job.key, call, beside: found, onDisk: keepsOnDisk, durability, claim: claim,
                whenWritten: write.end)
        }
        // Tasks with other header fields may need another variant, or an answer of their own if this one may not be
        // kept for others. Tasks with a validation of their own may need another answer. The call that the answer was
        // fetched for takes it in any case.
        let isForAll = mayStore && store.mayKeep(value.info, call) && !value.info.headers.varying.contains("*")
        let isFor: @Sendable (Call) -> Bool = { other in
            if other === call { return true }
            // A call that has named no stand-in waits for the real answer.
            if value.info.isStandIn, !other.hasStandIns { return false }
            let isSame = other.request.headers == call.request.headers
            return (isSame || (isForAll && value.info.isChosen(by: other.request.headers))) && other.accepts(value)
        }
        let answers = judge(id) { isFor($0.call) }
        if let next = inspect({ $0.waiters(of: id) }).map(\.waiter.call).first(where: { !isFor($0) }) {
            let dropped = job.withState { $0.begin(anewFor: next) }
            withExtendedLifetime(dropped) {}
        }
        apply { $0.finished(id, answers: answers, into: &$1) }
    }

    /// Returns a verdict on each task of a job, made before the lock is taken, because the caller's own rules are part
    /// of it. A task with such a rule that joins at this very moment is answered in the next round.
    func judge(
        _ id: JobID, _ verdict: @escaping @Sendable (DataTask) -> Bool
    ) -> @Sendable (TaskID, DataTask) -> Bool {
        let verdicts = Dictionary(
            inspect { $0.waiters(of: id) }.map { ($0.id, verdict($0.waiter)) }, uniquingKeysWith: { $1 })
        return { id, task in verdicts[id] ?? (!task.call.hasOwnValidation && verdict(task)) }
    }
}
