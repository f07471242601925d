import Foundation
import Synchronization

/// An answer is judged, kept, and handed out to the calls that it answers.
extension Fetch {
    func answered(_ run: Run, _ response: TransferResponse) {
        var response = response
        response.metrics.redirects = run.attempt.redirects
        judge(run, response, Verdicts())
    }

    /// The call whose validation decides first: the one that the answer was fetched for, or if that has left, one that
    /// would have been sent alike.
    private var leadingCall: Call {
        let lead = sources.lead
        var alike: Call?
        for call in calls {
            if call === lead { return lead }
            if alike == nil, call.request.headers == lead.request.headers { alike = call }
        }
        return alike ?? lead
    }

    /// Asks the calls that are not among the verdicts. Calls that join meanwhile hold up none that has been asked.
    private func judge(_ run: Run, _ response: TransferResponse, _ known: Verdicts) {
        let lead = leadingCall
        let judging: [Call] = demand.judgesAnswers || lead.hasOwnValidation ? [lead] + calls : []
        engine.judge(response, for: known.unasked(judging)) { verdicts in
            self.answered(run, response, known.adding(verdicts))
        }
    }

    private func answered(_ run: Run, _ response: TransferResponse, _ verdicts: Verdicts) {
        let lead = leadingCall
        let refusal = verdicts.refusal(of: response, by: lead)
        let call =
            refusal == nil && verdicts.has(lead)
            ? lead
            : calls.first { verdicts.has($0) && verdicts.refusal(of: response, by: $0) == nil }
        guard let call else {
            if verdicts.unasked(calls).isEmpty { return refused(run, response, refusal) }
            endRefused(response, verdicts)
            return judge(run, response, verdicts)
        }
        // A stored answer may be better than a server error that a validation accepts (`stale-if-error`, RFC 5861).
        guard response.status >= 500, let found = findings.found else {
            return accepted(run, response, call, verdicts)
        }
        engine.judge(found.value, for: [call]) { onFound in
            let moment = self.engine.now().timeIntervalSince1970
            if onFound.isAnsweredAllTheSame(call, by: found.value, at: moment) {
                self.refused(run, response, refusal)
            } else {
                self.accepted(run, response, call, verdicts)
            }
        }
    }

    private func refused(_ run: Run, _ response: TransferResponse, _ refusal: DipperError?) {
        // What follows a bad beginning would be refused as well.
        if (200...299).contains(response.status) { dropPartial() }
        var error = refusal ?? .status(response.status)
        error.retryAfter = response.headers["Retry-After"].flatMap { RetryAfter.delay(from: $0, now: engine.now()) }
        if error == .status(response.status) { remember(run, response) }
        failed(error)
    }

    /// Keeps a failure for calls to come. A partial body stays in its place: the server may send the rest after all. The
    /// failure of a URL whose signature the key leaves out says nothing about another signature.
    private func remember(_ run: Run, _ response: TransferResponse) {
        let (lead, chain, store, fields) = (sources.lead, run.attempt.chain, engine.store, sent(run, for: sources.lead))
        let (ignoresServer, isShared) = (lead.freshness.ignoresServer, lead.freshness.isShared)
        let received = engine.now().timeIntervalSince1970
        guard sources.isFirst, sources.provider == nil, !findings.isPartialKept, !lead.request.isKeyedByPart,
            store.disk == nil ? demand.keepsInMemory : demand.renewsOnDisk,
            chain.mayStore(ignoresServer: ignoresServer, request: fields, isShared: isShared),
            let claim,
            case let control = CacheControl(response: response.headers, isShared: isShared),
            let until = store.end(
                ofFailure: response, lead, sent: fields, requested: run.requested, received: received, after: chain,
                control)
        else { return }
        let info = EntryInfo(
            url: run.attempt.address, asked: lead.request.address(of: lead.key), status: response.status,
            stored: received, freshness: Freshness(generated: received, until: until),
            variant: Variant(vary: chain.vary(with: response.headers), request: run.sent),
            audience: run.isForAll(response, fields, control.forShared(response.headers)) ? .cache : .client,
            begun: claim.begun)
        let write = PendingWrite()
        lease?.write = write
        store.keepFailure(info, for: key, claim: claim, whenWritten: write.end)
    }

