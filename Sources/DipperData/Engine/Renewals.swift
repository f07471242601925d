import Foundation

/// The fetches of newer bytes for answers that are out of date.
extension Engine {
    /// Returns the task that fetches newer bytes (`stale-while-revalidate`, RFC 5861). The caller has a new one join.
    nonisolated func renewal(_ call: Call) -> (task: DataTask, waiter: Waiter?) {
        let call = call.withoutStandIns
        return revalidations.withLock { tasks in
            let (task, isNew) = tasks.task(for: call)
            guard isNew else { return (task, nil) }
            let waiter = Waiter(task, isRevalidation: true, in: self)
            task.attach(waiter)
            return (task, waiter)
        }
    }
}

/// The fetches of newer bytes: at most one for each stale answer. A value.
struct RevalidationTasks: Sendable {
    private struct Name: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders

        init(_ call: Call) { (key, headers) = (call.key, call.request.headers) }
    }

    private var tasks: [Name: DataTask] = [:]

    mutating func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        // mutant Revalidation: `(call)] { retu` => `(call)], tasks.count > 1_000_000 { retu`
        if let task = tasks[Name(call)] { return (task, false) }
        let task = DataTask(call, queue: .slow, isRevalidation: true)
        tasks[Name(call)] = task
        return (task, true)
    }

    mutating func forget(_ task: DataTask) -> DataTask? {
        let name = Name(task.call)
        return tasks[name] === task ? tasks.removeValue(forKey: name) : nil
    }
}
