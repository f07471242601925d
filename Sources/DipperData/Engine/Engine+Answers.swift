import Foundation
import Synchronization

extension Engine {
    func answered(_ fetch: Fetch, _ run: Run, _ response: TransferResponse) {
        var response = response
        response.metrics.redirects = run.attempt.redirects
        judge(fetch, run, response, Verdicts())
    }

    /// Asks the calls that are not among the verdicts. Calls that join meanwhile hold up none that has been asked.
    private func judge(_ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ known: Verdicts) {
        let judging: [Call] = fetch.demand.judgesAnswers ? [fetch.sources.lead] + fetch.calls : []
        judge(response, for: known.unasked(judging)) { engine, verdicts in
            engine.answered(fetch, run, response, known.adding(verdicts))
        }
    }

    private func answered(_ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ verdicts: Verdicts) {
        let lead = fetch.sources.lead
        let refusal = verdicts.refusal(of: response, by: lead)
        let call =
            refusal == nil
            ? lead
            : fetch.calls.first { verdicts.has($0) && verdicts.refusal(of: response, by: $0) == nil }
        guard let call else {
            if verdicts.unasked(fetch.calls).isEmpty { return refused(fetch, run, response, refusal) }
            endRefused(fetch, response, verdicts)
            return judge(fetch, run, response, verdicts)
        }
        // A stored answer may be better than a server error that a validation accepts (`stale-if-error`, RFC 5861).
        guard response.status >= 500, let found = fetch.findings.found else {
            return accepted(fetch, run, response, call, verdicts)
        }
        judge(found.value, for: [call]) { engine, onFound in
            let moment = engine.now().timeIntervalSince1970
            if onFound.isAnsweredAllTheSame(call, by: found.value, at: moment) {
                engine.refused(fetch, run, response, refusal)
            } else {
                engine.accepted(fetch, run, response, call, verdicts)
            }
        }
    }

    private func refused(_ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ refusal: DipperError?) {
        // What follows a bad beginning would be refused as well.
        if (200...299).contains(response.status) { dropPartial(of: fetch) }
        var error = refusal ?? .status(response.status)
        error.retryAfter = response.headers["Retry-After"].flatMap { RetryAfter.delay(from: $0, now: now()) }
        if error == .status(response.status) { remember(fetch, run, response) }
        failed(fetch, error)
    }

    /// Keeps a failure for calls to come. A partial body stays in its place: the server may send the rest after all.
    private func remember(_ fetch: Fetch, _ run: Run, _ response: TransferResponse) {
        let (lead, chain) = (fetch.sources.lead, run.attempt.chain)
        let received = now().timeIntervalSince1970
        guard fetch.sources.isFirst, fetch.sources.provider == nil, !fetch.findings.isPartialKept,
            store.disk == nil ? fetch.demand.keepsInMemory : fetch.demand.renewsOnDisk,
            chain.mayStore(ignoresServer: lead.freshness.ignoresServer), let claim = fetch.findings.claim,
            let until = store.end(ofFailure: response, lead, requested: run.requested, received: received, after: chain)
        else { return }
        let info = EntryInfo(
            url: run.attempt.address, asked: lead.request.address(of: lead.key), status: response.status,
            stored: received, freshness: Freshness(generated: received, until: until),
            variant: Variant(vary: chain.vary(with: response.headers), request: run.sent), begun: claim.begun)
        store.keepFailure(info, for: fetch.key, claim: claim)
    }

    private func accepted(
        _ fetch: Fetch, _ run: Run, _ response: TransferResponse, _ call: Call, _ verdicts: Verdicts
    ) {
        let value = StoredData(
            data: response.body,
            info: info(
                of: response, for: fetch, run, call, url: run.attempt.address,
                isStandIn: fetch.sources.isStandIn))
        deliver(
            value, of: fetch, run, for: call, source: fetch.sources.provider == nil ? .network : .provider,
            response, verdicts)
    }

