import Foundation
import Synchronization

/// An attempt under way: its requests, and the transfer of the present one.
@Loop
final class Run {
    var attempt: Attempt
    fileprivate(set) var transfer: (any Transfer)?
    fileprivate(set) var reception = Reception()
    /// The number by which the events of the transfer find the fetch; zero after its end.
    fileprivate(set) var number: UInt64 = 0
    let inherited: Int
    /// The origin of the body that the present transfer brings.
    fileprivate var origin = BodyOrigin()
    /// The bytes of the partial body that the present transfer does not continue.
    fileprivate var unusedPartialBytes = 0
    private(set) var wasThrottled: Bool
    /// The number of the transfer that is watched because there is no way to its host; zero for none.
    var watched: UInt64 = 0
    /// The first and the latest look at the transfer while others waited for its slot, and the bytes at the latest.
    var looks: (first: Duration, last: Duration, received: Int)?
    /// Whether the transfer gives its slot to others.
    fileprivate(set) var givesWay = false
    /// Whether the present transfer was broken off after a part of its body.
    fileprivate(set) var hasBroughtBytes = false
    /// Whether the transfer was given up because there is no way to its host.
    fileprivate var isLost = false
    /// The caller's header fields, as the hooks have changed them in the last request. `Vary` is judged by them.
    fileprivate(set) var sent: HTTPHeaders
    /// Whether a request of the attempt had credentials, which may have decided the answer.
    fileprivate(set) var hadCredentials = false
    /// In seconds since 1970.
    fileprivate(set) var requested: TimeInterval = 0
    fileprivate(set) var joined: JoinedBody?
    var progressPace = Pacing()
    var bytesPace = Pacing()
    /// Whether waiters have been told that a long body arrives.
    fileprivate(set) var isLong = false

    init(_ attempt: Attempt, inherited: Int, wasThrottled: Bool, sent: HTTPHeaders) {
        (self.attempt, self.inherited, self.wasThrottled, self.sent) = (attempt, inherited, wasThrottled, sent)
    }

    func noteThrottling() { (wasThrottled, looks) = (true, nil) }

    /// Breaks the transfer off, so that others may have its slot.
    func giveWay() {
        givesWay = true
        transfer?.cancel()
    }

    /// Breaks the transfer off, because there is no way to its host.
    func lose() {
        isLost = true
        transfer?.cancel()
    }
}

/// The bytes that a transfer has brought so far. Its thread writes them without telling the engine of each piece.
final class Reception: Sendable {
    private let bytes = Atomic<Int>(0)
    private let length = Atomic<Int>(-1)
    private let wants = Atomic(false)
    private let told = Atomic<Int>(0)

    var received: Int { bytes.load(ordering: .relaxed) }
    var expected: Int { length.load(ordering: .relaxed) }

    /// Tells the engine of each piece from now on, or only when much has come.
    func setWanted(_ isWanted: Bool) { wants.store(isWanted, ordering: .relaxed) }

    func take(_ received: Int, _ expected: Int?, step: Int) -> Bool {
        length.store(expected ?? -1, ordering: .relaxed)
        bytes.store(received, ordering: .relaxed)
        let before = told.load(ordering: .relaxed)
        let begins = before == 0 && received > 0 && expected ?? 0 >= Fetch.longBody
        guard wants.load(ordering: .relaxed) || begins || received - before >= step else { return false }
        told.store(received, ordering: .relaxed)
        return true
    }
}

/// The transfers of an attempt: from a request to an answer or a failure, with redirects and logins between.
extension Fetch {
    func start(_ asked: TransferRequest, _ run: Run, sent: HTTPHeaders? = nil) {
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

    func hold(_ bytes: Int) {
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
    func mayContinue(_ partial: PartialBody) -> Bool {
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
