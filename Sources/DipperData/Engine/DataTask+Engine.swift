/// The begin of a call: memory answers it on the caller's thread, or it joins a fetch.
extension DataTask {
    @inline(__always)
    func start(in engine: Engine, _ claim: Claim? = nil) {
        // If the disk may have the larger source, a reader's thread finds out; see `lookedUp`.
        if isUndecided, !engine.store.memory.contains(key), !call.looksUp(in: engine.store) { turnToSubstitute() }
        begin(in: engine, claim, orEnd: engine.isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    @inline(__always)
    func begin(in engine: Engine, _ claim: Claim?, orEnd error: DipperError? = nil) {
        engine.events.began(self)
        guard let error = engine.defect(of: call.request) ?? error else { return enter(engine, claim) }
        finish(.failure(error), in: engine)
    }

    @inline(__always)
    private func enter(_ engine: Engine, _ claim: Claim?) {
        let (call, store) = (call, engine.store)
        if !call.insistsOnNetwork, let found = store.kept(for: call), isAnswered(by: found, in: engine) { return }
        guard call.looksUp(in: store) || call.mayFetch else {
            return finish(.failure(.notCached.about(key)), in: engine)
        }
        // What the program adds or removes from now on is newer, also while the call is on its way to the loop.
        let isAnew = claim == nil && call.cachePolicy == .ignoreCache
        submit(to: engine, isAnew ? store.history.claim(key, of: call.request.plainKey) : claim)
    }

    /// Ends the task with an entry in memory.
    /// - Returns: `false`, and the task goes on, if the entry does not answer the call.
    @inline(__always)
    private func isAnswered(by found: FoundEntry, in engine: Engine) -> Bool {
        let (call, info) = (call, found.value.info)
        guard call.accepts(found.value) else { return false }
        let isTimeless = info.freshness.until == .infinity && call.request.headers.isEmpty
        let now = isTimeless ? 0 : engine.now().timeIntervalSince1970
        switch call.use(ofAccepted: info, at: now) {
        case .fresh:
            finish(.success(DataResponse(found.value, source: .memory)), kept: found.place ?? key, in: engine)
        case .staleWhileRevalidating where call.mayFetch:
            end(withOld: found, in: engine)
        case .staleWhileRevalidating, .stale, .revalidate:
            guard call.isAnswered(byAccepted: info, at: now) else { return false }
            finish(.success(DataResponse(found.value, source: .stale)), kept: found.place ?? key, in: engine)
        }
        return true
    }

    private func end(withOld found: FoundEntry, in engine: Engine) {
        let (newer, isNew) = engine.renewal(call)
        if isNew {
            // An entry that is removed before the loop takes the call is not brought back.
            let claim = engine.store.history.claim(key, of: call.request.plainKey)
            if !engine.post({ newer.join(engine, claim, reads: false, found: found) }) { newer.refuse(in: engine) }
        }
        let response = DataResponse(found.value, source: .stale, revalidation: newer)
        finish(.success(response), kept: found.place ?? key, in: engine)
    }

    /// Starts a call that memory could not answer. Its task ends even if the engine has been shut down.
    func submit(to engine: Engine, _ claim: Claim? = nil) {
        attach(self, to: engine)
        if Loop.isCurrent { return engine.run { join($0, claim) } }
        if !engine.post(waits: false, { self.join(engine, claim) }) { refuse(in: engine) }
    }

    /// Starts a call in place of an earlier one, of whose answer the caller could make nothing. It goes on as after any
    /// other failed attempt.
    @Loop
    func submit(to engine: Engine, _ claim: Claim, after failed: (task: DataTask, error: DipperError)) {
        attach(self, to: engine)
        engine.run { join($0, claim, after: failed) }
    }

    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - found: the entry in the tiers, if they have been asked before.
    ///   - claim: the right to keep the answer, claimed before the tiers were asked.
    @Loop
    func join(
        _ engine: Engine, _ claim: Claim? = nil, reads: Bool? = nil, found: FoundEntry? = nil,
        after failed: (task: DataTask, error: DipperError)? = nil
    ) {
        if engine.isClosed { return refuse(in: engine) }
        if isGivenUp {
            detach(in: requestedQueue, attempts: 0)
            return finish(.failure(.cancelled), in: engine)
        }
        begin(reads: reads ?? call.looksUp(in: engine.store))
        engine.enroll(self, claim?.isOutdated == true ? nil : found, claim, after: failed)
        engine.reconsider()
    }

    private func refuse(in engine: Engine) {
        withFeed { $0.detach(in: requestedQueue, attempts: 0) }
        finish(.failure(engine.refusal), in: engine)
    }
}

/// The end of a call.
extension DataTask {
    /// - Parameter place: the key of the entry in the tiers.
    @inline(__always)
    func finish(
        _ result: Result<DataResponse, DipperError>, kept place: @autoclosure () -> CacheKey,
        _ write: PendingWrite? = nil, in engine: Engine
    ) {
        guard call.request.waitsForDiskWrite, case .success = result else { return finish(result, in: engine) }
        wait(toFinish: result, place(), write, in: engine)
    }

    private func wait(
        toFinish result: Result<DataResponse, DipperError>, _ place: CacheKey, _ write: PendingWrite?, in engine: Engine
    ) {
        let call = call
        call.pending.begin()
        let finish: @Sendable (Bool) -> Void = { isOnDisk in
            self.finish(isOnDisk || !call.mustBeDurable ? result : .failure(.notWritten), in: engine)
            call.pending.end()
        }
        guard let write else {
            return engine.store.settle(place, call, call.mustBeDurable ? .durable : .relaxed, whenDone: finish)
        }
        write.whenEnded(finish)
    }

    func finish(_ result: Result<DataResponse, DipperError>, in engine: Engine) {
        if isRevalidation {
            let dropped = engine.revalidations.withLock { $0.forget(self) }
            withExtendedLifetime(dropped) {}
        }
        if tellsEnd { engine.events.ended(self, result.map(\.source)) }
        end(result)
    }
}
