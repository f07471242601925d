import Foundation

/// The attempts of a fetch: from getting a slot to an answer or a failure, with hooks, redirects and logins between.
extension Engine {
    func start(_ fetch: Fetch) {
        // The look-up that is under way may answer all calls.
        if fetch.lookUpState == .underWay, !fetch.needsNetwork { return }
        goToNetwork(fetch)
    }

    func goToNetwork(_ fetch: Fetch) {
        fetch.followLatestURL()
        queues.reachNetwork(fetch)
        reconsider()
        if exchange(&fetch.findings.isRetry, with: false), let failure = fetch.failure {
            for waiter in fetch.waiters { waiter.hear(.retry(after: failure)) }
        }
        events.transferring(fetch)
        let unparked = fetch.findings.unpark()
        fetch.findings.reclaim(
            store.history.claim(fetch.key, of: fetch.alias), store.history, isFirst: fetch.attempts == 0)
        if unparked > 0 {
            fetch.findings.held += unparked
            account { $0.unpark(unparked) }
        }
        // The entry may have come into memory since the call was made.
        guard !fetch.demand.insistsOnNetwork, let found = store.kept(for: fetch.sources.lead) else {
            return beginAttempt(fetch)
        }
        judge(found.value, for: fetch.calls) { engine, verdicts in
            engine.beginAttempt(fetch, unlessAnsweredBy: found, verdicts)
        }
    }

    private func beginAttempt(_ fetch: Fetch, unlessAnsweredBy found: FoundEntry, _ verdicts: Verdicts) {
        guard !fetch.isOver else { return }
        let moment = now().timeIntervalSince1970
        fetch.findings.find(found)
        let isForAll = fetch.calls.allSatisfy {
            $0.cachePolicy != .ignoreCache && verdicts.use(of: found.value, for: $0, at: moment) == .fresh
        }
        if isForAll { answer(fetch, with: found) } else { beginAttempt(fetch) }
    }

    private func answer(_ fetch: Fetch, with found: FoundEntry) {
        events.endAttempt(fetch, .answered(found.source))
        let response = DataResponse(found.value, source: found.source)
        for waiter in fetch.waiters { leave(waiter, .success(response), kept: found.place ?? fetch.key) }
        settle(fetch, isFinishing: true)
    }

    private func beginAttempt(_ fetch: Fetch) {
        // Without a way to the host no attempt is made, and none is counted.
        guard canReach(fetch) else { return failed(fetch, .unreachable) }
        let findings = fetch.findings
        // With a disk, the look-up has read the partial body already; without one, nobody has.
        let isUnread =
            store.disk == nil && findings.attempts == 0 && findings.found == nil && !fetch.demand.insistsOnNetwork
        guard findings.partial == nil, findings.isPartialLeft || isUnread else { return confirm(fetch) }
        if store.disk == nil {
            if let count = findings.readBack(store.partialInMemory(of: fetch.key)) { hold(count, for: fetch) }
            return confirm(fetch)
        }
        let isRead = store.readPartial(of: fetch.key, place(of: fetch)) { partial in
            self.post { $0.readBack(fetch, partial) }
        }
        if !isRead { confirm(fetch) }
    }

    private func readBack(_ fetch: Fetch, _ partial: PartialBody?) {
        guard !fetch.isOver else { return }
        if let count = fetch.findings.readBack(partial) { hold(count, for: fetch) }
        // The entry may have been removed meanwhile.
        fetch.findings.reclaim(
            store.history.claim(fetch.key, of: fetch.alias), store.history, isFirst: fetch.attempts == 0)
        confirm(fetch)
    }

    private func confirm(_ fetch: Fetch) {
        let lead = fetch.sources.lead
        guard let found = fetch.confirmable else { return attempt(fetch, confirming: nil) }
        judge(found.value, for: [lead]) { engine, verdicts in
            guard !fetch.isOver else { return }
            // The hooks may change the fields that choose the answer.
            let isChosen = lead.request.hooks.changesRequests || found.value.info.isChosen(by: lead.request.headers)
            engine.attempt(
                fetch, confirming: isChosen && verdicts.accepts(found.value, for: lead) ? found.value : nil)
        }
    }

