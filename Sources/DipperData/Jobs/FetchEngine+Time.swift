/// The time limits of calls.
extension FetchEngine {
    /// Starts the time limit of a task, unless it has been started.
    /// - Parameter spent: the time that has been spent on the job so far.
    func armTimeout(of id: TaskID, _ task: DataTask, _ job: FetchJob, spent: Duration) {
        guard let timeout = task.call.timeout else { return }
        let isNew = task.withLink { link in
            defer { link.isTimeoutArmed = true }
            return !link.isTimeoutArmed
        }
        if isNew { watch(id, task, job, spent: spent, until: spent + timeout) }
    }

    /// Runs work after a wait, unless the task ends before.
    func schedule(
        _ timer: DataTask.Timer, of task: DataTask, after wait: Duration, _ work: @escaping @Sendable () -> Void
    ) {
        let id = timers.schedule(after: wait, work)
        let unneeded = task.withLink { link in
            link.hasEnded ? id : link.timers.updateValue(id, forKey: timer)
        }
        if let unneeded { timers.cancel(unneeded) }
    }

    /// Ends a task once a time has been spent on its job.
    private func watch(_ id: TaskID, _ task: DataTask, _ job: FetchJob, spent: Duration, until limit: Duration) {
        guard spent < limit else { return apply { $0.cancel(id, as: .timedOut, into: &$1) } }
        // The timer must not keep the bytes that the job has fetched.
        schedule(.timeout, of: task, after: limit - spent) { [weak self, weak task, weak job] in
            guard let self, let task, let job, self.inspect({ $0.queue(of: id) }) != nil else { return }
            self.watch(id, task, job, spent: job.snapshot.budget.spent(at: self.time.now()), until: limit)
        }
    }
}
