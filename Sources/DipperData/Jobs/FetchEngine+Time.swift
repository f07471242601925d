/// The time limits of calls.
extension FetchEngine {
    /// Starts the time limits of the tasks that wait for a job, once the job's first attempt has begun.
    func armTimeouts(of id: JobID, _ job: FetchJob) {
        guard job.withState({ $0.hasTimeLimits && $0.budget.hasStarted }) else { return }
        for (taskID, task) in inspect({ $0.waiters(of: id) }) { armTimeout(of: taskID, task, job) }
    }

    func armTimeout(of id: TaskID, _ task: DataTask, _ job: FetchJob) {
        guard let timeout = task.call.timeout, job.withState({ $0.budget.hasStarted }) else { return }
        let isNew = task.withLink { link in
            defer { link.isTimeoutArmed = true }
            return !link.isTimeoutArmed
        }
        if isNew { watch(id, task, job, since: job.withState { $0.budget.spent(at: time.now()) }, timeout) }
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

    private func watch(_ id: TaskID, _ task: DataTask, _ job: FetchJob, since start: Duration, _ timeout: Duration) {
        let left = timeout - (job.withState { $0.budget.spent(at: time.now()) } - start)
        guard left > .zero else {
            apply { $0.cancel(id, as: .timedOut, into: &$1) }
            return
        }
        // The timer must not keep the bytes that the job has fetched.
        schedule(.timeout, of: task, after: left) { [weak self, weak task, weak job] in
            guard let self, let task, let job, self.inspect({ $0.queue(of: id) }) != nil else { return }
            self.watch(id, task, job, since: start, timeout)
        }
    }
}