    private func accepted(
        _ run: Run, _ response: TransferResponse, _ call: Call, _ verdicts: Verdicts
    ) {
        let value = StoredData(
            data: response.body,
            info: info(
                of: response, run, call, url: run.attempt.address,
                isStandIn: sources.isStandIn))
        deliver(
            value, run, for: call, source: sources.provider == nil ? .network : .provider,
            response, verdicts)
    }

    private func endRefused(_ response: TransferResponse, _ verdicts: Verdicts) {
        for waiter in waiters {
            guard let error = verdicts.refusal(of: response, by: waiter.call), !error.mayPass else { continue }
            leave(waiter, .failure(error))
        }
    }

    func confirmed(_ run: Run, _ response: TransferResponse) {
        guard let stored = run.attempt.stored else { return }
        let lead = sources.lead
        var refreshed = response
        refreshed.status = stored.info.status
        refreshed.headers = Refreshing.headers(stored.info.headers, refreshedBy: response.headers)
        let value = StoredData(
            data: stored.data,
            info: info(
                of: refreshed, run, lead, url: stored.info.url, family: stored.info.family,
                audience: stored.info.audience))
        engine.judge(value, for: calls) { verdicts in
            self.deliver(value, run, for: lead, source: .revalidated, response, verdicts)
        }
    }

    private func info(
        of response: TransferResponse, _ run: Run, _ call: Call, url: String, family: UInt64 = 0,
        isStandIn: Bool = false, audience limit: Audience = .everybody
    ) -> EntryInfo {
        let chain = run.attempt.chain
        let received = engine.now().timeIntervalSince1970
        let control = CacheControl(response: response.headers, isShared: call.freshness.isShared)
        // An answer to this request alone is not kept, so there are no variants to choose from.
        let variant = Variant(vary: chain.vary(with: response.headers), request: run.sent)
        let isKeptByVariant = variant?.isUnmatchable == false && !call.freshness.ignoresServer
        return EntryInfo(
            url: url, asked: call.request.address(of: call.key), status: response.status, headers: response.headers,
            stored: received,
            freshness: isStandIn
                ? Freshness(generated: received, until: received)
                : engine.store.freshness(
                    of: response, call, requested: run.requested, received: received, after: chain, control),
            variant: isKeptByVariant ? variant : nil, family: family, isStandIn: isStandIn,
            audience: min(limit, audience(of: response, run, call, control)),
            begun: claim?.begun ?? RemovalHistory.now, requested: run.requested, control: control)
    }

    /// The fields of a call, with a mark of the credentials that its own did not name.
    private func sent(_ run: Run, for call: Call) -> HTTPHeaders {
        var fields = call.request.headers
        if run.hadCredentials { fields["Authorization"] = "" }
        return fields
    }

    /// Returns the calls that an answer may serve, by the policy of its call, and for other caches as a shared cache would.
    func audience(
        of response: TransferResponse, _ run: Run, _ call: Call, _ control: CacheControl
    ) -> Audience {
        // What a provider brings is no answer of a server, and perhaps the program's own.
        if sources.provider != nil { return .cache }
        let (policy, chain, fields) = (call.freshness, run.attempt.chain, sent(run, for: call))
        let (status, headers) = (response.status, response.headers)
        let forShared = control.forShared(headers)
        let isForAll = run.isForAll(response, fields, forShared)
        if policy.isShared, !isForAll { return .asker }
        let mayStore =
            policy.ignoresServer
            ? (200...299).contains(status) && status != 206
            : Storing.mayStore(status: status, request: fields, response: headers, isShared: policy.isShared, control)
        guard mayStore, chain.mayStore(ignoresServer: policy.ignoresServer) else { return .waiting }
        if !isForAll { return .client }
        // Without the server's rules an entry has no variants, by which others would choose. What others keep does not
        // name the redirects, whose limits for them it must not exceed.
        guard engine.store.tiers != nil, call.mayBeShared, !policy.ignoresServer || headers.varying.isEmpty,
            policy.isShared || !chain.limitsShared,
            Storing.mayStore(status: status, request: fields, response: headers, isShared: true, forShared)
        else { return .cache }
        return .everybody
    }

