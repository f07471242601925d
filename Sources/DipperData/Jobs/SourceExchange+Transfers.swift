import Foundation

/// The transfers of an exchange, and the steps that their answers lead to.
extension SourceExchange {
    func start(_ asked: TransferRequest, of attempt: Attempt, sent: HTTPHeaders? = nil) {
        let moment = engine.now().timeIntervalSince1970
        guard let start = job.withState({ $0.send(asked, of: attempt, sent: sent, at: moment) }) else { return }
        job.besides.store(asked.offset > 0 ? 0 : start.inherited, ordering: .relaxed)
        job.received.store(0, ordering: .relaxed)
        job.expected.store(-1, ordering: .relaxed)
        let transfer = makeTransfer(asked, start)
        tell(transfer, from: start)
        // These bytes arrived before the job knew the transfer.
        if job.wantsBytes.load(ordering: .relaxed), job.received.load(ordering: .relaxed) > 0 {
            engine.report(.bytes, id, job, isDue: true)
        }
    }

    private func makeTransfer(_ asked: TransferRequest, _ start: FetchJob.State.Start) -> any Transfer {
        let inherited = start.inherited
        let receive: @Sendable (TransferEvent) -> Void = { [weak engine, id, job, sources] event in
            guard let engine else { return }
            SourceExchange(engine: engine, id: id, job: job, sources: sources).receive(event, inherited: inherited)
        }
        if let provider = sources.provider { return ProviderTransfer(provider, receive: receive) }
        var request = asked
        request.queue = start.orders.queue
        request.isThrottled = start.orders.isThrottled
        if request.headers["Priority"] == nil {
            request.headers.append(
                "Priority", PriorityField.text(isUrgent: request.queue == .fast, level: lead.request.priority.level))
        }
        // Without a way to the host, a kept connection would wait; a new one fails at once.
        if !engine.canReach(request.url) { request.needsNewConnection = true }
        engine.events.requested(job)
        return engine.transport.start(request, receive: receive)
    }

    /// Tells a transfer what was decided while it was being started. Another thread may be telling it the next decision
    /// at the same time; the latest decision must hold in the end.
    private func tell(_ transfer: any Transfer, from start: FetchJob.State.Start) {
        var told = start.orders
        while let orders = job.withState({ [told] in $0.started(transfer, number: start.number, told: told) }) {
            if orders.isAborted, !told.isAborted { transfer.cancel() }
            if orders.queue != told.queue { transfer.setQueue(orders.queue) }
            if orders.isThrottled != told.isThrottled { transfer.setThrottled(orders.isThrottled) }
            told = orders
        }
    }

    // MARK: Answers

    private func receive(_ event: TransferEvent, inherited: Int) {
        switch event {
        case .progress(let received, let expected):
            job.expected.store(expected ?? -1, ordering: .relaxed)
            job.received.store(received, ordering: .relaxed)
            // The server sends the whole body instead of the rest.
            if received <= inherited { job.besides.store(inherited, ordering: .relaxed) }
            engine.hold(received + job.besides.load(ordering: .relaxed), for: job)
            if job.wantsBytes.load(ordering: .relaxed) { engine.report(.bytes, id, job) }
            if job.wantsProgress.load(ordering: .relaxed) { engine.report(.progress, id, job) }
        case .interrupted(let response):
            keepPartial(of: response)
        case .finished(let result):
            let ended = job.withState { $0.transferEnded() }
            defer { engine.giveBack(after: ended.number, of: job) }
            switch result {
            case .failure(let error):
                failed(error == .cancelled && ended.current?.isLost == true ? .unreachable : error)
            case .success(let response):
                if sources.provider == nil { engine.events.received(response, job) }
                if let current = ended.current { goOn(after: response, current) }
            }
        }
    }

    private func goOn(after response: TransferResponse, _ present: JobExchange) {
        // Joining bodies takes time, so it is not done under the lock. Nothing else changes the attempt meanwhile.
        var current = present
        switch current.attempt.received(response) {
        case .answer(let response):
            answered(response, current)
        case .notModified(let response):
            confirmed(response, current)
        case .again:
            send(current.attempt)
        case .failed(let error):
            failed(error)
        case .redirect(let target, let response):
            redirect(to: target, after: response, current)
        case .challenge(let demand, let response):
            Task { [current] in
                var attempt = current.attempt
                let credentials = lead.request.hooks.credentials
                let authorization = await credentials?.field(.init(url: attempt.url, demand: demand))
                guard let authorization, authorization != attempt.authorization else {
                    return answered(response, current)
                }
                attempt.answerChallenge(authorization)
                send(attempt)
            }
        }
    }

    private func redirect(to target: URL, after response: TransferResponse, _ current: JobExchange) {
        let next = current.attempt.redirected(to: target)
        let hop = RedirectChain.Hop(
            status: response.status, headers: response.headers, requested: current.requested,
            received: engine.now().timeIntervalSince1970)
        @Sendable func follow(_ chosen: TransferRequest) {
            var attempt = current.attempt
            attempt.follow(chosen, proposed: next, after: hop)
            send(attempt)
        }
        guard let handler = lead.request.hooks.redirectHandler else { return follow(next) }
        Task {
            let step = RedirectHandler.Redirection(
                status: response.status, headers: response.headers, count: current.attempt.redirects)
            if let chosen = await handler.decide(step, next) {
                follow(chosen)
            } else {
                answered(response, current)
            }
        }
    }

    // MARK: Partial bodies

    private func keepPartial(of response: TransferResponse) {
        let attempt = job.snapshot.current?.attempt
        let partial = attempt?.left(by: response)
        let isKeepable = attempt.map { mayStore($0) } == true && partial.map { mayKeep($0) } == true
        let (claim, dropped) = job.withState { $0.interrupted(partial, isKeepable: isKeepable) }
        withExtendedLifetime(dropped) {}
        if let partial, let claim { engine.store.disk?.keepPartial(partial, for: job.key, claim: claim) }
    }

    /// Returns whether a partial body may be stored: not if the whole answer must not be stored (RFC 9111, section
    /// 5.2.2.5).
    private func mayKeep(_ partial: PartialBody) -> Bool {
        engine.store.mayKeep(EntryInfo(url: partial.url, headers: partial.headers, stored: 0), lead)
    }

    /// Returns whether the redirects that have led to an attempt's answer let it be stored.
    func mayStore(_ attempt: Attempt) -> Bool {
        attempt.chain.mayStore(ignoresServer: lead.freshness.ignoresServer)
    }
}
