import Foundation

/// Attempts: from the start, over redirects and challenges, to the answer that counts.
extension FetchEngine {
    /// Begins an attempt, unless memory has an answer for all waiting tasks by now.
    func transfer(_ id: JobID, _ job: FetchJob, queue: FetchQueue, isThrottled: Bool) {
        unpark(job)
        claim(job)
        let kept = job.withState { state in
            state.queue = queue
            state.isThrottled = isThrottled
            return state.insistsOnNetwork ? nil : state.lead
        }.flatMap { lead in store.kept(for: job.key, lead).map { (lead, $0) } }
        if let (lead, value) = kept {
            // The entry may have come into memory by another way since the call was made. It must do for all waiting
            // tasks.
            let moment = now().timeIntervalSince1970
            let isFresh: @Sendable (DataTask) -> Bool = {
                $0.call.cachePolicy != .ignoreCache && $0.call.use(of: value, at: moment) == .fresh
            }
            let answers = judge(id, isFresh)
            if inspect({ $0.waiters(of: id) }).allSatisfy({ answers($0.id, $0.waiter) }) {
                let place = store.place(of: value, for: lead)
                job.withState { state in
                    state.fetched = DataResponse(value, source: .memory)
                    state.keptPlace = place
                }
                apply { $0.finished(id, answers: answers, into: &$1) }
                return
            }
            let place = store.place(of: value, for: lead)
            job.withState { if $0.found == nil { $0.found = .init(value: value, source: .memory, place: place) } }
        }
        // Without a way to the host no attempt is made, and none is counted.
        guard canReach(job) else { return failed(id, job, .unreachable) }
        let isReading = readPartial(of: job) {
            guard !job.withState({ $0.isAborted }) else { return }
            // The entry may have been removed meanwhile.
            self.claim(job)
            self.begin(id, job)
        }
        if !isReading { begin(id, job) }
    }

    /// Makes the attempt, continuing the partial body if there is one.
    private func begin(_ id: JobID, _ job: FetchJob) {
        let time = time.now()
        let (lead, found) = job.withState { ($0.lead, $0.insistsOnNetwork ? nil : $0.found) }
        // The caller's validation is asked without a lock.
        let stored = found.flatMap { lead.mayConfirm($0.value) ? $0.value : nil }
        let isReady = job.withState { state in
            guard let url = state.sourceURL else { return false }
            state.attempts += 1
            state.progress = Pacing()
            state.previews = Pacing()
            state.isLost = false
            (state.wasThrottled, state.inherited) = (state.isThrottled, state.partial?.bytes.count ?? 0)
            state.budget.run(at: time)
            if state.isThrottled { state.budget.hold(at: time) }
            state.attempt = Attempt(
                url, insteadOf: state.lead.request.url ?? url, headers: state.lead.request.headers,
                hooks: state.lead.request.hooks, maximumRedirects: options.maximumRedirects,
                stored: state.insistsOnNetwork ? nil : stored, partial: state.partial)
            state.sent = state.lead.request.headers
            return true
        }
        guard isReady else { return failed(id, job, .invalidURL) }
        armTimeouts(of: id, job)
        send(id, job)
    }

    /// Gives the attempt the right to keep what it fetches. If the entry has been removed since the last attempt, what
    /// was found and the partial body are dropped, because they belong to the removed entry.
    private func claim(_ job: FetchJob) {
        let fresh = store.history.claim(job.key)
        let history = store.history
        let dropped = job.withState { state -> (Claim?, FetchJob.Found?, PartialBody?) in
            let isRevoked = state.claim?.isRevoked == true
            let isGone = isRevoked || state.found.map({ !history.admits($0.value.info) }) == true
            let found = isGone ? exchange(&state.found, with: nil) : nil
            let partial = isRevoked ? exchange(&state.partial, with: nil) : nil
            if isRevoked { state.isLeftOnDisk = false }
            // A whole entry has been kept since, so nothing older will be part of what is fetched now.
            let isOver = isRevoked || state.claim?.allowsPartial != true
            return (isOver ? exchange(&state.claim, with: fresh) : nil, found, partial)
        }
        withExtendedLifetime(dropped) {}
    }