    private func deliver(
        _ value: StoredData, _ run: Run, for call: Call, source: ResponseSource,
        _ answer: TransferResponse, _ verdicts: Verdicts
    ) {
        // A newer answer came while the program judged or transformed this one, for which nobody waits any more.
        // mutant RequestHook: `isLatest == false { return }` => `isLatest == false {}`
        if isOver, claim?.isLatest == false { return }
        let isAsked = call === sources.lead || call.request.headers == sources.lead.request.headers
        sources.follow(call)
        self.run = nil
        engine.events.endAttempt(self, .answered(source))
        let write = PendingWrite()
        let sharing = lease.flatMap { Lease.sharing(for: [$0]) }
        let mayKeep = keep(value, run, for: call, isConfirmed: source == .revalidated, write, sharing)
        lease?.outcome = mayKeep ? .kept : .unshared
        // Then its file has become that of the entry.
        if source.isAnswer, !value.info.isStandIn {
            dropPartial()
            // A success ends the memory of a failure, also if the disk does not keep it.
            if !demand.keepsOnDisk, value.info.status < 400 { engine.store.dropPartial(of: key) }
        }
        let response = DataResponse(
            value, source: source, attempts: attempts, metrics: answer.metrics, asked: sources.asked)
        if value.info.audience == .asker {
            for waiter in waiters {
                if isAsked, waiter.call === call { leave(waiter, .success(response), write) } else { ask(for: waiter) }
            }
            return settle(isFinishing: true)
        }
        // A call with other header fields may need another variant, or an answer that is not shared; a call with a
        // validation of its own may need another answer. The call that the answer was fetched for takes it in any case.
        let isForAll = mayKeep && !value.info.headers.varying.contains("*")
        handOut(source == .network ? answer : nil, verdicts) { waiter, verdicts in
            let isItsOwn = waiter.call === call
            let isForIt = isItsOwn || self.isFor(waiter.call, value, call, isForAll: isForAll, verdicts)
            if isForIt { self.leave(waiter, .success(isItsOwn ? response : response.forOthers(call)), write) }
            return isForIt
        }
    }

    /// - Parameter answer: asks the calls that have joined meanwhile, before they get it; `nil` to begin anew for them.
    private func handOut(
        _ answer: TransferResponse?, _ verdicts: Verdicts,
        to give: @escaping @Loop (Waiter, Verdicts) -> Bool
    ) {
        if isOver { return }
        if let answer { endRefused(answer, verdicts) }
        let unasked = answer == nil || !demand.judgesAnswers ? [] : verdicts.unasked(calls)
        var next: Call?
        for waiter in waiters where answer == nil || verdicts.has(waiter.call) {
            if !give(waiter, verdicts), next == nil { next = waiter.call }
        }
        if let answer, !unasked.isEmpty {
            return engine.judge(answer, for: unasked) { more in
                self.handOut(answer, verdicts.adding(more), to: give)
            }
        }
        if let next { beginAnew(for: next) } else { settle(isFinishing: true) }
    }

