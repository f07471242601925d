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
        task.finish(.failure(error), in: self)
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
            return task.finish(.failure(.notCached.about(task.key)), in: self)
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
            task.finish(.success(DataResponse(found.value, source: .memory)), kept: found.place ?? task.key, in: self)
        case .staleWhileRevalidating where call.mayFetch:
            answer(task, withOld: found)
        case .staleWhileRevalidating, .stale, .revalidate:
            guard call.isAnswered(byAccepted: info, at: now) else { return false }
            task.finish(.success(DataResponse(found.value, source: .stale)), kept: found.place ?? task.key, in: self)
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
        if Loop.isCurrent { return run { $0.take(task, claim, after: failed) } }
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
            return task.finish(.failure(.cancelled), in: self)
        }
        task.begin(reads: reads ?? task.call.looksUp(in: store))
        enroll(task, claim?.isOutdated == true ? nil : found, claim, after: failed)
        reconsider()
    }

    nonisolated func refuse(_ task: DataTask) {
        task.withFeed { $0.detach(in: task.requestedQueue, attempts: 0) }
        task.finish(.failure(refusal), in: self)
    }

    /// Why the engine takes no call.
    nonisolated var refusal: DipperError { isShutDown.load(ordering: .acquiring) ? .shutDown : .noThread }

    func enroll(
        _ waiter: DataTask, _ found: FoundEntry? = nil, _ claim: Claim? = nil,
        after failed: (task: DataTask, error: DipperError)? = nil
    ) {
        let call = waiter.call
        // mutant Dedup: `fetches[call.key], present` => `fetches[call.key], false, present`
        // mutant Removal: `, present.isCurrent {` => ` {`
        if let present = fetches[call.key], present.isCurrent {
            present.knownFindings?.forgetOutdated()
            if let claim { present.findings.claim(claim) }
            present.join(waiter, found)
        } else {
            let fetch = Fetch(call, waiter.wait.want, in: self)
            events.tell(fetch, .fetchBegan(fetch.queue))
            if let old = fetches.updateValue(fetch, forKey: call.key) {
                others[call.key, default: [:]][ObjectIdentifier(old)] = old
            }
            if let alias = fetch.alias { others[alias, default: [:]][ObjectIdentifier(fetch)] = fetch }
            if let claim { fetch.findings.claim(claim) }
            fetch.take(waiter, found)
            guard let failed else { return fetch.enter() }
            fetch.goOn(for: waiter, after: failed.task)
            fetch.failed(failed.error)
        }
    }
}

/// Changes of calls under way, of the queues, and of what holds them back.
extension Engine {
    func cancel(_ task: DataTask) {
        if let fetch = task.wait.fetch { fetch.end(task, .failure(.cancelled)) } else { task.isGivenUp = true }
    }

    func cancel(_ key: CacheKey, andOthers: Bool) {
        for waiter in waiters(for: key, andOthers: andOthers) { waiter.wait.fetch?.end(waiter, .failure(.cancelled)) }
    }

    func cancelAll() {
        let all = Array(fetches.values) + others.values.flatMap(\.values)
        for fetch in all { for waiter in fetch.waiters { waiter.wait.fetch?.end(waiter, .failure(.cancelled)) } }
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
        fetch.settle()
        if queue == .fast { fetch.endBackOff() }
    }

    func setPriority(_ priority: Priority, of task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.change(task, to: Urgency(task.wait.want.queue, priority))
        fetch.settle()
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