    /// Sends the attempt's present request, after the caller's hooks have changed it.
    private func send(_ id: JobID, _ job: FetchJob) {
        let (attempt, hooks) = job.withState { ($0.attempt, $0.lead.request.hooks) }
        guard let attempt else { return }
        if job.withState({ $0.provider }) != nil { return start(attempt.request, id, job) }
        if let defect = DataRequest(attempt.url).defect { return failed(id, job, defect) }
        guard canReach(job) else { return failed(id, job, .unreachable) }
        let request = attempt.request
        // A value that was made from a server's answer must not break out of its field.
        guard request.headers.isWellFormed else { return failed(id, job, .invalidHeader) }
        guard hooks.changesRequests else { return start(request, id, job) }
        // The caller's code may wait for something, so it does not run on a thread of the engine.
        Task {
            do throws(DipperError) {
                let request = try await prepare(attempt, hooks, job)
                if !answerAsSent(id, job) { start(request, id, job) }
            } catch {
                failed(id, job, error)
            }
        }
    }

    private func prepare(
        _ attempt: Attempt, _ hooks: RequestHooks, _ job: FetchJob
    ) async throws(DipperError) -> TransferRequest {
        var attempt = attempt
        if attempt.wantsCredentials, attempt.authorization == nil, let credentials = hooks.credentials {
            attempt.authorization = await credentials.field(.init(url: attempt.url, demand: nil))
            job.withState { [authorization = attempt.authorization] in $0.attempt?.authorization = authorization }
        }
        let asked = attempt.request
        var request = asked
        if let modifier = hooks.modifier {
            request = try await modifier.modify(asked)
            request.offset = asked.offset
            // A method must not break out of the request line.
            guard request.method.isHeaderName else { throw .invalidHeader.with(detail: "the method is no token") }
            if let defect = DataRequest(request.url).with(\.headers, request.headers).defect { throw defect }
        }
        attempt.authorization = nil
        let sent = job.withState { [plain = attempt.request.headers, changed = request.headers] state in
            state.sent = state.lead.request.headers.changed(from: plain, to: changed)
            return state.sent
        }
        if let stored = attempt.stored, !stored.info.isChosen(by: sent) {
            // The stored answer is asked about only if it could be used.
            job.withState { $0.attempt?.forgetStored() }
            for field in Validators(stored.info.headers).conditionalFields { request.headers[field.name] = nil }
        }
        return request
    }

    /// Answers the job with the stored answer that the request, as changed by the hooks, chooses, if that answer is
    /// fresh and does for all waiting tasks.
    private func answerAsSent(_ id: JobID, _ job: FetchJob) -> Bool {
        let (lead, found, sent, mayRead) = job.withState { state in
            (state.lead, state.found, state.sent, !state.insistsOnNetwork && state.attempt?.redirects == 0)
        }
        guard mayRead, let found, let variant = found.value.info.variant, !variant.matches(lead.request.headers) else {
            return false
        }
        let place = job.key.variant(variant.selection(for: sent), family: found.value.info.family)
        guard let value = variant.matches(sent) ? found.value : store.memory.value(for: place),
            value.info.isChosen(by: sent)
        else { return false }
        let moment = now().timeIntervalSince1970
        let answers = judge(id) { task in
            task.call.cachePolicy != .ignoreCache && task.call.request.headers == lead.request.headers
                && task.call.accepts(value) && task.call.use(ofChosen: value.info, at: moment) == .fresh
        }
        guard inspect({ $0.waiters(of: id) }).allSatisfy({ answers($0.id, $0.waiter) }) else { return false }
        job.withState { state in
            state.fetched = DataResponse(value, source: found.source)
            state.keptPlace = place
            state.attempt = nil
        }
        apply { $0.finished(id, answers: answers, into: &$1) }
        return true
    }