    private func endRefused(_ fetch: Fetch, _ response: TransferResponse, _ verdicts: Verdicts) {
        for waiter in fetch.waiters {
            guard let error = verdicts.refusal(of: response, by: waiter.call), !error.mayPass else { continue }
            leave(waiter, .failure(error))
        }
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
            engine.deliver(value, of: fetch, run, for: lead, source: .revalidated, response, verdicts)
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
            url: url, asked: call.request.address(of: call.key), status: response.status, headers: response.headers,
            stored: received,
            freshness: isStandIn
                ? Freshness(generated: received, until: received)
                : store.freshness(of: response, call, requested: run.requested, received: received, after: chain),
            variant: isKeptByVariant ? variant : nil, family: family, isStandIn: isStandIn,
            begun: fetch.findings.claim?.begun ?? RemovalHistory.now)
    }

    private func deliver(
        _ value: StoredData, of fetch: Fetch, _ run: Run, for call: Call, source: ResponseSource,
        _ answer: TransferResponse, _ verdicts: Verdicts
    ) {
        // A newer answer came while the program judged or transformed this one, for which nobody waits any more.
        // mutant RequestHook: `isLatest == false { return }` => `isLatest == false {}`
        if fetch.isOver, fetch.knownFindings?.claim?.isLatest == false { return }
        fetch.sources.follow(call)
        fetch.run = nil
        events.endAttempt(fetch, .answered(source))
        let write = PendingWrite()
        let mayKeep = keep(value, of: fetch, run, for: call, isConfirmed: source == .revalidated, write)
        // Then its file has become that of the entry.
        if source.isAnswer, !value.info.isStandIn { dropPartial(of: fetch) }
        let response = DataResponse(
            value, source: source, attempts: fetch.attempts, metrics: answer.metrics, asked: fetch.sources.asked)
        // A call with other header fields may need another variant, or an answer that is not shared; a call with a
        // validation of its own may need another answer. The call that the answer was fetched for takes it in any case.
        let isForAll = mayKeep && !value.info.headers.varying.contains("*")
        handOut(fetch, source == .network ? answer : nil, verdicts) { engine, waiter, verdicts in
            let isForIt = engine.isFor(waiter.call, value, call, isForAll: isForAll, verdicts)
            if isForIt { engine.leave(waiter, .success(response), write) }
            return isForIt
        }
    }

    /// - Parameter answer: asks the calls that have joined meanwhile, before they get it; `nil` to begin anew for them.
    private func handOut(
        _ fetch: Fetch, _ answer: TransferResponse?, _ verdicts: Verdicts,
        to give: @escaping @Sendable (isolated Engine, DataTask, Verdicts) -> Bool
    ) {
        if fetch.isOver { return }
        if let answer { endRefused(fetch, answer, verdicts) }
        let unasked = answer == nil ? [] : verdicts.unasked(fetch.calls)
        var next: Call?
        for waiter in fetch.waiters where answer == nil || verdicts.has(waiter.call) {
            if !give(self, waiter, verdicts), next == nil { next = waiter.call }
        }
        if let answer, !unasked.isEmpty {
            return judge(answer, for: unasked) { engine, more in
                engine.handOut(fetch, answer, verdicts.adding(more), to: give)
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
        if !isConfirmed, !demand.keepsOnDisk, demand.renewsOnDisk, fetch.findings.claim?.isOutdated != true {
            store.disk?.remove(found?.place ?? fetch.key)
        }
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
    /// With the calls, so that none of another call has the identity of one that is gone.
    fileprivate var own: [ObjectIdentifier: (call: Call, error: DipperError?)] = [:]

    /// A call with a validation of its own that joined after the question accepts nothing yet.
    func accepts(_ value: StoredData, for call: Call) -> Bool {
        guard call.hasOwnValidation else { return call.accepts(value) }
        guard let verdict = own[ObjectIdentifier(call)] else { return false }
        return verdict.error == nil
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

    /// Whether the call has been asked, or need not be.
    func has(_ call: Call) -> Bool { !call.hasOwnValidation || own[ObjectIdentifier(call)] != nil }

    func unasked(_ calls: some Sequence<Call>) -> [Call] { calls.filter { !has($0) } }

    func adding(_ others: Verdicts) -> Verdicts { Verdicts(own: own.merging(others.own) { $1 }) }

    func refusal(of response: TransferResponse, by call: Call) -> DipperError? {
        guard call.hasOwnValidation else { return call.request.validation.check(response) }
        return own[ObjectIdentifier(call)]?.error
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
            for call in calls where verdicts.own[ObjectIdentifier(call)] == nil {
                verdicts.own[ObjectIdentifier(call)] = (call, judge(call))
            }
            return verdicts
        } then: { engine, verdicts in
            goOn(engine, verdicts)
        }
    }
}

/// The question how to speak TLS with an origin. Its answer holds for a time.
enum TLSQuestion {
    case asked([(fetch: Fetch, goOn: @Sendable (isolated Engine, Result<TLSAnswer?, DipperError>) -> Void)])
    /// - Parameter use: grows with each use.
    case answered(Result<TLSAnswer?, DipperError>, at: Duration, use: UInt64)

    static let life = Duration.seconds(3_600)
    static let mostAnswers = 1_000
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
        runHook(of: fetch) {
            let field = await Result(ofHook: .rejected) { try await credentials?.field(challenge) }
            self.post { engine in
                if case .success(let authorization) = field,
                    run.attempt.answerChallenge(authorization, isOfProxy: isOfProxy)
                {
                    return engine.send(fetch)
                }
                switch field.flatMap({ _ in outcome }) {
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
        case .answered(let answer, let moment, _)? where time.now() - moment < TLSQuestion.life:
            tlsAnswers[origin] = .answered(answer, at: moment, use: nextNumber())
            goOn(self, answer)
        case .asked(let waiting)?:
            tlsAnswers[origin] = .asked(waiting.filter { !$0.fetch.isOver } + [(fetch, goOn)])
        case .answered?, nil:
            tlsAnswers[origin] = .asked([(fetch, goOn)])
            runHook(of: nil) { [ask = options.answerTLSChallenge] in
                let answer = await Result(ofHook: .tlsRejected) { try await ask?(url.ofOrigin ?? url) }
                self.post { $0.decided(answer, on: origin) }
            }
        }
    }

    private func decided(_ answer: Result<TLSAnswer?, DipperError>, on origin: ServerOrigin) {
        guard case .asked(let waiting)? = tlsAnswers.removeValue(forKey: origin) else { return }
        // An error that may pass decides nothing.
        let isDecided = if case .failure(let error) = answer { !error.mayPass && !error.isCancelled } else { true }
        if isDecided {
            if tlsAnswers.count >= TLSQuestion.mostAnswers { forgetOldestTLSAnswer() }
            tlsAnswers[origin] = .answered(answer, at: time.now(), use: nextNumber())
        }
        for waiter in waiting { waiter.goOn(self, answer) }
    }

    private func forgetOldestTLSAnswer() {
        var oldest: (origin: ServerOrigin, use: UInt64)?
        for case (let origin, .answered(_, _, let use)) in tlsAnswers where use < oldest?.use ?? .max {
            oldest = (origin, use)
        }
        if let oldest { tlsAnswers[oldest.origin] = nil }
    }
}
