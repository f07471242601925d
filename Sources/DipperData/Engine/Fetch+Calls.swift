/// How calls come to a fetch, and a fetch to the queues.
extension Fetch {
    func take(_ waiter: Waiter, _ found: FoundEntry?) {
        add(waiter)
        if let found { findings.find(found) }
        engine.events.joined(waiter, self)
        if waiter.wantsProgress { want(.progress, for: waiter) }
        if waiter.viewer != nil { want(.bytes, for: waiter) }
        if run?.isLong == true { waiter.bodyArrives() }
    }

    func join(_ waiter: Waiter, _ found: FoundEntry?) {
        take(waiter, found)
        if let run { claimAddress(run, for: [waiter]) }
        if lookUp.hasMissed, !waiter.fetches {
            return end(waiter, .failure(.notCached.about(waiter.call.key)))
        }
        if place == .parked, let failure { waiter.hear(.failure(failure, isFatal: false)) }
        if let spent = knownFindings?.budget.sinceStart(at: engine.time.now()) { armTimeout(of: waiter, spent: spent) }
        settle()
        if waiter.reads, lookUp.isDue { beginLookUp() }
        if waitsForNetwork { permissionChanged() }
        reconsiderWait()
        // mutant QueueTests: `if waiter.want.queue == .fast {` => `if waiter.want.queue == .slow {`
        if waiter.want.queue == .fast { endBackOff() }
    }

    func enter() {
        if lookUp.isDue, isRead {
            engine.queues.look(self)
            beginLookUp()
        } else if !recallFromMemory() {
            enqueue()
        }
    }

    func enqueue() {
        engine.queues.setLevel(urgency.level, of: self)
        engine.queues.enqueue(self)
        engine.events.leftNetwork(self, .queued(queue))
        engine.reconsider()
    }

    func turnToSubstitutes() {
        for waiter in waiters where waiter.isUndecided {
            remove(waiter)
            waiter.turnToSubstitute()
            engine.enroll(waiter)
        }
    }
}
