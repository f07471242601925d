/// The fetches of newer bytes that are under way: at most one for each answer that is out of date. A value.
struct RevalidationTasks: Sendable {
    private struct Name: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders

        init(_ call: Call) { (key, headers) = (call.key, call.request.headers) }
    }

    private var tasks: [Name: DataTask] = [:]

    /// Whether no fetch is under way.
    var isEmpty: Bool { tasks.isEmpty }

    /// Returns the task that fetches newer bytes: the one under way, or a new one, which the caller starts.
    mutating func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        // mutant Revalidation: `(call)] { retu` => `(call)], tasks.count > 1_000_000 { retu`
        if let task = tasks[Name(call)] { return (task, false) }
        let task = DataTask(call, queue: .slow, isRevalidation: true)
        tasks[Name(call)] = task
        return (task, true)
    }

    /// Forgets a fetch of newer bytes, because its task is about to end. The next call that finds an answer out of date
    /// has it fetched anew.
    /// - Returns: the task that is dropped.
    mutating func forget(_ task: DataTask) -> DataTask? {
        let name = Name(task.call)
        return tasks[name] === task ? tasks.removeValue(forKey: name) : nil
    }
}