    private func start(_ request: TransferRequest, _ id: JobID, _ job: FetchJob) {
        var request = request
        let requested = now().timeIntervalSince1970
        let asksForRange = request.headers["Range"] != nil
        let url = request.url
        let provider = job.withState { $0.provider }
        let continues = request.offset > 0
        let begun = job.withState { state -> (number: Int, queue: FetchQueue, isThrottled: Bool, JoinedBody?)? in
            guard !state.isAborted else { return nil }
            let joined = exchange(&state.joined, with: state.partial.map { JoinedBody($0.bytes) })
            state.transferNumber += 1
            job.besides.store(continues ? 0 : state.inherited, ordering: .relaxed)
            state.unreachable = nil
            state.attempt?.sent(to: url)
            state.attempt?.asksForRange = asksForRange
            state.requested = requested
            return (state.transferNumber, state.queue, state.isThrottled, joined)
        }
        guard let begun else { return }
        job.received.store(0, ordering: .relaxed)
        job.expected.store(-1, ordering: .relaxed)
        request.queue = begun.queue
        request.isThrottled = begun.isThrottled
        if request.headers["Priority"] == nil {
            request.headers.append(
                "Priority",
                PriorityField.text(
                    isUrgent: begun.queue == .fast, level: job.withState { $0.lead.request.priority.level }))
        }
        // Without a way to the host, a kept connection would wait; a new one fails at once.
        if !canReach(job) { request.needsNewConnection = true }
        if provider == nil { reporter.requested(job.key) }
        let receive: @Sendable (TransferEvent) -> Void = { [weak self] event in
            self?.receive(event, number: begun.number, id, job)
        }
        let transfer: any Transfer =
            provider.map { ProviderTransfer($0, receive: receive) } ?? transport.start(request, receive: receive)
        // A transfer that has ended holds the job. If the job kept the transfer, neither would ever be released.
        let (isOver, isAborted) = job.withState { state in
            let isOver = state.transferNumber != begun.number
            if !isOver { state.transfer = transfer }
            return (isOver, state.isAborted)
        }
        if isOver { return }
        if isAborted { transfer.cancel() }
        catchUp(transfer, job, queue: begun.queue, isThrottled: begun.isThrottled)
        // These bytes arrived before the job knew the transfer.
        if job.wantsBytes.load(ordering: .relaxed), job.received.load(ordering: .relaxed) > 0 { showBytes(id, job) }
    }

    /// Tells a transfer what was decided while it was being started. Another thread may be telling it the next decision
    /// at the same time; the latest decision must hold in the end.
    private func catchUp(_ transfer: any Transfer, _ job: FetchJob, queue: FetchQueue, isThrottled: Bool) {
        var told = (queue: queue, isThrottled: isThrottled)
        while true {
            let decided = job.withState { (queue: $0.queue, isThrottled: $0.isThrottled) }
            if decided == told { return }
            if decided.queue != told.queue { transfer.setQueue(decided.queue) }
            if decided.isThrottled != told.isThrottled { transfer.setThrottled(decided.isThrottled) }
            told = decided
        }
    }

    // MARK: Answers

    private func receive(_ event: TransferEvent, number: Int, _ id: JobID, _ job: FetchJob) {
        switch event {
        case .progress(let received, let expected):
            job.expected.store(expected ?? -1, ordering: .relaxed)
            job.received.store(received, ordering: .relaxed)
            let inherited = job.withState { $0.inherited }
            // The server sends the whole body instead of the rest.
            if received <= inherited { job.besides.store(inherited, ordering: .relaxed) }
            hold(received + job.besides.load(ordering: .relaxed), for: job)
            if job.wantsBytes.load(ordering: .relaxed) { showBytes(id, job) }
            if job.wantsProgress.load(ordering: .relaxed) { report(id, job) }
        case .interrupted(let response):
            keepPartial(of: response, job)
        case .finished(let result):
            let number = job.withState { state in
                state.transfer = nil
                state.transferNumber += 1
                return state.transferNumber
            }
            defer { giveBack(after: number, of: job) }
            switch result {
            case .failure(let error):
                failed(id, job, error == .cancelled && job.withState { $0.isLost } ? .unreachable : error)
            case .success(let response):
                if job.withState({ $0.provider }) == nil { reporter.received(response, job.key) }
                goOn(after: response, id, job)
            }
        }
    }

    /// Counts the bytes that a job's transfer holds, and those that an earlier one has left for it.
    func hold(_ bytes: Int, for job: FetchJob) {
        let change = bytes - job.held.exchange(bytes, ordering: .relaxed)
        guard change != 0, let notice = bodies.take(change) else { return }
        apply { $0.budgetChanged(notice, into: &$1) }
    }