    private func attempt(_ fetch: Fetch, confirming stored: StoredData?) {
        guard let url = fetch.sources.url else { return failed(fetch, .invalidURL) }
        let time = time.now()
        fetch.findings.attempts += 1
        run(fetch)
        if fetch.isThrottled { fetch.findings.budget.hold(at: time) }
        let request = fetch.sources.lead.request
        let partial = fetch.findings.partial
        fetch.run = Run(
            Attempt(
                url, insteadOf: request.url ?? url, headers: request.headers, hooks: request.hooks,
                keyRule: request.keyRule, maximumRedirects: options.maximumRedirects, stored: stored, partial: partial),
            inherited: partial?.count ?? 0, wasThrottled: fetch.isThrottled, sent: request.headers)
        if fetch.demand.hasTimeLimits {
            let spent = fetch.findings.budget.spent(at: time)
            for waiter in fetch.waiters { armTimeout(of: waiter, spent: spent) }
        }
        send(fetch)
    }

    func send(_ fetch: Fetch) {
        guard let run = fetch.run, !fetch.isOver else { return }
        let attempt = run.attempt
        if let provider = fetch.sources.provider {
            return reads(provider)
                ? start(attempt.request, of: fetch, run) : failed(fetch, .unsupportedScheme.with(detail: "file"))
        }
        let lead = fetch.sources.lead
        if let defect = DataRequest(remote: attempt.url).defect {
            // A modifier may turn the URL into one that can be fetched.
            guard lead.request.hooks.modifier != nil else { return failed(fetch, defect) }
        } else if !canReach(attempt.sentURL, transport(of: lead)) {
            return failed(fetch, .unreachable)
        }
        let request = attempt.request
        // A field built from a server's answer must contain no line break.
        guard request.headers.isWellFormed else { return failed(fetch, .invalidHeader) }
        guard lead.request.hooks.changesRequests || options.proxyCredentials != nil else {
            return start(request, of: fetch, run)
        }
        runHook(of: fetch) {
            do throws(DipperError) {
                let prepared = try await attempt.prepared(for: lead, by: self)
                self.post { $0.prepared(fetch, run, prepared) }
            } catch {
                self.post { $0.failed(fetch, error) }
            }
        }
    }

    private func prepared(_ fetch: Fetch, _ run: Run, _ prepared: Attempt.Prepared) {
        guard !fetch.isOver else { return }
        run.attempt = prepared.attempt
        guard prepared.attempt.redirects == 0, let chosen = storedAnswer(to: fetch, asSent: prepared.sent) else {
            return start(prepared.request, of: fetch, run, sent: prepared.sent)
        }
        judge(chosen.value, for: fetch.calls) { engine, verdicts in
            guard !fetch.isOver else { return }
            let moment = engine.now().timeIntervalSince1970
            let fields = fetch.sources.lead.request.headers
            let isForAll = fetch.calls.allSatisfy {
                $0.cachePolicy != .ignoreCache && $0.request.headers == fields
                    && verdicts.accepts(chosen.value, for: $0)
                    && $0.use(ofChosen: chosen.value.info, at: moment) == .fresh
            }
            if isForAll { return engine.answer(fetch, with: chosen) }
            engine.start(prepared.request, of: fetch, run, sent: prepared.sent)
        }
    }

    private func storedAnswer(to fetch: Fetch, asSent sent: HTTPHeaders) -> FoundEntry? {
        guard let found = fetch.confirmable, !found.value.info.isChosen(by: fetch.sources.lead.request.headers) else {
            return nil
        }
        guard let place = found.value.info.place(of: fetch.key, chosenBy: sent) else { return found }
        guard let value = store.memory.value(for: place), value.info.isChosen(by: sent) else { return nil }
        return FoundEntry(value: value, source: found.source, place: place)
    }

