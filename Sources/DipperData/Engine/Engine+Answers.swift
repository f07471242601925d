import Foundation
import Synchronization

extension Engine {
    func answered(_ fetch: Fetch, _ run: Run, _ response: TransferResponse) {
        var response = response
        response.metrics.redirects = run.attempt.redirects
        let judging: [Call] = fetch.demand.judgesAnswers ? [fetch.sources.lead] + fetch.calls : []
        judge(response, for: judging) { [response] engine, verdicts in
            // A call with a validation of its own may have joined meanwhile.
            if verdicts.areOfAll(fetch.calls) {
                engine.answered(fetch, run, response, verdicts)
            } else {
                engine.answered(fetch, run, response)
            }
        }
    }

    private func answered(_ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ verdicts: Verdicts) {
        let lead = fetch.sources.lead
        let refusal = verdicts.refusal(of: response, by: lead)
        let call =
            refusal == nil ? lead : fetch.waiters.first { verdicts.refusal(of: response, by: $0.call) == nil }?.call
        guard let call else { return refused(fetch, response, refusal) }
        // A stored answer may be better than a server error that a validation accepts (`stale-if-error`, RFC 5861).
        guard response.status >= 500, let found = fetch.findings.found else {
            return accepted(fetch, run, response, call, verdicts)
        }
        judge(found.value, for: [call]) { engine, onFound in
            let moment = engine.now().timeIntervalSince1970
            if onFound.isAnsweredAllTheSame(call, by: found.value, at: moment) {
                engine.refused(fetch, response, refusal)
            } else {
                engine.accepted(fetch, run, response, call, verdicts)
            }
        }
    }

    private func refused(_ fetch: Fetch, _ response: TransferResponse, _ refusal: DipperError?) {
        var error = refusal ?? .status(response.status)
        error.retryAfter = response.headers["Retry-After"].flatMap { RetryAfter.delay(from: $0, now: now()) }
        failed(fetch, error)
    }

    private func accepted(
        _ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ call: Call, _ verdicts: Verdicts
    ) {
        for waiter in fetch.waiters {
            guard let error = verdicts.refusal(of: response, by: waiter.call), !error.mayPass else { continue }
            leave(waiter, .failure(error))
        }
        let value = StoredData(
            data: response.body,
            info: info(
                of: response, for: fetch, run, call, url: run.attempt.url.withoutFragment,
                isStandIn: fetch.sources.isStandIn))
        deliver(value, of: fetch, run, for: call, source: .network, metrics: response.metrics, verdicts)
    }

    func confirmed(_ fetch: Fetch, _ run: Run, _ response: TransferResponse) {
        guard let stored = run.attempt.stored else { return }
        let lead = fetch.sources.lead
        var refreshed = response
        refreshed.status = stored.info.status
        refreshed.headers = Refreshing.headers(stored.info.headers, refreshedBy: response.headers)
        let value = StoredData(
            data: stored.data,
            info: info(of: refreshed, for: fetch, run, lead, url: stored.info.url, family: stored.info.family))
        judge(value, for: fetch.calls) { engine, verdicts in
            engine.deliver(
                value, of: fetch, run, for: lead, source: .revalidated, metrics: response.metrics, verdicts)
        }
    }

    private func info(
        of response: TransferResponse, for fetch: Fetch, _ run: Run, _ call: Call, url: String, family: UInt64 = 0,
        isStandIn: Bool = false
    ) -> EntryInfo {
        let chain = run.attempt.chain
        let received = now().timeIntervalSince1970
        // An answer to this request alone is not kept, so there are no variants to choose from.
        let variant = Variant(vary: chain.vary(with: response.headers), request: run.sent)
        let isKeptByVariant = variant?.isUnmatchable == false && !call.freshness.ignoresServer
        return EntryInfo(
            url: url, status: response.status, headers: response.headers, stored: received,
            freshness: isStandIn
                ? Freshness(generated: received, until: received)
                : store.freshness(of: response, call, requested: run.requested, received: received, after: chain),
            variant: isKeptByVariant ? variant : nil, family: family, isStandIn: isStandIn,
            begun: fetch.findings.claim?.begun ?? RemovalHistory.now)
    }

