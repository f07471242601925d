import Foundation

/// The attempts of a fetch: from getting a slot to an answer or a failure, with hooks, redirects and logins between.
extension Fetch {
    func start() {
        // The look-up that is under way may answer all calls.
        if lookUpState == .underWay, !needsNetwork { return }
        goToNetwork()
    }

    func goToNetwork() {
        guard isAdmitted() else { return }
        followLatestURL()
        engine.queues.reachNetwork(self)
        engine.reconsider()
        if exchange(&findings.isRetry, with: false), let failure {
            for waiter in waiters { waiter.hear(.retry(after: failure)) }
        }
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

    // MARK: Transfers

    private func start(_ asked: TransferRequest, _ run: Run, sent: HTTPHeaders? = nil) {
        guard !isOver else { return }
        run.attempt.sent(to: asked.url)
        guard let answers = engine.tlsAnswers, sources.provider == nil,
            let origin = ServerOrigin(asked.url), origin.scheme == "https"
        else { return transfer(asked, run, sent: sent) }
        answers.get(for: origin, at: asked.url, by: self) { answer in
            if self.isOver { return }
            switch answer {
            case .failure(let error): self.failed(error)
            case .success(let tls):
                var request = asked
                request.tls = tls
                self.transfer(request, run, sent: sent)
            }
        }
    }

    private func transfer(_ asked: TransferRequest, _ run: Run, sent: HTTPHeaders?) {
        // A hook may have taken its time.
        guard mayUseNetwork else { return failed(.unreachable) }
        run.joined = findings.partial.map { JoinedBody($0) }
        claimAddress(run, for: waiters)
        run.attempt.asksForRange = asked.headers["Range"] != nil
        run.attempt.isRepeatable = asked.method == "GET"
        if let sent { run.sent = sent }
        let showsWho = asked.headers.hasCredentials || asked.url.user != nil || transport.offersCertificate(to: asked)
        if showsWho { run.hadCredentials = true }
        run.requested = engine.now().timeIntervalSince1970
        run.unusedPartialBytes = asked.offset > 0 ? 0 : run.inherited
        run.origin = BodyOrigin()
        run.number = engine.nextNumber()
        engine.transfers[run.number] = self
        run.reception = Reception()
        (run.hasBroughtBytes, run.givesWay, run.isLost, run.looks) = (false, false, false, nil)
        (run.progressPace, run.bytesPace) = (Pacing(), Pacing())
        run.isLong = false
        run.reception.setWanted(!wanted.isEmpty)
        let receive: @Sendable (TransferEvent) -> Void = {
            [weak engine, number = run.number, reception = run.reception, step = progressStep] event in
            if case .progress(let received, let expected) = event {
                guard reception.take(received, expected, step: step) else { return }
                engine?.post { [weak engine] in
                    engine?.transfers[number]?.progressed(TaskProgress(received: received, expected: expected))
                }
            } else {
                engine?.post { [weak engine] in engine?.transfers[number]?.received(event, number) }
            }
        }
        if let provider = sources.provider {
            run.transfer = ProviderTransfer(provider, receive: receive)
            return
        }
        var request = asked
        request.queue = queue
        request.isThrottled = isThrottled
        if request.headers["Priority"] == nil {
            let level = sources.lead.request.priority.level
            request.headers.append("Priority", PriorityField.text(isUrgent: queue == .fast, level: level))
        }
        // Without a way to the host, a kept connection would wait for long; a new one fails at once.
        if sent != nil, !reaches(request.url) { request.needsNewConnection = true }
        engine.events.requested(self)
        engine.events.sends(&request, self)
        run.transfer = transport.start(request, receive: receive)
    }

    /// Removals of a URL that is asked in place of the key's, as after a redirect, concern the answer too.
    func claimAddress(_ run: Run, for waiters: [Waiter]) {
        if run.attempt.redirects == 0, sources.isFirst { return }
        let address = run.attempt.address
        if key.isOf(address) || alias?.isOf(address) == true { return }
        claim?.ask(address)
        for waiter in waiters { waiter.ask(address) }
    }

    /// A transfer tells the budget of its bytes at this interval, in bytes.
    private var progressStep: Int { max(1, min(1 << 20, engine.options.inFlightLimit / 512)) }

    private func progressed(_ progress: TaskProgress) {
        guard let run else { return }
        // The server sends the whole body instead of the rest.
        if progress.received <= run.inherited { run.unusedPartialBytes = run.inherited }
        hold(progress.received + run.unusedPartialBytes)
        if isOver { return }
        report(wanted, progress)
        if !run.isLong, let expected = progress.expected, expected >= Self.longBody,
            progress.received < expected / 4 * 3
        {
            run.isLong = true
            for waiter in waiters { waiter.bodyArrives() }
        }
    }

    /// In bytes: what arrives of a shorter body at a time is most of it.
    nonisolated static let longBody = 256 << 10

    private func received(_ event: TransferEvent, _ number: UInt64) {
        guard let run, run.number == number else { return }
        switch event {
        case .progress: break
        case .interim(let response):
            for waiter in waiters where mayShow(to: waiter) { waiter.hear(.interim(response)) }
        case .partial(let response):
            if let part = run.attempt.arrived(response, run.origin) { keep(part, run, isArriving: true) }
        case .interrupted(let response):
            run.hasBroughtBytes = true
            keepPartial(run.attempt.left(by: response, run.origin), run)
        case .finished(let result):
            engine.transfers[number] = nil
            (run.number, run.transfer) = (0, nil)
            if run.reception.received > 0 { run.hasBroughtBytes = true }
            switch result {
            case .failure(let error) where error.status == 407 && run.attempt.proxy?.canAnswer == true:
                answerChallenge(run, "", isOfProxy: true, orElse: result)
            case .failure(let error) where error.isOfAnswer && !run.hasBroughtBytes && run.attempt.takesBack():
                send()
            case .failure(let error):
                failed(error == .cancelled && run.isLost ? .unreachable : error)
            case .success(let response):
                if sources.provider == nil {
                    engine.events.received(response, self)
                    if !run.wasThrottled {
                        engine.queues.learn(from: response.metrics, of: self, endedAt: engine.time.now())
                    }
                }
                goOn(run, after: response)
            }
            // The next transfer may hold bytes by now.
            if self.run?.transfer == nil { giveBack() }
        }
    }

    private func goOn(_ run: Run, after response: TransferResponse) {
        guard response.status == 206, run.attempt.partial != nil else {
            var response = response
            let step = run.attempt.received(&response)
            return goOn(run, step, after: response)
        }
        // Joining parts takes time by their size.
        engine.work { [attempt = run.attempt] in
            var (attempt, response) = (attempt, response)
            let step = attempt.received(&response)
            return (attempt, step, response)
        } then: { result in
            guard !self.isOver, self.run === run else { return }
            run.attempt = result.0
            self.goOn(run, result.1, after: result.2)
        }
    }

    private func goOn(_ run: Run, _ step: Attempt.Step?, after response: TransferResponse) {
        switch step {
        case nil: transform(run, response)
        case .notModified: confirmed(run, response)
        case .again:
            findings.partial = run.attempt.partial
            send()
        case .failed(let error):
            if error == .truncated { keepPartial(run.attempt.partial, run) }
            failed(error)
        case .redirect(let target): redirect(run, to: target, after: response)
        case .challenge(let demand):
            answerChallenge(run, demand, isOfProxy: response.status == 407, orElse: .success(response))
        }
    }

    private func transform(_ run: Run, _ response: TransferResponse) {
        guard let transform = sources.lead.request.hooks.bodyTransform, sources.provider == nil,
            (200...299).contains(response.status), ![204, 206].contains(response.status)
        else { return answered(run, response) }
        engine.work {
            Result { try transform.apply(response.body) }
        } then: { body in
            switch body {
            case .success(let body):
                var response = response
                response.body = body
                self.answered(run, response)
            case .failure(let error):
                self.dropPartial()
                self.failed(DipperError(error, as: .undecodable))
            }
        }
    }

    private func redirect(_ run: Run, to target: URL, after response: TransferResponse) {
        let proposed = run.attempt.redirected(to: target)
        let hop = RedirectChain.Hop(
            status: response.status, headers: response.headers, requested: run.requested,
            received: engine.now().timeIntervalSince1970)
        guard let handler = sources.lead.request.hooks.redirectHandler else {
            run.attempt.follow(proposed, proposed: proposed, after: hop)
            return send()
        }
        let step = RedirectHandler.Redirection(
            url: run.attempt.sentURL, status: response.status, headers: response.headers, count: run.attempt.redirects)
        engine.runHook(of: self) {
            let decision = await Result(ofHook: .rejected) { try await handler.decide(step, proposed) }
            self.post {
                switch decision {
                case .success(let chosen?):
                    run.attempt.follow(chosen, proposed: proposed, after: hop)
                    self.send()
                case .success(nil): self.answered(run, response)
                case .failure(let error): self.failed(error)
                }
            }
        }
    }

    /// - Parameter outcome: the result of the attempt if the program has no other credentials.
    func answerChallenge(
        _ run: Run, _ demand: String, isOfProxy: Bool,
        orElse outcome: Result<TransferResponse, DipperError>
    ) {
        let proxy = isOfProxy ? run.attempt.proxy : nil
        let credentials = isOfProxy ? proxy?.credentials : sources.lead.request.hooks.credentials
        let challenge = Credentials.Challenge(url: proxy?.url ?? run.attempt.url, demand: demand)
        engine.runHook(of: self) {
            let field = await Result(ofHook: .rejected) { try await credentials?.field(challenge) }
            self.post {
                if case .success(let authorization) = field,
                    run.attempt.answerChallenge(authorization, isOfProxy: isOfProxy)
                {
                    return self.send()
                }
                switch field.flatMap({ _ in outcome }) {
                case .success(let response): self.answered(run, response)
                case .failure(let error): self.failed(error)
                }
            }
        }
    }

    // MARK: Bodies

    private func hold(_ bytes: Int) {
        let change = bytes - exchange(&findings.held, with: bytes)
        if change != 0 { engine.account { $0.take(change) } }
    }

    func giveBack() { if knownFindings != nil { hold(0) } }

    private func keepPartial(_ partial: PartialBody?, _ run: Run) {
        findings.partial = partial
        if let partial { findings.partial = keep(partial, run, isArriving: false) }
    }

    /// Whether a beginning may become part of an answer to the call that is fetched for. By the rules of a shared cache,
    /// an answer for one client is for that call alone, whatever a private cache has kept of it.
    private func mayContinue(_ partial: PartialBody) -> Bool {
        !sources.lead.freshness.isShared || partial.audience == .asker || partial.audience >= .cache
    }

    /// Whether a call may see what comes before the end: by the rules of a shared cache it is not known yet whether the
    /// answer is for all.
    func mayShow(to waiter: Waiter) -> Bool { !sources.lead.freshness.isShared || waiter.call === sources.lead }

    /// - Returns: the body with its audience.
    @discardableResult
    private func keep(_ body: PartialBody, _ run: Run, isArriving: Bool) -> PartialBody {
        let lead = sources.lead
        let control = CacheControl(response: body.headers, isShared: lead.freshness.isShared)
        var partial = body
        partial.audience = min(
            body.audience, audience(of: TransferResponse(headers: body.headers, body: Data()), run, lead, control))
        // A beginning is not stored if the whole answer must not be (RFC 9111, section 5.2.2.5).
        guard partial.audience >= .client, !control.isShared || control.privateFields.isEmpty,
            engine.store.disk == nil ? demand.keepsInMemory : demand.keepsOnDisk
        else { return partial }
        findings.isPartialKept = true
        guard let claim else { return partial }
        lead.pending.begin()
        engine.store.keepPartial(
            partial, for: key, asked: lead.request.address(of: lead.key), isArriving: isArriving, claim: claim
        ) { lead.pending.end() }
        return partial
    }

    func dropPartial() { if findings.complete() { engine.store.dropPartial(of: key) } }
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