    // MARK: Transfers

    private func start(_ asked: TransferRequest, of fetch: Fetch, _ run: Run, sent: HTTPHeaders? = nil) {
        guard !fetch.isOver else { return }
        run.attempt.sent(to: asked.url)
        guard options.answerTLSChallenge != nil, fetch.sources.provider == nil,
            let origin = ServerOrigin(asked.url), origin.scheme == "https"
        else { return transfer(asked, of: fetch, run, sent: sent) }
        answerTLSChallenge(of: origin, at: asked.url, for: fetch) { engine, answer in
            if fetch.isOver { return }
            switch answer {
            case .failure(let error): engine.failed(fetch, error)
            case .success(let tls):
                var request = asked
                request.tls = tls
                engine.transfer(request, of: fetch, run, sent: sent)
            }
        }
    }

    private func transfer(_ asked: TransferRequest, of fetch: Fetch, _ run: Run, sent: HTTPHeaders?) {
        // A hook may have taken its time.
        guard mayUseNetwork(fetch) else { return failed(fetch, .unreachable) }
        run.joined = fetch.findings.partial.map { JoinedBody($0) }
        run.attempt.asksForRange = asked.headers["Range"] != nil
        run.attempt.isRepeatable = asked.method == "GET"
        if let sent { run.sent = sent }
        run.requested = now().timeIntervalSince1970
        run.unusedPartialBytes = asked.offset > 0 ? 0 : run.inherited
        run.origin = BodyOrigin()
        run.number = nextNumber()
        transfers[run.number] = fetch
        run.reception = Reception()
        (run.hasBroughtBytes, run.givesWay, run.isLost, run.looks) = (false, false, false, nil)
        (run.progressPace, run.bytesPace) = (Pacing(), Pacing())
        run.reception.setWanted(!fetch.wanted.isEmpty)
        let receive: @Sendable (TransferEvent) -> Void = {
            [weak self, number = run.number, reception = run.reception, step = progressStep] event in
            if case .progress(let received, let expected) = event {
                guard reception.take(received, expected, step: step) else { return }
                self?.post { $0.progressed(number, TaskProgress(received: received, expected: expected)) }
            } else {
                self?.post { $0.received(event, number) }
            }
        }
        if let provider = fetch.sources.provider {
            run.transfer = ProviderTransfer(provider, receive: receive)
            return
        }
        var request = asked
        request.queue = fetch.queue
        request.isThrottled = fetch.isThrottled
        if request.headers["Priority"] == nil {
            let level = fetch.sources.lead.request.priority.level
            request.headers.append("Priority", PriorityField.text(isUrgent: fetch.queue == .fast, level: level))
        }
        // Without a way to the host, a kept connection would wait for long; a new one fails at once.
        if sent != nil, !canReach(request.url, transport(of: fetch.sources.lead)) { request.needsNewConnection = true }
        events.requested(fetch)
        run.transfer = transport(of: fetch.sources.lead).start(request, receive: receive)
    }

    /// A transfer tells the budget of its bytes at this interval, in bytes.
    private var progressStep: Int { max(1, min(1 << 20, options.inFlightLimit / 512)) }

    private func progressed(_ number: UInt64, _ progress: TaskProgress) {
        guard let fetch = transfers[number], let run = fetch.run else { return }
        // The server sends the whole body instead of the rest.
        if progress.received <= run.inherited { run.unusedPartialBytes = run.inherited }
        hold(progress.received + run.unusedPartialBytes, for: fetch)
        if fetch.isOver { return }
        report(fetch.wanted, of: fetch, progress)
    }

