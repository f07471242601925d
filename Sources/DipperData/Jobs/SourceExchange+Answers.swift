import Foundation

/// The answers that count, and what is kept of them.
extension SourceExchange {
    /// Takes an answer with a body of its own.
    func answered(_ response: TransferResponse, _ current: JobExchange) {
        let attempt = current.attempt
        var response = response
        response.metrics.redirects = attempt.redirects
        let findings = job.snapshot.findings
        let refusal = lead.request.validation.check(response)
        // Each waiting task has a validation of its own.
        var refused: [(id: TaskID, task: DataTask, error: DipperError)] = []
        var call = refusal == nil ? lead : nil
        for (taskID, task) in engine.inspect({ $0.waiters(of: id) }) {
            if let error = task.call === lead ? refusal : task.call.request.validation.check(response) {
                refused.append((taskID, task, error))
            } else if call == nil {
                call = task.call
            }
        }
        guard let call, !standsIn(findings.found, for: call, response) else {
            var error = refusal ?? .status(response.status)
            error.retryAfter = response.headers["Retry-After"].flatMap { RetryAfter.delay(from: $0, now: engine.now()) }
            return failed(error)
        }
        for (taskID, task, error) in refused where !error.mayPass {
            task.withLink { $0.failure = error }
            engine.apply { $0.cancel(taskID, as: .failed, into: &$1) }
        }
        let value = StoredData(
            data: response.body,
            info: info(
                of: response, url: attempt.url.withoutFragment, call, current, findings.claim,
                isStandIn: sources.isStandIn))
        deliver(
            value, for: call, source: .network, metrics: response.metrics, isComplete: !sources.isStandIn,
            mayStore: attempt.chain.mayStore(ignoresServer: call.freshness.ignoresServer))
    }

    /// Returns whether what the tiers have is better than a server error that the call's validation accepts
    /// (`stale-if-error`, RFC 5861).
    private func standsIn(_ found: FetchJob.Found?, for call: Call, _ response: TransferResponse) -> Bool {
        guard response.status >= 500, let found else { return false }
        return call.isAnsweredAllTheSame(by: found.value, isOffline: false, at: engine.now().timeIntervalSince1970)
    }

    /// Takes the server's confirmation that the stored answer is still valid.
    func confirmed(_ response: TransferResponse, _ current: JobExchange) {
        let attempt = current.attempt
        guard let stored = attempt.stored else { return }
        var refreshed = response
        refreshed.status = stored.info.status
        refreshed.headers = Refreshing.headers(stored.info.headers, refreshedBy: response.headers)
        let value = StoredData(
            data: stored.data,
            info: info(
                of: refreshed, url: stored.info.url, lead, current, job.snapshot.findings.claim,
                family: stored.info.family))
        // If each use must be confirmed, one more confirmation tells the disk nothing new.
        let isNews = !value.info.saysTheSame(as: stored.info)
        deliver(
            value, for: lead, source: .revalidated, metrics: response.metrics, isNewsToDisk: isNews,
            mayStore: mayStore(attempt))
    }

    private func info(
        of response: TransferResponse, url: String, _ call: Call, _ current: JobExchange, _ claim: Claim?,
        family: UInt64 = 0, isStandIn: Bool = false
    ) -> EntryInfo {
        let chain = current.attempt.chain
        let received = engine.now().timeIntervalSince1970
        // An answer to this request alone is not kept, so there are no variants to choose from.
        let variant = Variant(vary: chain.vary(with: response.headers), request: current.sent)
        let isKeptByVariant = variant?.isUnmatchable == false && !call.freshness.ignoresServer
        return EntryInfo(
            url: url, status: response.status, headers: response.headers, stored: received,
            freshness: isStandIn
                ? Freshness(generated: received, until: received)
                : engine.store.freshness(
                    of: response, call, requested: current.requested, received: received, after: chain),
            variant: isKeptByVariant ? variant : nil, family: family, isStandIn: isStandIn,
            begun: claim?.begun ?? StoreHistory.now)
    }

    private func deliver(
        _ value: StoredData, for call: Call, source: ResponseSource, metrics: TransferMetrics,
        isNewsToDisk: Bool = true, isComplete: Bool = false, mayStore: Bool
    ) {
        let write = PendingWrite()
        let (delivery, state) = job.withState {
            ($0.deliver(value, source, metrics, write, for: call, isComplete: isComplete), $0)
        }
        let (demand, found) = (state.demand, state.findings.found)
        if delivery.dropsPartial { engine.store.disk?.dropPartial(of: job.key) }
        engine.events.answered(job, source)
        let isKeepable = demand.keepsInMemory && !value.info.isStandIn
        if isKeepable, mayStore {
            // An entry that must be durable now may not have been durable before.
            let keepsOnDisk = demand.keepsOnDisk && (isNewsToDisk || demand.durability == .durable)
            engine.store.keep(
                value, for: job.key, call, beside: found, onDisk: keepsOnDisk, demand.durability,
                // mutant Removal: `claim: state.findings.claim, by: job` => `claim: nil, by: job`
                claim: state.findings.claim, by: job.identity.id, whenWritten: write.end)
        } else {
            // The answer that was kept before is out of date by now.
            if isKeepable, value.info.status < 400 { engine.store.remove(found?.place ?? job.key) }
            write.end(isOnDisk: false)
        }
        // Tasks with other header fields may need another variant, or an answer of their own if this one may not be
        // kept for others. Tasks with a validation of their own may need another answer. The call that the answer was
        // fetched for takes it in any case.
        let isForAll = mayStore && engine.store.mayKeep(value.info, call) && !value.info.headers.varying.contains("*")
        let isFor: @Sendable (Call) -> Bool = { other in
            if other === call { return true }
            // A call that has named no stand-in waits for the real answer.
            if value.info.isStandIn, !other.hasStandIns { return false }
            let isSame = other.request.headers == call.request.headers
            return (isSame || (isForAll && value.info.isChosen(by: other.request.headers))) && other.accepts(value)
        }
        let answers = engine.judge(id) { isFor($0.call) }
        if let next = engine.calls(of: id).first(where: { !isFor($0) }) { engine.tell(job, .beginAnew(next)) }
        engine.apply { $0.finished(id, answers: answers, into: &$1) }
    }
}
