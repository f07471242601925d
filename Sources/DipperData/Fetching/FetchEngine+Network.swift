/// The network comes and goes.
extension FetchEngine {
    func networkChanged() {
        transport.networkChanged()
        wakeReachable()
        watchUnreachable()
    }

    private func wakeReachable() {
        let waiting = inspect { $0.jobsWaitingForNetwork }
        let reachable = waiting.filter { network.canReach($0.work.presentHost) }
        guard !reachable.isEmpty else { return }
        for (_, job) in reachable {
            let time = time.now()
            job.withState { $0.budget.run(at: time) }
        }
        // Several caches, or several processes, hear of the network at one time: they start at different ones.
        let offset = options.wakeSpacing * options.random()
        apply {
            $0.networkReturned(
                for: reachable.map(\.id), spacing: options.wakeSpacing, offset: offset, into: &$1)
        }
    }

    /// Transfers whose host cannot be reached would stand still until their time is up. Those for which that lasts are
    /// given up, so that they wait for the network and begin again with its return.
    private func watchUnreachable() {
        let cutOff = inspect { $0.jobsOnNetwork }.filter { !network.canReach($0.work.presentHost) }
        for (_, job) in cutOff {
            let number = job.withState { $0.transferNumber }
            timers.schedule(after: options.lostNetworkGrace) { [weak self, weak job] in
                guard let self, let job, !self.network.canReach(job.presentHost) else { return }
                let transfer = job.withState { state -> (any Transfer)? in
                    guard state.transferNumber == number, state.transfer != nil else { return nil }
                    state.isLost = true
                    return state.transfer
                }
                transfer?.cancel()
            }
        }
    }
}

extension FetchJob {
    /// Whom the job speaks to now, or did last.
    var presentHost: String {
        withState { $0.attempt?.url ?? $0.sourceURL }?.host(percentEncoded: false) ?? host
    }
}