    private func received(_ event: TransferEvent, _ number: UInt64) {
        guard let fetch = transfers[number], let run = fetch.run else { return }
        switch event {
        case .progress: break
        case .partial(let response):
            if let part = run.attempt.arrived(response, run.origin) { keep(part, fetch, run, isArriving: true) }
        case .interrupted(let response):
            run.hasBroughtBytes = true
            keepPartial(run.attempt.left(by: response, run.origin), fetch, run)
        case .finished(let result):
            transfers[number] = nil
            (run.number, run.transfer) = (0, nil)
            if run.reception.received > 0 { run.hasBroughtBytes = true }
            switch result {
            case .failure(let error) where error.status == 407 && run.attempt.proxy?.canAnswer == true:
                answerChallenge(fetch, run, "", isOfProxy: true, orElse: result)
            case .failure(let error) where error.isOfAnswer && !run.hasBroughtBytes && run.attempt.takesBack():
                send(fetch)
            case .failure(let error):
                failed(fetch, error == .cancelled && run.isLost ? .unreachable : error)
            case .success(let response):
                if fetch.sources.provider == nil { events.received(response, fetch) }
                goOn(fetch, run, after: response)
            }
            // The next transfer may hold bytes by now.
            if fetch.run?.transfer == nil { giveBack(of: fetch) }
        }
    }

    private func goOn(_ fetch: Fetch, _ run: Run, after response: TransferResponse) {
        guard response.status == 206, run.attempt.partial != nil else {
            return goOn(fetch, run, with: run.attempt.received(response))
        }
        // Joining parts takes time by their size.
        work { [attempt = run.attempt] in
            var attempt = attempt
            let step = attempt.received(response)
            return (attempt, step)
        } then: { engine, result in
            guard !fetch.isOver, fetch.run === run else { return }
            run.attempt = result.0
            engine.goOn(fetch, run, with: result.1)
        }
    }

    private func goOn(_ fetch: Fetch, _ run: Run, with step: Attempt.Step) {
        switch step {
        case .answer(let response): transform(fetch, run, response)
        case .notModified(let response): confirmed(fetch, run, response)
        case .again:
            fetch.findings.partial = run.attempt.partial
            send(fetch)
        case .failed(let error):
            if error == .truncated { keepPartial(run.attempt.partial, fetch, run) }
            failed(fetch, error)
        case .redirect(let target, let response): redirect(fetch, run, to: target, after: response)
        case .challenge(let demand, let response):
            answerChallenge(fetch, run, demand, isOfProxy: response.status == 407, orElse: .success(response))
        }
    }

    private func transform(_ fetch: Fetch, _ run: Run, _ response: TransferResponse) {
        guard let transform = fetch.sources.lead.request.hooks.bodyTransform, fetch.sources.provider == nil,
            (200...299).contains(response.status), ![204, 206].contains(response.status)
        else { return answered(fetch, run, response) }
        work {
            Result { try transform.apply(response.body) }
        } then: { engine, body in
            switch body {
            case .success(let body):
                var response = response
                response.body = body
                engine.answered(fetch, run, response)
            case .failure(let error):
                engine.dropPartial(of: fetch)
                engine.failed(fetch, DipperError(error, as: .undecodable))
            }
        }
    }

    private func redirect(_ fetch: Fetch, _ run: Run, to target: URL, after response: TransferResponse) {
        let proposed = run.attempt.redirected(to: target)
        let hop = RedirectChain.Hop(
            status: response.status, headers: response.headers, requested: run.requested,
            received: now().timeIntervalSince1970)
        guard let handler = fetch.sources.lead.request.hooks.redirectHandler else {
            run.attempt.follow(proposed, proposed: proposed, after: hop)
            return send(fetch)
        }
        let step = RedirectHandler.Redirection(
            url: run.attempt.sentURL, status: response.status, headers: response.headers, count: run.attempt.redirects)
        runHook(of: fetch) {
            let decision = await Result(ofHook: .rejected) { try await handler.decide(step, proposed) }
            self.post { engine in
                switch decision {
                case .success(let chosen?):
                    run.attempt.follow(chosen, proposed: proposed, after: hop)
                    engine.send(fetch)
                case .success(nil): engine.answered(fetch, run, response)
                case .failure(let error): engine.failed(fetch, error)
                }
            }
        }
    }

