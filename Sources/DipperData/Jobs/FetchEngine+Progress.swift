import Foundation

/// The progress of transfers and the bytes received so far, for the tasks that want them.
extension FetchEngine {
    /// Reports what the present transfer had brought before a task asked for it.
    func show(_ news: JobPace.News, of job: FetchJob) {
        if job.progress != nil, let id = id(of: job) { report(news, id, job) }
    }

    /// Returns the identifier of a job; `nil` once the scheduler has dropped the job.
    func id(of job: FetchJob) -> JobID? {
        inspect { scheduler in scheduler.job(for: job.key).flatMap { scheduler.work(of: $0) === job ? $0 : nil } }
    }

    /// Tells the waiting tasks of news of a transfer, at most once per interval.
    /// - Parameters:
    ///   - isAgain: whether an earlier report was put off until now.
    ///   - isDue: whether the news is told whatever the interval, because an earlier report could not tell it.
    func report(
        _ news: JobPace.News, _ id: JobID, _ job: FetchJob, isAgain: Bool = false, isDue: Bool = false
    ) {
        let time = time.now()
        let isLast = isDue || (news == .progress && job.progress.map { $0.received == $0.expected } ?? false)
        var hasTold = false
        while true {
            let answer = job.withState { [hasTold] state -> Pacing.Answer in
                if hasTold { return state.pace[news].told() ? .now : .no }
                return state.pace[news].ask(
                    at: time, interval: options.progressInterval, isLast: isLast, isAgain: isAgain)
            }
            switch answer {
            case .no: return
            case .later(let wait):
                // News just before the flow stops must be told as well.
                timers.schedule(after: wait) { [weak self, weak job] in
                    if let self, let job { self.report(news, id, job, isAgain: true) }
                }
                return
            case .now:
                tell(news, id, job)
                hasTold = true
            }
        }
    }

    private func tell(_ news: JobPace.News, _ id: JobID, _ job: FetchJob) {
        switch news {
        case .progress:
            guard let progress = job.progress else { return }
            for (_, task) in inspect({ $0.waiters(of: id) }) where task.tell(progress) { Afterwards.run(task.flush) }
        case .bytes:
            showBytesNow(id, job)
        }
    }

    private func showBytesNow(_ id: JobID, _ job: FetchJob) {
        guard let current = job.snapshot.current, let transfer = current.transfer else { return }
        let (joined, inherited) = (current.joined, current.inherited)
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
