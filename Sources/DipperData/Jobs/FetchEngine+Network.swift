import Foundation

/// Changes of the network.
extension FetchEngine {
    func networkChanged() {
        transport.networkChanged()
        wakeReachable()
        for (_, job) in inspect({ $0.jobsOnNetwork }) where !canReach(job) { watchUnreachable(job) }
    }

    /// Returns whether there is a way to the host that the job fetches from, or to the proxy on the way to it.
    func canReach(_ job: FetchJob) -> Bool {
        let (provider, url) = job.withState { ($0.provider, $0.attempt?.sentURL ?? $0.unreachable ?? $0.sourceURL) }
        // As far as is known, a provider needs no network.
        guard provider == nil, let url else { return true }
        return network.canReach(transport.firstHop(to: url))
    }

    private func wakeReachable() {
        let waiting = inspect { $0.jobsWaitingForNetwork }
        let reachable = waiting.filter { canReach($0.work) }
        guard !reachable.isEmpty else { return }
        for (_, job) in reachable {
            let time = time.now()
            job.withState { $0.budget.run(at: time) }
        }
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
    /// returns.
    private func watchUnreachable(_ job: FetchJob) {
        let number = job.withState { $0.transferNumber }
        let received = job.received.load(ordering: .relaxed)
        timers.schedule(after: options.lostNetworkGrace) { [weak self, weak job] in
            guard let self, let job, !self.canReach(job) else { return }
            let isCurrent = job.withState { $0.transferNumber == number && $0.transfer != nil }
            guard isCurrent else { return }
            // Bytes still arrive, so the routes do not tell the whole truth.
            if job.received.load(ordering: .relaxed) != received { return self.watchUnreachable(job) }
            let transfer = job.withState { state -> (any Transfer)? in
                guard state.transferNumber == number else { return nil }
                state.isLost = true
                return state.transfer
            }
            transfer?.cancel()
        }
    }
}