    // MARK: Bodies

    private func hold(_ bytes: Int, for fetch: Fetch) {
        let change = bytes - exchange(&fetch.findings.held, with: bytes)
        if change != 0 { account { $0.take(change) } }
    }

    func giveBack(of fetch: Fetch) { if fetch.knownFindings != nil { hold(0, for: fetch) } }

    private func keepPartial(_ partial: PartialBody?, _ fetch: Fetch, _ run: Run) {
        fetch.findings.partial = partial
        if let partial { keep(partial, fetch, run, isArriving: false) }
    }

    private func keep(_ partial: PartialBody, _ fetch: Fetch, _ run: Run, isArriving: Bool) {
        let lead = fetch.sources.lead
        // A beginning is not stored if the whole answer must not be (RFC 9111, section 5.2.2.5).
        guard store.mayKeep(EntryInfo(url: partial.url, headers: partial.headers, stored: 0), lead),
            run.attempt.chain.mayStore(ignoresServer: lead.freshness.ignoresServer),
            store.disk == nil ? fetch.demand.keepsInMemory : fetch.demand.keepsOnDisk
        else { return }
        fetch.findings.isPartialKept = true
        guard let claim = fetch.findings.claim else { return }
        lead.pending.begin()
        store.keepPartial(
            partial, for: fetch.key, asked: lead.request.address(of: lead.key), isArriving: isArriving, claim: claim
        ) { lead.pending.end() }
    }

    func dropPartial(of fetch: Fetch) { if fetch.findings.complete() { store.dropPartial(of: fetch.key) } }
}

extension Attempt {
    /// A request as the caller's hooks have changed it, and the caller's header fields, changed likewise.
    struct Prepared: Sendable {
        let request: TransferRequest
        let attempt: Attempt
        let sent: HTTPHeaders
    }

    func prepared(for lead: Call, by engine: Engine) async throws(DipperError) -> Prepared {
        var attempt = self
        let hooks = lead.request.hooks
        if attempt.wantsCredentials, attempt.authorization == nil, let credentials = hooks.credentials {
            attempt.authorization = try await credentials.field(.init(url: attempt.url, demand: nil))
        }
        let asked = attempt.request
        var request = asked
        if let modifier = hooks.modifier {
            request = try await Result(ofHook: .rejected) { try await modifier.modify(asked) }.get()
            request.offset = asked.offset
            // What belongs to the origin that the caller named does not go where a modifier leads.
            if !Redirect.isSameOrigin(asked.url, request.url) {
                request.isForOwnOrigin = false
                if let field = attempt.authorization, request.headers["Authorization"] == field {
                    request.headers["Authorization"] = nil
                }
            }
            // A method must not break out of the request line.
            guard request.method.isHeaderName else { throw .invalidHeader.with(detail: "the method is no token") }
            if let defect = DataRequest(remote: request.url).with(\.headers, request.headers).defect { throw defect }
        }
        if let credentials = engine.options.proxyCredentials {
            let url = engine.transport(of: lead).proxy(for: request.url)
            if url != attempt.proxy?.url { attempt.proxy = nil }
            if let url, attempt.proxy == nil {
                let authorization = try await credentials.field(.init(url: url, demand: nil))
                attempt.proxy = ProxyLogin(url: url, credentials: credentials, authorization: authorization)
            }
            request.proxyAuthorization = attempt.proxy?.authorization
        }
        var plain = attempt
        plain.authorization = nil
        let sent = lead.request.headers.changed(from: plain.request.headers, to: request.headers)
        if let stored = attempt.stored, !stored.info.isChosen(by: sent) {
            // The stored answer is asked about only if it could be used.
            attempt.forgetStored()
            for field in Validators(stored.info.headers).conditionalFields { request.headers[field.name] = nil }
        }
        return Prepared(request: request, attempt: attempt, sent: sent)
    }
}