    private func deliver(
        _ value: StoredData, of fetch: Fetch, _ run: Run, for call: Call, source: ResponseSource,
        metrics: TransferMetrics, _ verdicts: Verdicts
    ) {
        // A newer answer came while the program judged or transformed this one, for which nobody waits any more.
        // mutant RequestHook: `isLatest == false { return }` => `isLatest == false {}`
        if fetch.isOver, fetch.knownFindings?.claim?.isLatest == false { return }
        fetch.sources.follow(call)
        if source == .network, !value.info.isStandIn, fetch.findings.complete() { store.dropPartial(of: fetch.key) }
        fetch.run = nil
        events.endAttempt(fetch, .answered(source))
        let write = PendingWrite()
        let mayKeep = keep(value, of: fetch, run, for: call, isConfirmed: source == .revalidated, write)
        let response = DataResponse(value, source: source, attempts: fetch.attempts, metrics: metrics)
        // A call with other header fields may need another variant, or an answer that is not shared; a call with a
        // validation of its own may need another answer. The call that the answer was fetched for takes it in any case.
        let isForAll = mayKeep && !value.info.headers.varying.contains("*")
        var next: Call?
        for waiter in fetch.waiters {
            let other = waiter.call
            if isFor(other, value, call, isForAll: isForAll, verdicts) {
                leave(waiter, .success(response), write)
            } else if next == nil {
                next = other
            }
        }
        if let next { beginAnew(fetch, for: next) } else { settle(fetch, isFinishing: true) }
    }

    private func keep(
        _ value: StoredData, of fetch: Fetch, _ run: Run, for call: Call, isConfirmed: Bool, _ write: PendingWrite
    ) -> Bool {
        let (demand, found) = (fetch.demand, fetch.findings.found)
        let mayStore = run.attempt.chain.mayStore(ignoresServer: call.freshness.ignoresServer)
        let mayKeep = mayStore && store.mayKeep(value.info, call)
        let isKeepable = demand.keepsInMemory && !value.info.isStandIn
        guard isKeepable, mayStore else {
            if isKeepable, value.info.status < 400, fetch.findings.claim?.isRevoked != true {
                store.remove(found?.place ?? fetch.key)
            }
            write.end(isOnDisk: false)
            return mayKeep
        }
        // One more confirmation tells the disk nothing new, unless the entry must be durable now.
        let isNews = !isConfirmed || run.attempt.stored.map { !value.info.saysTheSame(as: $0.info) } ?? true
        let keepsOnDisk =
            (isConfirmed ? demand.renewsOnDisk : demand.keepsOnDisk) && (isNews || demand.durability == .durable)
        if !isConfirmed, !demand.keepsOnDisk, demand.renewsOnDisk { store.disk?.remove(found?.place ?? fetch.key) }
        store.keep(
            value, for: fetch.key, demand.usesMemory ? call.usingMemory : call, mayKeep: mayKeep, beside: found,
            onDisk: keepsOnDisk, demand.durability,
            // mutant Removal: `claim: fetch.findings.claim, by: fetch` => `claim: nil, by: fetch`
            claim: fetch.findings.claim, by: fetch.identity.id, whenWritten: write.end)
        return mayKeep
    }

    private func isFor(
        _ other: Call, _ value: StoredData, _ call: Call, isForAll: Bool, _ verdicts: Verdicts
    ) -> Bool {
        if other === call { return true }
        // A call that has named no stand-in waits for the real answer.
        if value.info.isStandIn, !other.hasStandIns { return false }
        let isSame = other.request.headers == call.request.headers
        return (isSame || (isForAll && value.info.isChosen(by: other.request.headers)))
            && verdicts.accepts(value, for: other)
    }

