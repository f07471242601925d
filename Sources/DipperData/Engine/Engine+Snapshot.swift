extension Engine {
    func snapshot(limit: Int) -> QueueSnapshot {
        let fetches = queues.entries(limit: limit).compactMap { $0 as? Fetch }
        return QueueSnapshot(
            time: events.now,
            fetches: fetches.map { $0.snapshot(at: time.now()) }, counts: queues.counts, bytesInFlight: bodies.used)
    }
}

extension Fetch {
    fileprivate func snapshot(at now: Duration) -> FetchSnapshot {
        FetchSnapshot(
            id: identity.id, key: key, queue: queue, priority: Priority(Double(level) / 100), state: state,
            wait: wait(at: now), callers: Int(wants.count), attempts: attempts,
            progress: progress, failure: failure)
    }

    private func wait(at now: Duration) -> FetchSnapshot.Wait? {
        if let wait = engine.queues.wait(of: self) { return wait }
        switch place {
        case .running: return isOnNetwork ? nil : .request
        case .parked:
            if let since = knownFindings?.parking.offlineSince { return .network(since: now - since) }
            guard let due = knownFindings?.parking.due else {
                return lease?.isWaiting == true ? .elsewhere : .retryRule
            }
            let left = max(.zero, due - now)
            return failure?.retryAfter.map { .retryAfter($0, left: left) } ?? .backOff(left)
        case .none, .looking, .queued: return .lookUp
        }
    }
}
