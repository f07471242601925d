import Foundation

/// Changes of the network.
extension FetchEngine {
    func networkChanged() {
        transport.networkChanged()
        wakeReachable()
        for (_, job) in inspect({ $0.jobsOnNetwork }) where !canReach(job) { watchUnreachable(job) }
    }

    /// Returns whether there is a way to the host that the job fetches from, or to the proxy on the way to it.
    func canReach(_ job: FetchJob) -> Bool { job.snapshot.destination.map { canReach($0) } ?? true }

    func canReach(_ url: URL) -> Bool { network.canReach(transport.firstHop(to: url)) }

    private func wakeReachable() {
        let waiting = inspect { $0.jobsWaitingForNetwork }
        let reachable = waiting.filter { canReach($0.work) }
        guard !reachable.isEmpty else { return }
        for (_, job) in reachable { tell(job, .networkReturned(at: time.now())) }
        // Several caches and processes hear of the network at the same time. The offset makes them start at different
        // times.
        let offset = options.wakeSpacing * options.random()
        apply {
            $0.networkReturned(
                for: reachable.map(\.id), spacing: options.wakeSpacing, within: options.wakeSpread, offset: offset,
                into: &$1)
        }
    }

    /// Watches a transfer whose host cannot be reached, which would otherwise stand still until its time is up. If that
    /// lasts, the transfer is cancelled, so that its job waits for the network and begins again when the network
    /// returns. If bytes still arrive, the routes do not tell the whole truth.
    private func watchUnreachable(_ job: FetchJob, since seen: FetchJob.State.Sighting? = nil) {
        let received = job.received.load(ordering: .relaxed)
        let (watched, lost) = job.withState { $0.unreachable(since: seen, received: received) }
        lost?.cancel()
        guard let watched else { return }
        timers.schedule(after: options.lostNetworkGrace) { [weak self, weak job] in
            guard let self, let job, !self.canReach(job) else { return }
            self.watchUnreachable(job, since: watched)
        }
    }
}
