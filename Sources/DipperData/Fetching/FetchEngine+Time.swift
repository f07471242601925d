/// How long a call may take.
extension FetchEngine {
    /// Watches the time limits of the tasks that wait for a job, once it has started.
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
        if isNew { watch(id, job, since: job.withState { $0.budget.spent(at: time.now()) }, timeout) }
    }

    private func watch(_ task: TaskID, _ job: FetchJob, since start: Duration, _ timeout: Duration) {
        let left = timeout - (job.withState { $0.budget.spent(at: time.now()) } - start)
        guard left > .zero else {
            apply { $0.cancel(task, as: .timedOut, into: &$1) }
            return
        }
        // The timer must not keep what the job has fetched.
        timers.schedule(after: left) { [weak self, weak job] in
            guard let self, let job, self.inspect({ $0.lane(of: task) }) != nil else { return }
            self.watch(task, job, since: start, timeout)
        }
    }
}