    private func keep(
        _ value: StoredData, _ run: Run, for call: Call, isConfirmed: Bool, _ write: PendingWrite, _ sharing: Sharing?
    ) -> Bool {
        let (demand, found) = (demand, findings.found)
        // The answer to credentials says nothing about the entry that others get.
        if value.info.audience == .asker, run.hadCredentials {
            write.end(isOnDisk: false)
            return false
        }
        let mayKeep = engine.store.mayKeep(value.info, call)
        guard demand.keepsInMemory, !value.info.isStandIn else {
            lease?.write = write
            write.end(isOnDisk: false)
            return mayKeep
        }
        // One more confirmation tells the disk nothing new, unless the entry must be durable now.
        let isNews = !isConfirmed || run.attempt.stored.map { !value.info.saysTheSame(as: $0.info) } ?? true
        let keepsOnDisk =
            (isConfirmed ? demand.renewsOnDisk : demand.keepsOnDisk) && (isNews || demand.durability == .durable)
        // Others find what has been confirmed on disk already.
        lease?.write = isNews ? write : nil
        if !isConfirmed, !demand.keepsOnDisk, demand.renewsOnDisk, claim?.isOutdated != true {
            engine.store.disk?.remove(found?.place ?? key)
        }
        engine.store.keep(
            value, for: key, demand.usesMemory ? call.usingMemory : call, mayKeep: mayKeep, beside: found,
            onDisk: keepsOnDisk, demand.durability,
            // mutant Removal: `claim: claim, by: id` => `claim: nil, by: id`
            claim: claim, by: identity.id, sharing, whenWritten: write.end)
        return mayKeep
    }

    private func isFor(
        _ other: Call, _ value: StoredData, _ call: Call, isForAll: Bool, _ verdicts: Verdicts
    ) -> Bool {
        if other.freshness.isShared, !call.freshness.isShared { return false }
        // A call that has named no stand-in waits for the real answer.
        if value.info.isStandIn, !other.hasStandIns { return false }
        let isSame = other.request.headers == call.request.headers
        return (isSame || (isForAll && value.info.isChosen(by: other.request.headers)))
            && verdicts.accepts(value, for: other)
    }

    /// Has a call ask for itself, beside others for its key: the answer to another one is not for it.
    private func ask(for waiter: Waiter) {
        guard waiter.fetch === self else { return }
        remove(waiter)
        engine.enroll(waiter, spent: findings.budget)
    }

    private func beginAnew(for call: Call) {
        findings.forget()
        sources.begin(anewFor: call)
        findings.failure = nil
        forgetLookUp()
        engine.queues.remove(self)
        settle()
        enter()
    }
}

extension Run {
    /// Whether a shared cache could keep the answer, and those that led to it.
    /// - Parameters:
    ///   - fields: those of the request, with the credentials that were sent.
    ///   - control: the directives of the response, for a shared cache.
    fileprivate func isForAll(_ response: TransferResponse, _ fields: HTTPHeaders, _ control: CacheControl) -> Bool {
        attempt.chain.mayStore(ignoresServer: false, request: fields, isShared: true)
            && Storing.allows(
                status: response.status, request: fields, response: response.headers, isShared: true, control)
    }
}

extension DataResponse {
    /// The response for calls that wait with the one that has asked: without the fields that a shared cache keeps not.
    fileprivate func forOthers(_ call: Call) -> DataResponse {
        guard call.freshness.isShared else { return self }
        return DataResponse(
            StoredData(data: data, info: info.with(info.fields(isShared: true))), source: source,
            attempts: attempts, metrics: metrics, revalidation: revalidation, asked: askedSource)
    }
}

final class PendingWrite: Sendable {
    private struct State {
        var isOnDisk: Bool?
        var waiting: [@Sendable (Bool) -> Void] = []
    }

    private let state = Mutex(State())

    func end(isOnDisk: Bool) {
        let waiting = state.withLock { state in
            state.isOnDisk = isOnDisk
            return exchange(&state.waiting, with: [])
        }
        for tell in waiting { tell(isOnDisk) }
    }

    func whenEnded(_ tell: @escaping @Sendable (Bool) -> Void) {
        let isOnDisk = state.withLock { state in
            if state.isOnDisk == nil { state.waiting.append(tell) }
            return state.isOnDisk
        }
        if let isOnDisk { tell(isOnDisk) }
    }
}
