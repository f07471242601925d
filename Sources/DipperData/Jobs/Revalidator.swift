import Foundation

/// The part of the engine that renews answers that are out of date, behind the urgent work, and answers calls with them
/// meanwhile (`stale-while-revalidate`, RFC 5861).
struct Revalidator: Sendable {
    /// A fetch of newer bytes.
    struct Renewal: Sendable {
        /// The answer that is out of date, with the task that fetches newer bytes.
        let found: FetchJob.Found
        /// Whether the task is yet to be started.
        let isNew: Bool
    }

    let engine: FetchEngine

    /// Whether no fetch is under way.
    var isEmpty: Bool { engine.driver.withLock { $0.revalidations.isEmpty } }

    /// Returns the task that fetches newer bytes: the one under way, or a new one, which the caller starts.
    func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        engine.driver.withLock { $0.revalidations.task(for: call) }
    }

    /// Forgets a fetch of newer bytes, because its task is about to end.
    func forget(_ task: DataTask) {
        guard task.isRevalidation else { return }
        let dropped = engine.driver.withLock { $0.revalidations.forget(task) }
        withExtendedLifetime(dropped) {}
    }

    /// Returns the fetch of newer bytes, if an entry is out of date but may be used for one of the calls.
    func renewal(of found: FetchJob.Found, for calls: [Call], at now: TimeInterval) -> Renewal? {
        calls.first { $0.use(of: found.value, at: now) == .staleWhileRevalidating && $0.mayFetch }
            .map { renewal(of: found, for: $0) }
    }

    private func renewal(of found: FetchJob.Found, for call: Call) -> Renewal {
        let (task, isNew) = task(for: call.withoutStandIns)
        return Renewal(
            found: .init(value: found.value, source: found.source, place: found.place, revalidation: task),
            isNew: isNew)
    }

    /// Starts a fetch, unless it is under way.
    func start(_ renewal: Renewal) {
        var found = renewal.found
        if renewal.isNew, let task = exchange(&found.revalidation, with: nil) {
            engine.submit(task, reads: false, found: found)
        }
    }

    /// Answers a task from memory with bytes that are out of date, and has newer ones fetched.
    func answer(_ task: DataTask, with value: StoredData) {
        let found = FetchJob.Found(value: value, source: .memory, place: engine.store.place(of: value, for: task.call))
        let renewal = renewal(of: found, for: task.call)
        start(renewal)
        let response = DataResponse(value, source: .stale, revalidation: renewal.found.revalidation)
        engine.finish(task, .kept(found.place), .success(response))
    }
}
