import Foundation

/// The calls of the engine, and what it refuses.
extension Engine {
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

    /// Why the engine takes no call.
    nonisolated var refusal: DipperError { isShutDown.load(ordering: .acquiring) ? .shutDown : .noThread }

    /// Has a call join the fetch of its key, or begins one.
    func enroll(
        _ waiter: Waiter, _ found: FoundEntry? = nil, _ claim: Claim? = nil,
        after failed: (waiter: Waiter?, error: DipperError)? = nil
    ) {
        let call = waiter.call
        // mutant Dedup: `fetches[call.key], present` => `fetches[call.key], false, present`
        // mutant Removal: `, present.isCurrent {` => ` {`
        if let present = fetches[call.key], present.isCurrent {
            present.forgetOutdated()
            if let claim { present.take(claim) }
            present.join(waiter, found)
        } else {
            let fetch = begin(call, waiter.want, isJoined: true)
            if let claim { fetch.take(claim) }
            fetch.take(waiter, found)
            guard let failed else { return fetch.enter() }
            if let earlier = failed.waiter { fetch.goOn(for: waiter, after: earlier) }
            fetch.failed(failed.error)
        }
    }

    /// Begins a fetch for one call alone, which no other call joins.
    /// - Parameter budget: the time that the call has spent on another fetch.
    func enroll(_ waiter: Waiter, spent budget: Stopwatch) {
        let fetch = begin(waiter.call, waiter.want, isJoined: false)
        fetch.isAlone = true
        fetch.findings.budget = budget
        fetch.take(waiter, nil)
        fetch.enter()
    }

    private func begin(_ call: Call, _ want: Urgency, isJoined: Bool) -> Fetch {
        let fetch = Fetch(call, want, in: self)
        events.tell(fetch, .fetchBegan(fetch.queue))
        fetches.add(fetch, isJoined: isJoined)
        return fetch
    }
}

/// Changes of calls under way, of the queues, and of what holds them back.
extension Engine {
    func cancel(_ key: CacheKey, andOthers: Bool) {
        for waiter in fetches.waiters(for: key, andOthers: andOthers) { waiter.cancel() }
    }

    func cancelAll() {
        let all = fetches.all
        for fetch in all { for waiter in fetch.waiters { waiter.cancel() } }
        if all.count > 10_000 { workers.async { KernelMemoryPressure.giveBackFreeMemory() } }
    }

    func demote(_ key: CacheKey, andOthers: Bool) {
        // mutant QueueTests: `waiter.demote() }` => `_ = waiter }`
        for waiter in fetches.waiters(for: key, andOthers: andOthers) { waiter.demote() }
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
