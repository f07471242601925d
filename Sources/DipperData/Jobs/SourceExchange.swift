import Foundation

/// The part of the engine that talks to one source: an attempt from its beginning, over hooks, redirects and
/// challenges, to the answer that counts or the failure.
struct SourceExchange: Sendable {
    let engine: FetchEngine
    let id: JobID
    let job: FetchJob
    /// The sources of the job, of which the present one is asked.
    let sources: JobSources

    /// The call whose URL, header fields and hooks count.
    var lead: Call { sources.lead }

    func failed(_ error: DipperError) { FailureJudge(engine: engine, id: id, job: job).failed(error) }

    /// Makes an attempt, continuing the partial body if there is one.
    static func begin(_ engine: FetchEngine, _ id: JobID, _ job: FetchJob) {
        let (state, time) = (job.snapshot, engine.time.now())
        let exchange = SourceExchange(engine: engine, id: id, job: job, sources: state.sources)
        let lead = exchange.lead
        // The caller's validation is asked without a lock.
        let stored = state.confirmable.flatMap { lead.mayConfirm($0.value) ? $0.value : nil }
        let begun = job.withState { [maximumRedirects = engine.options.maximumRedirects] in
            $0.begin(confirming: stored, maximumRedirects: maximumRedirects, at: time)
        }
        guard let begun else { return exchange.failed(.invalidURL) }
        if let spent = begun.limited {
            for (id, task) in engine.inspect({ $0.waiters(of: id) }) {
                engine.armTimeout(of: id, task, job, spent: spent)
            }
        }
        exchange.send(begun.attempt)
    }

    /// Sends an attempt's present request, after the caller's hooks have changed it.
    func send(_ attempt: Attempt) {
        guard job.withState({ $0.goOn(with: attempt) }) else { return }
        if sources.provider != nil { return start(attempt.request, of: attempt) }
        if let defect = DataRequest(attempt.url).defect { return failed(defect) }
        guard engine.canReach(attempt.sentURL) else { return failed(.unreachable) }
        let request = attempt.request
        // A value that was made from a server's answer must not break out of its field.
        guard request.headers.isWellFormed else { return failed(.invalidHeader) }
        guard lead.request.hooks.changesRequests else { return start(request, of: attempt) }
        // The caller's code may wait for something, so it does not run on a thread of the engine.
        Task {
            do throws(DipperError) {
                let prepared = try await prepare(attempt)
                if prepared.attempt.redirects == 0, let found = job.snapshot.confirmable,
                    answer(with: found, asSent: prepared.sent)
                {
                    return
                }
                start(prepared.request, of: prepared.attempt, sent: prepared.sent)
            } catch {
                failed(error)
            }
        }
    }

    /// Returns a request as the caller's hooks have changed it, the attempt that it belongs to, and the caller's header
    /// fields, changed likewise.
    private func prepare(
        _ present: Attempt
    ) async throws(DipperError) -> (request: TransferRequest, attempt: Attempt, sent: HTTPHeaders) {
        var attempt = present
        let hooks = lead.request.hooks
        if attempt.wantsCredentials, attempt.authorization == nil, let credentials = hooks.credentials {
            attempt.authorization = await credentials.field(.init(url: attempt.url, demand: nil))
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
        var plain = attempt
        plain.authorization = nil
        let sent = lead.request.headers.changed(from: plain.request.headers, to: request.headers)
        if let stored = attempt.stored, !stored.info.isChosen(by: sent) {
            // The stored answer is asked about only if it could be used.
            attempt.forgetStored()
            for field in Validators(stored.info.headers).conditionalFields { request.headers[field.name] = nil }
        }
        return (request, attempt, sent)
    }

    /// Answers the job with the stored answer that the request, as changed by the hooks, chooses, if that answer is
    /// fresh and does for all waiting tasks.
    private func answer(with found: FetchJob.Found, asSent sent: HTTPHeaders) -> Bool {
        guard let variant = found.value.info.variant, !variant.matches(lead.request.headers) else { return false }
        let place = job.key.variant(variant.selection(for: sent), family: found.value.info.family)
        guard let value = variant.matches(sent) ? found.value : engine.store.memory.value(for: place),
            value.info.isChosen(by: sent)
        else { return false }
        let moment = engine.now().timeIntervalSince1970
        let answers = engine.judgeAll(id) { [lead] task in
            task.call.cachePolicy != .ignoreCache && task.call.request.headers == lead.request.headers
                && task.call.accepts(value) && task.call.use(ofChosen: value.info, at: moment) == .fresh
        }
        guard let answers else { return false }
        engine.tell(job, .found(.init(value: value, source: found.source, place: place), isAnswer: true))
        engine.events.answered(job, found.source)
        engine.apply { $0.finished(id, answers: answers, into: &$1) }
        return true
    }
}
