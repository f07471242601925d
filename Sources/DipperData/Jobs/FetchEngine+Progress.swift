import Foundation

/// The progress of transfers and the bytes received so far, for the tasks that want them.
extension FetchEngine {
    /// Reports the progress that the present transfer had made before a task asked for it.
    func showProgress(of job: FetchJob) {
        if job.progress != nil, let id = present(job) { report(id, job) }
    }

    /// Shows the bytes that had arrived before a task asked for them.
    func showBytes(of job: FetchJob) {
        if job.progress != nil, let id = present(job) { showBytes(id, job) }
    }

    private func present(_ job: FetchJob) -> JobID? {
        inspect { scheduler in
            scheduler.job(for: job.key).flatMap { scheduler.work(of: $0) === job ? $0 : nil }
        }
    }

    /// Reports the progress of a transfer to the waiting tasks, at most once per interval.
    func report(_ id: JobID, _ job: FetchJob, isAgain: Bool = false) {
        let time = time.now()
        let answer = job.withState { state -> Pacing.Answer in
            let isLast = job.progress.map { $0.received == $0.expected } ?? false
            return state.progress.ask(
                at: time, interval: options.progressInterval, isLast: isLast, isAgain: isAgain)
        }
        switch answer {
        case .no: return
        case .later(let wait):
            // Progress just before the flow stops must be reported as well.
            timers.schedule(after: wait) { [weak self, weak job] in
                if let self, let job { self.report(id, job, isAgain: true) }
            }
        case .now:
            repeat {
                guard let progress = job.progress else { continue }
                for (_, task) in inspect({ $0.waiters(of: id) }) where task.tell(progress) {
                    Afterwards.run(task.flush)
                }
            } while job.withState { $0.progress.told() }
        }
    }

    /// Shows the bytes received so far to the tasks that want to see them, at most once per interval.
    func showBytes(_ id: JobID, _ job: FetchJob, isAgain: Bool = false) {
        let time = time.now()
        let answer = job.withState {
            $0.previews.ask(at: time, interval: options.progressInterval, isAgain: isAgain)
        }
        switch answer {
        case .no: return
        case .later(let wait):
            // Bytes that arrive just before the flow stops must be shown as well.
            timers.schedule(after: wait) { [weak self, weak job] in
                if let self, let job { self.showBytes(id, job, isAgain: true) }
            }
        case .now:
            repeat { showBytesNow(id, job) } while job.withState { $0.previews.told() }
        }
    }

    private func showBytesNow(_ id: JobID, _ job: FetchJob) {
        let (transfer, joined, inherited) = job.withState { ($0.transfer, $0.joined, $0.inherited) }
        guard let transfer else { return }
        // Cleared before the tasks are asked: a task that begins to look meanwhile sets it again afterwards.
        job.wantsBytes.store(false, ordering: .relaxed)
        guard inspect({ $0.waiters(of: id) }).contains(where: \.waiter.wantsBytes) else { return }
        job.wantsBytes.store(true, ordering: .relaxed)
        transfer.copyBody { [weak self] bytes, offset in
            guard let self, offset == 0 || offset == inherited,
                let whole = offset == 0 ? bytes : joined?.joined(bytes)
            else { return }
            for (_, task) in self.inspect({ $0.waiters(of: id) }) { task.show(whole) }
        }
    }
}
