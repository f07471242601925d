import Foundation

/// The attempts of a fetch: from getting a slot to a request, with the hooks that change it.
extension Fetch {
    func start() {
        // The look-up that is under way may answer all calls.
        if lookUp.isUnderWay, !needsNetwork { return }
        goToNetwork()
    }

    func goToNetwork() {
        guard isAdmitted() else { return }
        followLatestURL()
        engine.queues.reachNetwork(self)
        engine.reconsider()
        tellRetry()
        engine.events.transferring(self)
        let unparked = findings.unpark()
        reclaim()
        if unparked > 0 {
            findings.held += unparked
            engine.account { $0.unpark(unparked) }
        }
        // The entry may have come into memory since the call was made.
        guard !demand.insistsOnNetwork, let found = engine.store.kept(for: sources.lead) else {
            return beginAttempt()
        }
        engine.judge(found.value, for: calls) { verdicts in
            self.beginAttempt(unlessAnsweredBy: found, verdicts)
        }
    }

    private func beginAttempt(unlessAnsweredBy found: FoundEntry, _ verdicts: Verdicts) {
        guard !isOver else { return }
        let moment = engine.now().timeIntervalSince1970
        findings.find(found)
        let isForAll = calls.allSatisfy {
            $0.cachePolicy != .ignoreCache && verdicts.use(of: found.value, for: $0, at: moment) == .fresh
        }
        if isForAll { answer(with: found) } else { beginAttempt() }
    }

    private func answer(with found: FoundEntry) {
        engine.events.endAttempt(self, .answered(found.source))
        let response = DataResponse(found.value, source: found.source)
        for waiter in waiters { leave(waiter, .success(response), kept: found.place ?? key) }
        settle(isFinishing: true)
    }

    private func beginAttempt() {
        // Without a way to the host no attempt is made, and none is counted.
        guard canReach else { return failed(.unreachable) }
        let findings = findings
        // With a disk, the look-up has said whether there is a partial body; without one, nobody has looked.
        let isUnread =
            engine.store.disk == nil && findings.attempts == 0 && findings.found == nil && !demand.insistsOnNetwork
        guard findings.partial == nil, findings.isPartialLeft || isUnread else { return confirm() }
        if engine.store.disk == nil {
            if let count = findings.readBack(engine.store.partialInMemory(of: key)) { hold(count) }
            return confirm()
        }
        let isRead = engine.store.readPartial(of: key, readersPlace) { partial in
            self.post { self.readBack(partial) }
        }
        if !isRead { confirm() }
    }

    private func readBack(_ partial: PartialBody?) {
        guard !isOver else { return }
        if let count = findings.readBack(partial) { hold(count) }
        // The entry may have been removed meanwhile.
        reclaim()
        confirm()
    }

    private func confirm() {
        let lead = sources.lead
        guard let found = confirmable else { return attempt(confirming: nil) }
        engine.judge(found.value, for: [lead]) { verdicts in
            guard !self.isOver else { return }
            // The hooks may change the fields that choose the answer.
            let isChosen = lead.request.hooks.changesRequests || found.value.info.isChosen(by: lead.request.headers)
            self.attempt(confirming: isChosen && verdicts.accepts(found.value, for: lead) ? found.value : nil)
        }
    }

    private func attempt(confirming stored: StoredData?) {
        guard let url = sources.url else { return failed(.invalidURL) }
        let time = engine.time.now()
        findings.attempts += 1
        runClock()
        if isThrottled { findings.budget.hold(at: time) }
        let request = sources.lead.request
        if let partial = findings.partial, !mayContinue(partial) { findings.partial = nil }
        let partial = findings.partial
        run = Run(
            Attempt(
                url, insteadOf: request.url ?? url, headers: request.headers, hooks: request.hooks,
                keyRule: request.keyRule, maximumRedirects: engine.options.maximumRedirects, stored: stored,
                partial: partial),
            inherited: partial?.count ?? 0, wasThrottled: isThrottled, sent: request.headers)
        if demand.hasTimeLimits {
            let spent = findings.budget.spent(at: time)
            for waiter in waiters { armTimeout(of: waiter, spent: spent) }
        }
        send()
    }

    func send() {
        guard let run, !isOver else { return }
        let attempt = run.attempt
        if let provider = sources.provider {
            return engine.options.reads(provider)
                ? start(attempt.request, run) : failed(.unsupportedScheme.with(detail: "file"))
        }
        let lead = sources.lead
        if let defect = DataRequest(remote: attempt.url).defect {
            // A modifier may turn the URL into one that can be fetched.
            guard lead.request.hooks.modifier != nil else { return failed(defect) }
        } else if !reaches(attempt.sentURL) {
            return failed(.unreachable)
        }
        let request = attempt.request
        // A field built from a server's answer must contain no line break.
        guard request.headers.isWellFormed else { return failed(.invalidHeader) }
        guard lead.request.hooks.changesRequests || engine.options.proxyCredentials != nil else {
            return start(request, run)
        }
        engine.runHook(of: self) {
            do throws(DipperError) {
                let prepared = try await attempt.prepared(for: lead, by: self.engine)
                self.post { self.prepared(run, prepared) }
            } catch {
                self.post { self.failed(error) }
            }
        }
    }

    private func prepared(_ run: Run, _ prepared: Attempt.Prepared) {
        guard !isOver else { return }
        run.attempt = prepared.attempt
        guard prepared.attempt.redirects == 0, let chosen = storedAnswer(asSent: prepared.sent) else {
            return start(prepared.request, run, sent: prepared.sent)
        }
        engine.judge(chosen.value, for: calls) { verdicts in
            guard !self.isOver else { return }
            let moment = self.engine.now().timeIntervalSince1970
            let fields = self.sources.lead.request.headers
            let isForAll = self.calls.allSatisfy {
                $0.cachePolicy != .ignoreCache && $0.request.headers == fields
                    && verdicts.accepts(chosen.value, for: $0)
                    && $0.use(ofChosen: chosen.value.info, at: moment) == .fresh
            }
            if isForAll { return self.answer(with: chosen) }
            self.start(prepared.request, run, sent: prepared.sent)
        }
    }

    private func storedAnswer(asSent sent: HTTPHeaders) -> FoundEntry? {
        guard let found = confirmable, !found.value.info.isChosen(by: sources.lead.request.headers) else {
            return nil
        }
        guard let place = found.value.info.place(of: key, chosenBy: sent) else { return found }
        guard let value = engine.store.memory.value(for: place), value.info.isChosen(by: sent) else { return nil }
        return FoundEntry(value: value, source: found.source, place: place)
    }
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
