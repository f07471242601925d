import Foundation

/// The network comes and goes.
extension FetchEngine {
    func networkChanged() {
        transport.networkChanged()
        wakeReachable()
        for (_, job) in inspect({ $0.jobsOnNetwork }) where !canReach(job) { watchUnreachable(job) }
    }

    /// Whether there is a way to whom the job speaks, or to the proxy that speaks for it.
    func canReach(_ job: FetchJob) -> Bool {
        let (provider, url) = job.withState { ($0.provider, $0.attempt?.sentURL ?? $0.unreachable ?? $0.sourceURL) }
        // A provider needs no way to anywhere, as far as is known.
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
        // Several caches, or several processes, hear of the network at one time: they start at different ones.
        let offset = options.wakeSpacing * options.random()
        apply {
            $0.networkReturned(
                for: reachable.map(\.id), spacing: options.wakeSpacing, within: options.wakeSpread, offset: offset,
                into: &$1)
        }
    }

    /// A transfer whose host cannot be reached would stand still until its time is up. If that lasts, it is given up, so
    /// that it waits for the network and begins again with its return.
    private func watchUnreachable(_ job: FetchJob) {
        let number = job.withState { $0.transferNumber }
        let received = job.received.load(ordering: .relaxed)
        timers.schedule(after: options.lostNetworkGrace) { [weak self, weak job] in
            guard let self, let job, !self.canReach(job) else { return }
            let isCurrent = job.withState { $0.transferNumber == number && $0.transfer != nil }
            guard isCurrent else { return }
            // Bytes that come know better than the routes.
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
