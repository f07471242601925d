extension Engine {
    func leaveSupply(_ make: ObjectWork) {
        if let supply = make.supply { leave(supply, make) }
    }

    func leave(_ supply: BytesWork, _ make: ObjectWork) {
        guard supply.makes.contains(where: { $0 === make }) else { return }
        supply.makes.removeAll { $0 === make }
        settle(supply, in: make.cache)
    }

    func endIdle(_ key: CacheKey, in cache: ObjectCache) {
        cache.state.change(key) { works in
            for supply in works.supplies where supply.makes.isEmpty { settle(supply, in: cache) }
        }
    }

    func attend(_ make: ObjectWork) {
        guard let supply = make.fetch else { return }
        for call in make.allCalls { attend(call, at: supply) }
    }

    /// - Parameter failed: a call for the bytes, of whose answer the object could not be made.
    func fetch(_ make: ObjectWork, after failed: (supply: BytesWork, error: DipperError)? = nil) {
        enter(make, .waiting)
        if let supply = make.supply { return arrived(supply, for: make) }
        let works = works(of: make.origin.key, in: make.cache.state)
        let isRenewal = failed != nil || make.broken != nil
        let origin = isRenewal ? make.origin.renewed(once: failed == nil) : make.origin
        let present = works.supplies.first {
            $0.isCurrent && (!make.keepsBytes || $0.keepsBytes) && $0.origin.isLike(origin)
        }
        let supply = present ?? supply(origin, for: make, after: failed?.supply)
        make.supply = supply
        supply.makes.append(make)
        make.wait(for: supply)
        if let present {
            present.refresh(in: self)
            if present.basis != nil { arrived(present, for: make) }
        } else {
            works.supplies.append(supply)
            start(supply, in: make.cache, after: failed)
        }
        attend(make)
    }

    private func supply(_ origin: Origin, for make: ObjectWork, after failed: BytesWork?) -> BytesWork {
        failed?.hasTold = true
        // The claim comes first: an entry that is removed from now on is not kept.
        let claim = origin.claim ?? origin.source.claim(origin.dataKey, of: origin.request)
        let want = make.wants.highest
        let task =
            origin.following?()
            ?? origin.source.task(
                for: origin.request.with(\.callbackQueue, .inPlace).with(\.priority, want.priority), want.queue,
                keepsOnDisk: make.keepsBytes, isRenewal: origin.isAnew)
        return BytesWork(origin, claim, task, keepsBytes: make.keepsBytes, for: failed?.caller)
    }

    private func start(
        _ supply: BytesWork, in cache: ObjectCache, after failed: (supply: BytesWork, error: DipperError)?
    ) {
        let (task, source) = (supply.task, supply.origin.source)
        task.follow { event, _ in
            switch event {
            case .finished(let response):
                self.post(counting: response.data.count, in: cache.state) {
                    $0.ended(supply, .success(response), in: cache)
                }
            case .failure(let error, isFatal: true): self.post { $0.ended(supply, .failure(error), in: cache) }
            default: self.post { $0.heard(event, of: supply) }
            }
        }
        if let failed {
            source.engine.submit(task, supply.origin.claim, after: (failed.supply.task, failed.error))
        } else if supply.origin.following == nil {
            source.engine.begin(task, supply.origin.claim)
        }
    }

    private func settle(_ supply: BytesWork, in cache: ObjectCache) {
        guard supply.makes.isEmpty else { return supply.refresh(in: self) }
        // A look at the tiers that is under way may still need the bytes.
        if supply.basis == nil, supply.isCurrent, cache.state.isLooking(at: supply.origin.key) { return }
        end(supply, in: cache)
        guard supply.origin.following == nil, supply.basis == nil else { return }
        supply.origin.source.engine.perform { [task = supply.task] in task.cancel(in: $0) }
    }

    private func end(_ supply: BytesWork, in cache: ObjectCache) {
        cache.state.change(supply.origin.key) { works in works.supplies.removeAll { $0 === supply } }
        supply.isClosed = true
        supply.data = nil
        supply.endPreviews()
        stopWaiting(&supply.waiting, in: cache)
        tellEndIfOver(supply, in: cache)
    }

    /// Tells the end of a call for bytes of which nothing is made any more.
    func tellEndIfOver(_ supply: BytesWork, in cache: ObjectCache) {
        guard supply.data == nil, let basis = supply.basis else { return }
        if cache.state.works[supply.origin.key]?.makes.contains(where: { $0.root === supply }) == true { return }
        tellEnd(supply, .success(basis.source))
    }

    /// Counts bytes that wait to be made into an object, and posts their arrival.
    nonisolated func post(
        counting bytes: Int, in state: ObjectCache.State, _ body: @escaping @Loop (Engine) -> Void
    ) {
        if Loop.isCurrent {
            // Before the next fetch begins.
            Loop.run { state.count(bytes) }
            post(body)
        } else {
            post { engine in
                state.count(bytes)
                body(engine)
            }
        }
    }

    func stopWaiting(_ bytes: inout Int, in cache: ObjectCache) { cache.state.count(-exchange(&bytes, with: 0)) }

    func tellEnd(_ make: ObjectWork, _ calls: [ObjectCall], _ result: Result<ResponseSource, DipperError>) {
        if let supply = make.root { return tellEnd(supply, result) }
        if case .failure(let error) = result, error == .cancelled || error == .shutDown { return }
        for call in calls { make.origin.source.events.call(make.origin.dataKey, call.want.queue, result) }
    }

    private func tellEnd(_ supply: BytesWork, _ result: Result<ResponseSource, DipperError>) {
        guard supply.origin.following == nil, !exchange(&supply.hasTold, with: true) else { return }
        supply.origin.source.events.ended(supply.caller, result)
    }

    private func heard(_ news: DataTask.Event, of supply: BytesWork) {
        switch news {
        case .failure(let error, _): supply.failure = error
        case .retry: supply.failure = nil
        default: break
        }
        for call in supply.makes.flatMap(\.allCalls) { call.tell(news) }
    }

    private func ended(_ supply: BytesWork, _ result: Result<DataResponse, DipperError>, in cache: ObjectCache) {
        supply.endPreviews()
        for call in supply.makes.flatMap(\.allCalls) { call.attempts = supply.task.attempts }
        switch result {
        case .success(let response): arrived(response, of: supply, in: cache)
        case .failure(let error):
            tellEnd(supply, .failure(error))
            let isOver = error == .cancelled || error == .shutDown
            for make in supply.makes { fail(make, isOver ? error : make.broken ?? error) }
            end(supply, in: cache)
        }
    }

    private func arrived(_ response: DataResponse, of supply: BytesWork, in cache: ObjectCache) {
        supply.waiting = response.data.count
        supply.data = response.data
        supply.arrival = nextNumber()
        let source = supply.origin.source
        supply.basis = Provenance(
            info: response.info, source: response.source, attempts: response.attempts, metrics: response.metrics,
            asked: response.askedSource,
            revalidation: response.revalidation, claim: supply.claim,
            call: source.events.wants(.objects) ? supply.caller.eventID : nil)
        if !response.source.isAnswer || response.info.isStandIn { supply.isNewest = false }
        if supply.origin.isAnew { supply.isClosed = true }
        // A look at the tiers that is under way finds the bytes in the data cache.
        if supply.makes.isEmpty { return end(supply, in: cache) }
        for make in supply.makes {
            if supply.isClosed { for member in make.family { member.isClosed = true } }
            arrived(supply, for: make)
        }
    }

    private func arrived(_ supply: BytesWork, for make: ObjectWork) {
        guard let data = supply.data, let basis = supply.basis, make.stage == .waiting else { return }
        if make.earlier == nil, let before = make.step.before,
            let parent = joinable(make.origin, before, in: make.cache, keepsBytes: make.keepsBytes)
        {
            return grow(make, from: parent)
        }
        perform(make, .bytes(data, basis, orForm: make.earlier))
    }
}
