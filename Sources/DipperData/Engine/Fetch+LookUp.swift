import Foundation

/// A look-up in the tiers takes no slot of a queue and waits behind no download.
extension Fetch {
    /// The state of a fetch's look-ups: how the last one stands, and what the next one may find.
    @Loop
    struct LookUp {
        fileprivate enum State { case notDone, underWay, missed }

        fileprivate var ticket: Workers.Ticket?
        /// The number of the present look-up, by which late answers are recognised.
        fileprivate var number: UInt64 = 0
        fileprivate var begun = Date.distantPast
        fileprivate var state = State.notDone
        /// Whether the next look-up finds the answer that another cache has asked for, also for the calls that wait here.
        fileprivate var isAnsweredForAll = false
        /// Whether that answer is in the folder.
        fileprivate var isAnswerOnDisk = false

        var isDue: Bool { state == .notDone }
        var isUnderWay: Bool { state == .underWay }
        var hasMissed: Bool { state == .missed }

        /// - Parameters:
        ///   - isForAll: whether another cache has asked for the answer, also for the calls that wait here.
        ///   - isOnDisk: whether the answer is in the folder.
        mutating func expectAnswer(isForAll: Bool, isOnDisk: Bool) {
            (isAnsweredForAll, isAnswerOnDisk) = (isForAll, isOnDisk)
        }
    }

    var lookUpTime: Date { lookUp.begun }

    func beginLookUp() {
        lookUp.state = .underWay
        lookUp.begun = WallClock.coarse()
        engine.events.looking(self)
        let number = engine.nextNumber()
        lookUp.number = number
        // The claim comes first: an entry that is removed from now on is not kept. A call keeps the one that it has come
        // with until the first attempt.
        let known = attempts == 0 ? self.claim : nil
        let claim = known.flatMap { $0.isUntouched ? $0 : nil } ?? engine.store.history.claim(key, of: alias)
        if known == nil { take(claim) }
        lookUp.ticket = engine.store.lookUp(
            sources.lead, readersPlace, wantsRemnant: knownFindings?.partial == nil
        ) { found, remnant, delivered in
            self.engine.post(handsOver: true) { self.lookedUp(number, found, remnant, claim, delivered) }
        }
    }

    /// Where the work of readers for this fetch has its turn.
    var readersPlace: Workers.Place { engine.place(Urgency(queue: queue, level: level)) }

    func moveLookUp() {
        if lookUp.isUnderWay { lookUp.ticket?.move(to: readersPlace) }
    }

    func forgetLookUp() {
        if lookUp.isUnderWay {
            lookUp.ticket?.cancel()
            engine.events.lookedUp(self, nil)
        }
        (lookUp.ticket, lookUp.number, lookUp.isAnsweredForAll) = (nil, 0, false)
        lookUp.state = .notDone
    }

    /// - Parameters:
    ///   - claim: claimed before the look-up began.
    ///   - delivered: called once the waiting calls have been told.
    private func lookedUp(
        _ number: UInt64, _ found: FoundEntry?, _ remnant: Remnant?, _ claim: Claim,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        guard lookUp.number == number else { return delivered() }
        lookUp.ticket = nil
        engine.judge(found?.value, for: calls) { verdicts in
            if self.lookUp.number == number { self.finishLookUp(found, remnant, claim, verdicts) }
            Afterwards.letGoOn(delivered)
        }
    }

    private func finishLookUp(
        _ found: FoundEntry?, _ remnant: Remnant?, _ claim: Claim, _ verdicts: Verdicts
    ) {
        var found = found
        // Another cache may have asked before this one removed what a redirect led to.
        if lease != nil, let late = found, hasRemoved(late.value.info) {
            engine.store.removeAgain(late.place ?? key)
            found = nil
        }
        engine.events.lookedUp(self, found?.source)
        let info = found?.value.info
        let isNew = knownFindings?.foundBefore != info?.stored
        let mayBeConfirmed = lookUp.isAnswerOnDisk && info?.variant == nil
        let isForAll = exchange(&lookUp.isAnsweredForAll, with: false) && (isNew || mayBeConfirmed)
        let moment = engine.now().timeIntervalSince1970
        var hit = found
        if let found, !isForAll,
            let waiter = waiters.first(where: { waiter in
                let call = waiter.call
                return waiter.reads && call.mayFetch
                    && verdicts.use(of: found.value, for: call, at: moment) == .staleWhileRevalidating
            })
        {
            let renewal = engine.renewal(waiter.call)
            if let id = waiter.eventID { engine.events.trace { $0.joined(renewal.task.eventID, by: id) } }
            hit?.revalidation = renewal.task
            renewal.waiter?.join(reads: false, claim, found: found)
        }
        takeLookedUp(claim)
        // A fetch that waits with nothing to remember is small.
        let isPartialLeft = remnant?.isPartial == true
        if hit != nil || isPartialLeft || knownFindings != nil {
            findings.lookedUp(hit, isPartialLeft: isPartialLeft, isAttempting: run != nil)
            findings.foundBefore = info?.stored
        }
        if hit == nil { turnToSubstitutes() }
        var isWantedAnew = false
        for waiter in waiters {
            if let hit, isForAll, verdicts.accepts(hit.value, for: waiter.call), waiter.call.shares(hit.value.info) {
                leave(waiter, .success(DataResponse(hit.value, source: hit.source)))
            } else if let hit, waiter.isRevalidation,
                verdicts.use(of: hit.value, for: waiter.call, at: moment) == .fresh
            {
                leave(waiter, .success(response(of: hit, for: waiter.call)))
            } else if let hit, waiter.reads, verdicts.isAnswered(waiter.call, by: hit.value, at: moment) {
                leave(waiter, .success(response(of: hit, for: waiter.call)))
            } else if !waiter.fetches {
                leave(waiter, .failure(.notCached.about(waiter.call.key)))
            } else if waiter.reads {
                isWantedAnew = true
            }
        }
        lookUp.state = hit != nil && !isWantedAnew ? .notDone : .missed
        settle()
        guard !isOver, !recall(remnant?.failure) else { return }
        switch place {
        case .looking:
            engine.queues.remove(self)
            enqueue()
        case .running where !isOnNetwork: goToNetwork()
        default: break
        }
    }

    private func hasRemoved(_ info: EntryInfo) -> Bool {
        engine.store.hasRemoved(info, within: engine.options.leases.longestWait)
    }

    // MARK: Remembered failures

    /// Ends the attempt that would follow with the failure of an earlier one, if no call of the fetch insists on the
    /// server. An entry that is newer, or that stands in for the server while there is no network, comes first.
    private func recall(_ failure: EntryInfo?) -> Bool {
        guard let failure, run == nil, attempts == 0, place != .parked, !isOnNetwork, sources.isFirst else {
            return false
        }
        let moment = engine.now().timeIntervalSince1970
        let hasDisk = engine.store.disk != nil
        guard calls.allSatisfy({ $0.recalls(failure, hasDisk: hasDisk, at: moment) }) else { return false }
        if let found = knownFindings?.found?.value.info, found.status < 400, found.stored >= failure.stored || !canReach
        {
            return false
        }
        failed(.status(failure.status).remembered.at(failure.source))
        return true
    }

    /// For a fetch that looks nothing up: of a cache without a disk tier, or of newer bytes for an answer that is out of
    /// date.
    func recallFromMemory() -> Bool {
        guard let failure = engine.store.failureInMemory(of: key) else { return false }
        if let kept = engine.store.kept(for: sources.lead) { findings.find(kept) }
        return recall(failure)
    }
}
