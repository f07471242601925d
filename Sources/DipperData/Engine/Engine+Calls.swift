import Foundation

extension Engine.Options {
    @inline(__always)
    func defect(of request: DataRequest) -> DipperError? {
        if !readsFileURLs, let provider = request.provider, !reads(provider) {
            return .unsupportedScheme.with(detail: "file")
        }
        return request.defect
    }

    /// A provider is not asked if it stands for the URL of a file, and such files are not read.
    func reads(_ provider: any DataProvider) -> Bool {
        readsFileURLs || (provider as? FileProvider)?.isOfURL != true
    }
}

/// Changes of calls under way, of the queues, and of what holds them back.
extension Engine {
    /// Why the engine takes no call.
    nonisolated var refusal: DipperError { isShutDown.load(ordering: .acquiring) ? .shutDown : .noThread }

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
