import Foundation

/// One fetch for all caches that share what they keep: before its first request, a fetch asks whether another cache
/// fetches the key, and waits for it in place of asking the server.
extension Fetch: LeasedWork {
    /// Returns whether the fetch may ask the server now. Otherwise it has left its slot, or goes on later.
    func isAdmitted() -> Bool {
        if let lease { return lease.admits() }
        // What is not kept on disk is of no use to others, nor probably the answer to one call alone.
        guard !isOver, demand.keepsOnDisk, !isAlone, engine.store.disk != nil || engine.store.tiers != nil,
            sources.provider == nil, sources.isFirst,
            !sources.lead.request.isForThisProcess
        else { return true }
        lease = Lease(key, for: self, in: engine.store)
        return lease?.admits() ?? true
    }

    /// Whether each call would take an answer that another call has asked for.
    var mayWaitForOthers: Bool {
        takesStored && !demand.insistsOnNetwork
            && !engine.store.hasRemoved(key, of: alias, within: engine.options.leases.longestWait)
    }

    var mayBeShared: Bool { sources.lead.mayBeShared }

    func admitted() {
        guard !isOver, run == nil else { return }
        switch place {
        case .running: if !isOnNetwork { goToNetwork() }
        case .parked: wake()
        case .none, .looking, .queued: break
        }
    }

    func waitForOthers() {
        guard !isOver, place != .parked else { return }
        leaveSlot()
        engine.events.leftNetwork(self, .parked)
        // The wait counts as the transfer that it stands for.
        startClock()
        reconsiderWait()
    }

    /// Goes to the network if a call insists on it.
    func reconsiderWait() {
        if lease?.isWaiting == true, place == .parked, !mayWaitForOthers { wake() }
    }

    func lookAgain(isForAll: Bool, isOnDisk: Bool = false) {
        guard !isOver, run == nil else { return }
        forgetFound()
        findings.budget.hold(at: engine.time.now())
        forgetLookUp()
        lookUp.expectAnswer(isForAll: isForAll, isOnDisk: isOnDisk)
        // The slot stays: otherwise each fetch of the queue would take its lease in turn, long before it can begin.
        if place == .running { return beginLookUp() }
        engine.queues.remove(self)
        engine.queues.look(self)
        beginLookUp()
        engine.reconsider()
    }

    private func forgetFound() {
        let parked = findings.unpark()
        if parked > 0 { engine.account { $0.giveBack(parked: parked) } }
        findings.forget()
    }

    func failedElsewhere(_ error: DipperError) {
        guard !isOver, run == nil else { return }
        // An answer that the program has judged says nothing about another call.
        guard isFailureShared else { return lookAgain(isForAll: false) }
        failed(error)
    }

    /// The signature in a URL that is not part of the key, or the caller's credentials, may have been to blame.
    private var isFailureShared: Bool {
        sources.isFirst && !demand.judgesAnswers && sources.lead.sharesFailures
    }

    /// Tells those who wait that the fetch has failed for good.
    func noteFailure(_ error: DipperError) {
        lease?.outcome = LeaseNews(failure: error, isOfURL: isFailureShared)
    }

    func hurry(_ queue: FetchQueue?) {
        let wasHurried = exchange(&isHurried, with: queue == .fast)
        settle()
        if isHurried, !wasHurried { endBackOff() }
    }

    func news(since mark: inout Int) -> LeaseNews {
        if place == .parked, let due = knownFindings?.parking.due { return .pausing(due - engine.time.now()) }
        let present = attempts &+ (run?.reception.received ?? 0)
        return exchange(&mark, with: present) == present ? .still : .moving
    }

    func endLease() { exchange(&lease, with: nil)?.end() }
}
