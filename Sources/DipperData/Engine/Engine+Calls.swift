import Foundation

/// The begin of a call: memory answers it on the caller's thread, or it joins a fetch.
extension Engine {
    @inline(__always)
    nonisolated func start(_ task: DataTask, _ claim: Claim? = nil) {
        // If the disk may have the larger source, a reader's thread finds out; see `lookedUp`.
        if task.isUndecided, !store.memory.contains(task.key), !task.call.looksUp(in: store) {
            task.turnToSubstitute()
        }
        begin(task, claim, orEnd: isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    @inline(__always)
    nonisolated func begin(_ task: DataTask, _ claim: Claim?, orEnd error: DipperError? = nil) {
        events.began(task)
        guard let error = defect(of: task.call.request) ?? error else { return enter(task, claim) }
        finish(task, .failure(error))
    }

    @inline(__always)
    nonisolated func defect(of request: DataRequest) -> DipperError? {
        if !options.readsFileURLs, let provider = request.provider, !reads(provider) {
            return .unsupportedScheme.with(detail: "file")
        }
        return request.defect
    }

    /// A provider is not asked if it stands for the URL of a file, and such files are not read.
    nonisolated func reads(_ provider: any DataProvider) -> Bool {
        options.readsFileURLs || (provider as? FileProvider)?.isOfURL != true
    }

    @inline(__always)
    private nonisolated func enter(_ task: DataTask, _ claim: Claim?) {
        let call = task.call
        if !call.insistsOnNetwork, let found = store.kept(for: call), answer(task, with: found) { return }
        guard call.looksUp(in: store) || call.mayFetch else {
            return finish(task, .failure(.notCached.about(task.key)))
        }
        // What the program adds or removes from now on is newer, also while the call is on its way to the engine.
        let isAnew = claim == nil && call.cachePolicy == .ignoreCache
        submit(task, isAnew ? store.history.claim(task.key, of: call.request.plainKey) : claim)
    }

    /// - Returns: `false`, and the task goes on, if the entry does not answer the call.
    @inline(__always)
    private nonisolated func answer(_ task: DataTask, with found: FoundEntry) -> Bool {
        let (call, info) = (task.call, found.value.info)
        guard call.accepts(found.value) else { return false }
        let isTimeless = info.freshness.until == .infinity && call.request.headers.isEmpty
        let now = isTimeless ? 0 : now().timeIntervalSince1970
        switch call.use(ofAccepted: info, at: now) {
        case .fresh:
            finish(task, .success(DataResponse(found.value, source: .memory)), kept: found.place ?? task.key)
        case .staleWhileRevalidating where call.mayFetch:
            answer(task, withOld: found)
        case .staleWhileRevalidating, .stale, .revalidate:
            guard call.isAnswered(byAccepted: info, at: now) else { return false }
            finish(task, .success(DataResponse(found.value, source: .stale)), kept: found.place ?? task.key)
        }
        return true
    }

    /// Starts a call that memory could not answer. Its task ends even if the engine has been shut down.
    /// - Parameter failed: an earlier call, of whose answer the caller could make nothing. The new call goes on as after
    ///   any other failed attempt.
    nonisolated func submit(
        _ task: DataTask, _ claim: Claim? = nil, after failed: (task: DataTask, error: DipperError)? = nil
    ) {
        task.attach(task, to: self)
        if loop.isCurrent { return run { $0.take(task, claim, after: failed) } }
        if !post(waits: false, { $0.take(task, claim, after: failed) }) { refuse(task) }
    }

    /// - Parameters:
    ///   - reads: whether the disk may answer; `nil` if the call decides.
    ///   - found: the entry in the tiers, if they have been asked before.
    ///   - claim: the right to keep the answer, claimed before the tiers were asked.
    func take(
        _ task: DataTask, _ claim: Claim? = nil, reads: Bool? = nil, found: FoundEntry? = nil,
        after failed: (task: DataTask, error: DipperError)? = nil
    ) {
        if isClosed { return refuse(task) }
        if task.isGivenUp {
            task.detach(in: task.requestedQueue, attempts: 0)
            return finish(task, .failure(.cancelled))
        }
        task.begin(reads: reads ?? task.call.looksUp(in: store))
        enroll(task, claim?.isOutdated == true ? nil : found, claim, after: failed)
        reconsider()
    }

    nonisolated func refuse(_ task: DataTask) {
        task.detach(in: task.requestedQueue, attempts: 0)
        finish(task, .failure(refusal))
    }

    /// Why the engine takes no call.
    nonisolated var refusal: DipperError { isShutDown.load(ordering: .acquiring) ? .shutDown : .noThread }

    private func enroll(
        _ waiter: DataTask, _ found: FoundEntry? = nil, _ claim: Claim? = nil,
        after failed: (task: DataTask, error: DipperError)? = nil
    ) {
        let call = waiter.call
        // mutant Dedup: `fetches[call.key], present` => `fetches[call.key], false, present`
        // mutant Removal: `, present.isCurrent {` => ` {`
        if let present = fetches[call.key], present.isCurrent {
            present.knownFindings?.forgetOutdated()
            if let claim { present.findings.claim(claim) }
            add(waiter, to: present, found)
            join(present, waiter)
        } else {
            let fetch = Fetch(call, waiter.wait.want)
            events.tell(fetch, .fetchBegan(fetch.queue))
            if let old = fetches.updateValue(fetch, forKey: call.key) {
                others[call.key, default: [:]][ObjectIdentifier(old)] = old
            }
            if let alias = fetch.alias { others[alias, default: [:]][ObjectIdentifier(fetch)] = fetch }
            if let claim { fetch.findings.claim(claim) }
            add(waiter, to: fetch, found)
            guard let failed else { return enter(fetch) }
            fetch.goOn(for: waiter, after: failed.task)
            self.failed(fetch, failed.error)
        }
    }

    private func add(_ waiter: DataTask, to fetch: Fetch, _ found: FoundEntry?) {
        fetch.add(waiter)
        if let found { fetch.findings.find(found) }
        events.joined(waiter, fetch)
        if waiter.wantsProgress { fetch.wanted.insert(.progress) }
        if waiter.viewer != nil { fetch.wanted.insert(.bytes) }
    }

    private func join(_ fetch: Fetch, _ waiter: DataTask) {
        if fetch.lookUpState == .missed, !waiter.wait.fetches {
            return end(waiter, .failure(.notCached.about(waiter.key)))
        }
        if fetch.place == .parked, let failure = fetch.failure { waiter.hear(.failure(failure, isFatal: false)) }
        if let spent = fetch.knownFindings?.budget.sinceStart(at: time.now()) { armTimeout(of: waiter, spent: spent) }
        settle(fetch)
        if waiter.wait.reads, fetch.lookUpState == .notDone { lookUp(fetch) }
        if fetch.knownFindings?.offline != nil { permissionChanged(of: fetch) }
        // mutant QueueTests: `if waiter.wait.want.queue == .fast {` => `if waiter.wait.want.queue == .slow {`
        if waiter.wait.want.queue == .fast { endBackOff(of: fetch) }
    }

    func enter(_ fetch: Fetch) {
        if fetch.lookUpState == .notDone, fetch.isRead {
            queues.look(fetch)
            lookUp(fetch)
        } else if !recallFromMemory(for: fetch) {
            enqueue(fetch)
        }
    }

    func enqueue(_ fetch: Fetch) {
        queues.setLevel(fetch.wants.highest.level, of: fetch)
        queues.enqueue(fetch)
        events.leftNetwork(fetch, .queued(fetch.queue))
        reconsider()
    }

    func turnToSubstitutes(_ fetch: Fetch) {
        for waiter in fetch.waiters where waiter.isUndecided {
            fetch.remove(waiter)
            waiter.turnToSubstitute()
            waiter.wait.reads = waiter.call.looksUp(in: store)
            waiter.wait.fetches = waiter.call.mayFetch
            enroll(waiter)
        }
    }
}

/// Changes of calls under way, of the queues, and of what holds them back.
extension Engine {
    func cancel(_ task: DataTask) {
        if task.wait.fetch == nil { task.isGivenUp = true } else { end(task, .failure(.cancelled)) }
    }

    func cancel(_ key: CacheKey, andOthers: Bool) {
        for waiter in waiters(for: key, andOthers: andOthers) { end(waiter, .failure(.cancelled)) }
    }

    func cancelAll() {
        let all = Array(fetches.values) + others.values.flatMap(\.values)
        for fetch in all { for waiter in fetch.waiters { end(waiter, .failure(.cancelled)) } }
        if all.count > 10_000 { workers.async { KernelMemoryPressure.giveBackFreeMemory() } }
    }

    func demote(_ key: CacheKey, andOthers: Bool) {
        // mutant QueueTests: `{ move(waiter, to: .slow) }` => `{ _ = waiter }`
        for waiter in waiters(for: key, andOthers: andOthers) { move(waiter, to: .slow) }
    }

    /// Returns the calls for a key; if it is that of a URL, `andOthers` those with header fields or a key of their own.
    private func waiters(for key: CacheKey, andOthers: Bool) -> [DataTask] {
        let all: [Fetch] = (fetches[key].map { [$0] } ?? []) + (others[key].map { Array($0.values) } ?? [])
        return all.flatMap { $0.waiters.filter { $0.call.key == key || andOthers && $0.call.request.plainKey == key } }
    }

    func move(_ waiter: DataTask, to queue: FetchQueue) {
        guard waiter.wait.want.queue != queue, let fetch = waiter.wait.fetch else { return }
        fetch.change(waiter, to: Urgency(queue: queue, level: waiter.wait.want.level))
        settle(fetch)
        if queue == .fast { endBackOff(of: fetch) }
    }

    func setPriority(_ priority: Priority, of task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.change(task, to: Urgency(task.wait.want.queue, priority))
        settle(fetch)
    }

    func configure(_ queue: FetchQueue, _ configuration: QueueConfiguration) {
        queues.configure(queue, configuration)
        permissionsChanged()
        holdingChanged()
    }

    func reserve() { queues.reserve(.fast) }
    func release() {
        queues.release(.fast)
        reconsider()
    }

    func storageBacklogChanged() {
        queues.setBacklog(store.disk?.backlog ?? .none)
        reconsider()
    }

    func hold(_ queue: FetchQueue?, by holder: ObjectIdentifier) {
        queues.hold(queue, by: holder)
        holdingChanged()
    }

    func holdingChanged() {
        store.readers?.allow(downTo: queues.looksDownTo.map { $0 == .fast ? .urgent : .background })
        reconsider()
    }

    func account<Result>(_ change: (inout BodyBudget) -> Result) -> Result {
        let result = change(&bodies)
        queues.setBudget(isSpent: bodies.isSpent)
        reconsider()
        return result
    }
}
