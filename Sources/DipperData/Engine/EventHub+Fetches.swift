extension EventHub {
    // MARK: Calls

    @inline(__always)
    func began(_ caller: some BytesCaller) {
        tell(.calls, caller.call.key, caller.eventID, .callBegan(caller.requestedQueue))
    }

    @Loop func joined(_ waiter: Waiter, _ fetch: Fetch) {
        tell(.calls, waiter.call.key, waiter.eventID, .callJoined(fetch: fetch.identity.id))
    }

    @inline(__always)
    func ended(_ caller: some BytesCaller, _ result: Result<ResponseSource, DipperError>) {
        callEnded(caller.call.key, caller.eventID, result)
    }
}

@Loop
extension EventHub {
    func tell(_ fetch: Fetch, _ kind: @autoclosure () -> CacheEvent.Kind) {
        tell(.fetches, fetch.key, fetch.identity.id, kind())
    }

    func leftNetwork(_ fetch: Fetch, _ kind: @autoclosure () -> CacheEvent.Kind) {
        endAttempt(fetch, .stopped)
        tell(fetch, kind())
    }

    func looking(_ fetch: Fetch) {
        guard wants(.lookUps), fetch.knownFindings?.lookUpEvents == nil else { return }
        let id = CacheEvent.ID.next()
        fetch.findings.lookUpEvents = id
        tell(.lookUps, fetch.key, id, of: fetch.identity.id, .lookUpBegan(fetch.queue))
    }

    func lookedUp(_ fetch: Fetch, _ source: ResponseSource?) {
        guard let known = fetch.knownFindings, let id = exchange(&known.lookUpEvents, with: nil) else { return }
        tell(.lookUps, fetch.key, id, of: fetch.identity.id, .lookUpEnded(source))
    }

    // MARK: Attempts

    func transferring(_ fetch: Fetch) {
        endAttempt(fetch, .stopped)
        guard wants(.attempts) else { return }
        let id = CacheEvent.ID.next()
        fetch.findings.attemptEvents = id
        tell(.attempts, fetch.key, id, of: fetch.identity.id, .attemptBegan(fetch.queue))
    }

    func requested(_ fetch: Fetch) {
        counts.requested()
        tell(.requests, fetch.key, fetch.findings.attemptEvents, of: fetch.identity.id, .requested)
    }

    func sends(_ request: inout TransferRequest, _ fetch: Fetch) {
        guard let id = fetch.findings.attemptEvents else { return }
        trace { $0.sends(&request, in: id) }
    }

    func received(_ response: TransferResponse, _ fetch: Fetch) {
        counts.received(response)
        tell(
            .requests, fetch.key, fetch.findings.attemptEvents, of: fetch.identity.id,
            .received(status: response.status, bytes: response.body.count, metrics: response.metrics))
    }

    func endAttempt(_ fetch: Fetch, _ end: CacheEvent.AttemptEnd) {
        guard let known = fetch.knownFindings, let id = exchange(&known.attemptEvents, with: nil) else { return }
        tell(.attempts, fetch.key, id, of: fetch.identity.id, .attemptEnded(end))
    }

    func failed(_ fetch: Fetch, _ error: DipperError, willRetry: Bool) {
        let id = exchange(&fetch.findings.attemptEvents, with: nil)
        // The attempt has brought an answer, of which nothing could be made: the decode has told that.
        if id == nil, wants(.attempts) { return }
        tell(
            [.attempts, .failures], fetch.key, id, of: fetch.identity.id,
            .attemptEnded(.failed(error, willRetry: willRetry)))
    }
}