    private func beginAnew(_ fetch: Fetch, for call: Call) {
        fetch.findings.beginAnew()
        fetch.sources.begin(anewFor: call)
        fetch.findings.failure = nil
        forgetLookUp(of: fetch)
        queues.remove(fetch)
        settle(fetch)
        enter(fetch)
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

/// The validations of calls, asked about an answer. Those of the program run elsewhere, all others on the loop.
struct Verdicts: Sendable {
    fileprivate var own: [ObjectIdentifier: DipperError?] = [:]

    /// A call with a validation of its own that joined after the question accepts nothing yet.
    func accepts(_ value: StoredData, for call: Call) -> Bool {
        guard call.hasOwnValidation else { return call.accepts(value) }
        guard let error = own[ObjectIdentifier(call)] else { return false }
        return error == nil
    }

    func use(of value: StoredData, for call: Call, at now: TimeInterval) -> StoredUse {
        accepts(value, for: call) ? call.use(ofAccepted: value.info, at: now) : .revalidate
    }

    func isAnswered(_ call: Call, by value: StoredData, at now: TimeInterval) -> Bool {
        accepts(value, for: call) && call.isAnswered(byAccepted: value.info, at: now)
    }

    func isAnsweredAllTheSame(
        _ call: Call, by value: StoredData, isOffline: Bool = false, isUnreached: Bool = false, at now: TimeInterval
    ) -> Bool {
        guard !call.insistsOnNetwork, value.info.isChosen(by: call.request.headers), accepts(value, for: call) else {
            return false
        }
        return StoredAnswer(value.info).mayServeOnError(
            for: call.request.headers, at: now, isOffline: isOffline, isUnreached: isUnreached,
            limit: call.staleIfError?.timeInterval)
    }

    func areOfAll(_ calls: some Sequence<Call>) -> Bool {
        calls.allSatisfy { !$0.hasOwnValidation || own[ObjectIdentifier($0)] != nil }
    }

    func refusal(of response: TransferResponse, by call: Call) -> DipperError? {
        guard call.hasOwnValidation else { return call.request.validation.check(response) }
        return own[ObjectIdentifier(call)] ?? nil
    }
}

extension Engine {
    func judge(
        _ value: StoredData?, for calls: some Sequence<Call>,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        guard let value else { return goOn(self, Verdicts()) }
        ask(calls.filter(\.hasOwnValidation), { $0.refusal(of: value) }, then: goOn)
    }

    func judge(
        _ answer: TransferResponse, for calls: some Sequence<Call>,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        ask(calls.filter(\.hasOwnValidation), { $0.request.validation.check(answer) }, then: goOn)
    }

    private func ask(
        _ calls: [Call], _ judge: @escaping @Sendable (Call) -> DipperError?,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        if calls.isEmpty { return goOn(self, Verdicts()) }
        work {
            var verdicts = Verdicts()
            for call in calls { verdicts.own.updateValue(judge(call), forKey: ObjectIdentifier(call)) }
            return verdicts
        } then: { engine, verdicts in
            goOn(engine, verdicts)
        }
    }
}

/// The question how to speak TLS with an origin, asked once in the life of the engine.
enum TLSQuestion {
    case asked([(fetch: Fetch, goOn: @Sendable (isolated Engine, Result<TLSAnswer?, DipperError>) -> Void)])
    case answered(Result<TLSAnswer?, DipperError>)
}

/// The program's code may wait for something, so it does not run on the loop.
extension Engine {
    /// - Parameter outcome: the result of the attempt if the program has no other credentials.
    func answerChallenge(
        _ fetch: Fetch, _ run: Run, _ demand: String, isOfProxy: Bool,
        orElse outcome: Result<TransferResponse, DipperError>
    ) {
        let proxy = isOfProxy ? run.attempt.proxy : nil
        let credentials = isOfProxy ? proxy?.credentials : fetch.sources.lead.request.hooks.credentials
        let challenge = Credentials.Challenge(url: proxy?.url ?? run.attempt.url, demand: demand)
        Task.detached {
            let authorization = await credentials?.field(challenge)
            self.post { engine in
                if run.attempt.answerChallenge(authorization, isOfProxy: isOfProxy) { return engine.send(fetch) }
                switch outcome {
                case .success(let response): engine.answered(fetch, run, response)
                case .failure(let error): engine.failed(fetch, error)
                }
            }
        }
    }

    func answerTLSChallenge(
        of origin: ServerOrigin, at url: URL, for fetch: Fetch,
        then goOn: @escaping @Sendable (isolated Engine, Result<TLSAnswer?, DipperError>) -> Void
    ) {
        switch tlsAnswers[origin] {
        case .answered(let answer)?: goOn(self, answer)
        case .asked(let waiting)?:
            tlsAnswers[origin] = .asked(waiting.filter { !$0.fetch.isOver } + [(fetch, goOn)])
        case nil:
            tlsAnswers[origin] = .asked([(fetch, goOn)])
            Task.detached { [ask = options.answerTLSChallenge] in
                let answer: Result<TLSAnswer?, DipperError>
                do {
                    answer = .success(try await ask?(url.ofOrigin ?? url))
                } catch {
                    answer = .failure(DipperError(error, as: .tlsRejected))
                }
                self.post { $0.decided(answer, on: origin) }
            }
        }
    }

    private func decided(_ answer: Result<TLSAnswer?, DipperError>, on origin: ServerOrigin) {
        guard case .asked(let waiting)? = tlsAnswers.removeValue(forKey: origin) else { return }
        // An error that may pass decides nothing.
        let isDecided = if case .failure(let error) = answer { !error.mayPass && !error.isCancelled } else { true }
        if isDecided { tlsAnswers[origin] = .answered(answer) }
        for waiter in waiting { waiter.goOn(self, answer) }
    }
}
