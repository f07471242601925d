/// The maker of a call for bytes: the task of a program, or the work that makes an object of them.
protocol BytesCaller: AnyObject, Sendable {
    var call: Call { get }
    /// The queue and the priority that the call begins with.
    var requestedQueue: FetchQueue { get }
    var priority: Priority { get }
    var eventID: CacheEvent.ID { get }

    /// The call waits from now on.
    func attach(_ waiter: Waiter)
    /// The call waits no longer.
    func detach(in queue: FetchQueue, attempts: Int)
    /// The end. May be called on any thread.
    func finish(_ result: Result<DataResponse, DipperError>, in engine: Engine)

    @Loop var wantsProgress: Bool { get }
    @Loop func hear(_ news: DataTask.Event)
    /// Some of a long body has arrived, and much of it is still to come.
    @Loop func bodyArrives()
    /// The fetch asks a URL in place of the key's, as after a redirect.
    @Loop func asks(_ address: String)
    /// Whether the caller may call once more, because it can make nothing of an answer.
    var mayComeBack: Bool { get }
    var isUndecided: Bool { get }
    func turnToSubstitute()
}

extension BytesCaller {
    @Loop func asks(_ address: String) {}
    var mayComeBack: Bool { false }
    var isUndecided: Bool { false }
    func turnToSubstitute() {}
    @Loop func bodyArrives() {}
}

/// The begin of a call: memory answers it on the caller's thread, or it joins a fetch.
extension BytesCaller {
    @inline(__always)
    func begin(in engine: Engine, _ claim: Claim?, orEnd error: DipperError? = nil) {
        engine.events.began(self)
        guard let error = engine.options.defect(of: call.request) ?? error else { return enter(engine, claim) }
        finish(.failure(error), in: engine)
    }

    @inline(__always)
    private func enter(_ engine: Engine, _ claim: Claim?) {
        let (call, store) = (call, engine.store)
        if !call.insistsOnNetwork, let found = store.kept(for: call), isAnswered(by: found, in: engine) { return }
        guard call.looksUp(in: store) || call.mayFetch else {
            return finish(.failure(.notCached.about(call.key)), in: engine)
        }
        // What the program adds or removes from now on is newer, also while the call is on its way to the loop.
        let isAnew = claim == nil && call.cachePolicy == .ignoreCache
        submit(to: engine, isAnew ? store.history.claim(call.key, of: call.plainKey?.value) : claim)
    }

    /// Ends the call with an entry in memory.
    /// - Returns: `false`, and the call goes on, if the entry does not answer it.
    @inline(__always)
    private func isAnswered(by found: FoundEntry, in engine: Engine) -> Bool {
        let (call, info) = (call, found.value.info)
        guard call.accepts(found.value) else { return false }
        let isTimeless = info.freshness.until == .infinity && call.request.headers.isEmpty
        let now = isTimeless ? 0 : engine.now().timeIntervalSince1970
        switch call.use(ofAccepted: info, at: now) {
        case .fresh:
            finish(.success(DataResponse(found.value, source: .memory)), kept: found.place ?? call.key, in: engine)
        case .staleWhileRevalidating where call.mayFetch:
            end(withOld: found, in: engine)
        case .staleWhileRevalidating, .stale, .revalidate:
            guard call.isAnswered(byAccepted: info, at: now) else { return false }
            finish(.success(DataResponse(found.value, source: .stale)), kept: found.place ?? call.key, in: engine)
        }
        return true
    }

    private func end(withOld found: FoundEntry, in engine: Engine) {
        let (newer, waiter) = engine.renewal(call)
        engine.events.trace { $0.joined(newer.eventID, by: eventID) }
        if let waiter {
            // An entry that is removed before the loop takes the call is not brought back.
            let claim = engine.store.history.claim(call.key, of: call.plainKey?.value)
            if !engine.post({ waiter.join(reads: false, claim, found: found) }) { newer.refuse(in: engine) }
        }
        let response = DataResponse(found.value, source: .stale, revalidation: newer)
        finish(.success(response), kept: found.place ?? call.key, in: engine)
    }

    /// Starts a call that memory could not answer. It ends even if the engine has been shut down.
    private func submit(to engine: Engine, _ claim: Claim?) {
        let waiter = Waiter(self, claim, in: engine)
        attach(waiter)
        if Loop.isCurrent { return engine.run { _ in waiter.join() } }
        if !engine.post(waits: false, { waiter.join() }) { refuse(in: engine) }
    }

    /// Starts a call in place of an earlier one, of whose answer the caller could make nothing. It goes on as after any
    /// other failed attempt.
    @Loop
    func submit(to engine: Engine, _ claim: Claim, after failed: (waiter: Waiter?, error: DipperError)) {
        let waiter = Waiter(self, claim, in: engine)
        attach(waiter)
        engine.run { _ in waiter.join(after: failed) }
    }

    func refuse(in engine: Engine) {
        detach(in: requestedQueue, attempts: 0)
        finish(.failure(engine.refusal), in: engine)
    }
}

/// The end of a call.
extension BytesCaller {
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
            return engine.store.settle(place, call, whenDone: finish)
        }
        write.whenEnded(finish)
    }
}