    /// Counts the bytes of a transfer that has ended as given back, unless the job holds bytes for its next transfer by
    /// now.
    /// - Parameter number: the job's number of transfers when the transfer had ended.
    private func giveBack(after number: Int, of job: FetchJob) {
        let bytes = job.withState { state in
            state.transferNumber == number ? job.held.exchange(0, ordering: .relaxed) : 0
        }
        guard bytes != 0, let notice = bodies.take(-bytes) else { return }
        apply { $0.budgetChanged(notice, into: &$1) }
    }

    private func goOn(after response: TransferResponse, _ id: JobID, _ job: FetchJob) {
        let (present, hooks) = job.withState { ($0.attempt, $0.lead.request.hooks) }
        guard var attempt = present else { return }
        // Joining bodies takes time, so it is not done under the lock. Nothing else changes the attempt meanwhile.
        let step = attempt.received(response)
        job.withState { [attempt] in $0.attempt = attempt }
        switch step {
        case .answer(let response):
            answered(id, job, response, redirects: attempt.redirects)
        case .notModified(let response):
            confirmed(id, job, response)
        case .again:
            send(id, job)
        case .failed(let error):
            failed(id, job, error)
        case .redirect(let target, let response):
            redirect(to: target, after: response, attempt, hooks, id, job)
        case .challenge(let demand, let response):
            Task {
                let authorization = await hooks.credentials?.field(.init(url: attempt.url, demand: demand))
                guard let authorization, authorization != attempt.authorization else {
                    answered(id, job, response, redirects: attempt.redirects)
                    return
                }
                job.withState { $0.attempt?.answerChallenge(authorization) }
                send(id, job)
            }
        }
    }

    private func redirect(
        to target: URL, after response: TransferResponse, _ attempt: Attempt, _ hooks: RequestHooks, _ id: JobID,
        _ job: FetchJob
    ) {
        let next = attempt.redirected(to: target)
        let hop = RedirectChain.Hop(
            status: response.status, headers: response.headers, requested: job.withState { $0.requested },
            received: now().timeIntervalSince1970)
        guard let handler = hooks.redirectHandler else {
            job.withState { $0.attempt?.follow(next, proposed: next, after: hop) }
            return send(id, job)
        }
        Task {
            let step = RedirectHandler.Redirection(
                status: response.status, headers: response.headers, count: attempt.redirects)
            if let chosen = await handler.decide(step, next) {
                job.withState { $0.attempt?.follow(chosen, proposed: next, after: hop) }
                send(id, job)
            } else {
                answered(id, job, response, redirects: attempt.redirects)
            }
        }
    }

    // MARK: Partial bodies

    private func keepPartial(of response: TransferResponse, _ job: FetchJob) {
        let (attempt, call, claim) = job.withState { ($0.attempt, $0.lead, $0.claim) }
        let partial = attempt?.left(by: response)
        let chain = attempt?.chain ?? RedirectChain()
        let isKeepable =
            chain.mayStore(ignoresServer: call.freshness.ignoresServer) && (partial.map { mayKeep($0, call) } ?? false)
        let onDisk = job.withState { state in
            state.partial = partial
            let onDisk = state.keepsOnDisk && isKeepable
            if onDisk { state.hasPartialOnDisk = true }
            return onDisk
        }
        if onDisk, let partial, let claim { store.disk?.keepPartial(partial, for: job.key, claim: claim) }
    }

    /// Returns whether a partial body may be stored: not if the whole answer must not be stored (RFC 9111, section
    /// 5.2.2.5).
    private func mayKeep(_ partial: PartialBody, _ call: Call) -> Bool {
        store.mayKeep(EntryInfo(url: partial.url, headers: partial.headers, stored: 0), call)
    }

    func dropPartial(of job: FetchJob) {
        let wasOnDisk = job.withState { state in
            state.partial = nil
            return exchange(&state.hasPartialOnDisk, with: false)
        }
        if wasOnDisk { store.disk?.dropPartial(of: job.key) }
    }
}
