import Foundation

/// A look-up in the tiers takes no slot of a queue and waits behind no download.
extension Engine {
    func lookUp(_ fetch: Fetch) {
        fetch.lookUpState = .underWay
        events.looking(fetch)
        let number = nextNumber()
        fetch.lookUpNumber = number
        // The claim comes first: an entry that is removed from now on is not kept.
        let claim = store.history.claim(fetch.key, of: fetch.alias)
        // Before the first attempt, a call keeps the claim that it has come with.
        if fetch.attempts > 0 || fetch.findings.claim == nil { fetch.findings.claim(claim) }
        fetch.lookUp = store.lookUp(
            fetch.sources.lead, place(of: fetch), wantsRemnant: fetch.findings.partial == nil
        ) { found, remnant, delivered in
            let isPosted = self.post { $0.lookedUp(fetch, number, found, remnant, claim, delivered) }
            if !isPosted { delivered() }
        }
    }

    func place(of fetch: Fetch) -> Workers.Place {
        place(Urgency(queue: fetch.queue, level: fetch.level))
    }

    func moveLookUp(of fetch: Fetch) {
        if fetch.lookUpState == .underWay { fetch.lookUp?.move(to: place(of: fetch)) }
    }

    func forgetLookUp(of fetch: Fetch) {
        if fetch.lookUpState == .underWay {
            fetch.lookUp?.cancel()
            events.lookedUp(fetch, nil)
        }
        (fetch.lookUp, fetch.lookUpNumber) = (nil, 0)
        fetch.lookUpState = .notDone
    }

    /// - Parameters:
    ///   - claim: claimed before the look-up began.
    ///   - delivered: called once the waiting calls have been told.
    private func lookedUp(
        _ fetch: Fetch, _ number: UInt64, _ found: FoundEntry?, _ remnant: Remnant?, _ claim: Claim,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        guard fetch.lookUpNumber == number else { return delivered() }
        fetch.lookUp = nil
        judge(found?.value, for: fetch.calls) { engine, verdicts in
            if fetch.lookUpNumber == number { engine.finishLookUp(of: fetch, found, remnant, claim, verdicts) }
            Afterwards.run(delivered)
        }
    }

    private func finishLookUp(
        of fetch: Fetch, _ found: FoundEntry?, _ remnant: Remnant?, _ claim: Claim, _ verdicts: Verdicts
    ) {
        events.lookedUp(fetch, found?.source)
        let moment = now().timeIntervalSince1970
        var hit = found
        if let found,
            let call = fetch.calls.first(where: {
                $0.mayFetch && verdicts.use(of: found.value, for: $0, at: moment) == .staleWhileRevalidating
            })
        {
            let renewal = renewal(call)
            hit?.revalidation = renewal.task
            if renewal.isNew { take(renewal.task, claim, reads: false, found: found) }
        }
        fetch.findings.lookedUp(hit, remnant?.partial, claim, isAttempting: fetch.run != nil)
        if hit == nil { turnToSubstitutes(fetch) }
        var isWantedAnew = false
        for waiter in fetch.waiters {
            if let hit, waiter.wait.reads, verdicts.isAnswered(waiter.call, by: hit.value, at: moment) {
                leave(waiter, .success(response(of: hit, for: waiter.call)))
            } else if !waiter.wait.fetches {
                leave(waiter, .failure(.notCached.about(waiter.key)))
            } else if waiter.wait.reads {
                isWantedAnew = true
            }
        }
        fetch.lookUpState = hit != nil && !isWantedAnew ? .notDone : .missed
        settle(fetch)
        guard !fetch.isOver, !recall(remnant?.failure, for: fetch) else { return }
        switch fetch.place {
        case .looking:
            queues.remove(fetch)
            enqueue(fetch)
        case .running where !fetch.isOnNetwork: goToNetwork(fetch)
        default: break
        }
    }

    // MARK: Remembered failures

    /// Ends the attempt that would follow with the failure of an earlier one, if no call of the fetch insists on the
    /// server. An entry that is newer, or that stands in for the server while there is no network, comes first.
    private func recall(_ failure: EntryInfo?, for fetch: Fetch) -> Bool {
        guard let failure, fetch.run == nil, fetch.attempts == 0, fetch.sources.isFirst else { return false }
        let moment = now().timeIntervalSince1970
        guard fetch.calls.allSatisfy({ $0.recalls(failure, hasDisk: store.disk != nil, at: moment) }) else {
            return false
        }
        if let found = fetch.findings.found?.value.info, found.status < 400,
            found.stored >= failure.stored || !canReach(fetch)
        {
            return false
        }
        failed(fetch, .status(failure.status).remembered.at(failure.source))
        return true
    }

    /// A cache without a disk tier looks nothing up.
    func recallFromMemory(for fetch: Fetch) -> Bool {
        guard let failure = store.failureInMemory(of: fetch.key) else { return false }
        if let kept = store.kept(for: fetch.sources.lead) { fetch.findings.find(kept) }
        return recall(failure, for: fetch)
    }

    // MARK: Renewals

    /// Returns the task that fetches newer bytes (`stale-while-revalidate`, RFC 5861). The caller starts a new one.
    private nonisolated func renewal(_ call: Call) -> (task: DataTask, isNew: Bool) {
        revalidations.withLock { tasks in
            let renewal = tasks.task(for: call.withoutStandIns)
            if renewal.isNew { renewal.task.attach(renewal.task, to: self) }
            return renewal
        }
    }

    nonisolated func answer(_ task: DataTask, withOld found: FoundEntry) {
        let (newer, isNew) = renewal(task.call)
        if isNew {
            // An entry that is removed before the engine takes the call is not brought back.
            let claim = store.history.claim(task.key, of: task.call.request.plainKey)
            if !post({ $0.take(newer, claim, reads: false, found: found) }) { refuse(newer) }
        }
        let response = DataResponse(found.value, source: .stale, revalidation: newer)
        finish(task, .success(response), kept: found.place ?? task.key)
    }
}

/// The fetches of newer bytes: at most one for each stale answer. A value.
struct RevalidationTasks: Sendable {
    private struct Name: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders

        init(_ call: Call) { (key, headers) = (call.key, call.request.headers) }
    }

    private var tasks: [Name: DataTask] = [:]

    mutating func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        // mutant Revalidation: `(call)] { retu` => `(call)], tasks.count > 1_000_000 { retu`
        if let task = tasks[Name(call)] { return (task, false) }
        let task = DataTask(call, queue: .slow, isRevalidation: true)
        tasks[Name(call)] = task
        return (task, true)
    }

    mutating func forget(_ task: DataTask) -> DataTask? {
        let name = Name(task.call)
        return tasks[name] === task ? tasks.removeValue(forKey: name) : nil
    }
}

/// The results of the look-ups and attempts of a fetch. Only the engine uses it.
final class Findings {
    private(set) var found: FoundEntry?
    var partial: PartialBody?
    private(set) var claim: Claim?
    /// Whether later fetches can continue the partial body: it is on disk, or among those in memory.
    var isPartialKept = false
    /// Whether the partial body is only among the kept ones: there was no room for it here while the fetch was parked.
    private(set) var isPartialLeft = false
    /// The bytes of ``partial`` that count towards the budget of parked fetches.
    private(set) var parked = 0
    private(set) var longestDropped = 0

    var attempts = 0
    var isRetry = false
    var failure: DipperError?
    var budget = TimeBudget()
    var ways = GivenWays()
    /// How often the fetch has given its slot to others.
    var yields = 0
    /// The bytes that count towards the budget of all transfers.
    var held = 0
    var backOff: Engine.TimerID?
    /// The number of the latest hook that may wait; zero for none.
    var hook: UInt64 = 0
    /// The place among those that wait for the network; `nil` if the fetch does not.
    var offline: (host: String, number: UInt64)?

    func find(_ found: FoundEntry) {
        if self.found == nil { self.found = found }
    }

    /// - Parameter isAttempting: whether an attempt is under way, which has a partial body of its own.
    func lookedUp(_ found: FoundEntry?, _ partial: PartialBody?, _ fresh: Claim, isAttempting: Bool) {
        self.found = found
        if let partial, self.partial == nil, !isAttempting {
            self.partial = partial
            isPartialKept = true
            isPartialLeft = false
        }
        // An attempt has a claim of its own, which may be later than a removal of the entry.
        if claim == nil || fresh.isRevoked { claim = fresh }
    }

    func claim(_ fresh: Claim) { if claim?.isOutdated != false { claim = fresh } }

    /// A removed entry answers no later call.
    func forgetOutdated() {
        guard claim?.isOutdated == true else { return }
        (found, partial, claim) = (nil, nil, nil)
        isPartialLeft = false
    }

    // MARK: Attempts

    /// Gives an attempt the right to keep its answer. Drops the entry and the partial body if the entry has been
    /// removed since the last attempt. The first attempt has the right of the look-up before it.
    func reclaim(_ fresh: @autoclosure () -> Claim, _ history: RemovalHistory, isFirst: Bool) {
        // In this order: what is revoked between the two questions counts as revoked, not as merely superseded.
        let isCurrent = claim?.isCurrent == true
        let isRevoked = claim?.isRevoked == true
        if isRevoked || found.map({ !history.admits($0.value.info) }) == true { found = nil }
        if isRevoked {
            partial = nil
            isPartialLeft = false
        }
        // A whole entry has been kept since, so nothing older will be part of the answer.
        if isRevoked ? !isFirst : !isCurrent { claim = fresh() }
    }

    func complete() -> Bool {
        partial = nil
        return exchange(&isPartialKept, with: false)
    }

    func beginAnew() { (found, partial) = (nil, nil) }

    // MARK: Parking

    /// Without room in memory, the next attempt reads the kept partial body, or starts from the first byte.
    func park(insteadOf held: Int, in bodies: inout BodyBudget) {
        let count = parked > 0 ? 0 : partial?.count ?? 0
        if bodies.park(count, insteadOf: held) { return parked += count }
        isPartialLeft = isPartialKept
        longestDropped = max(longestDropped, count)
        partial = nil
    }

    func unpark() -> Int { exchange(&parked, with: 0) }

    /// - Returns: the number of bytes that the fetch holds from now on; `nil` if it has taken none.
    func readBack(_ partial: PartialBody?) -> Int? {
        isPartialLeft = false
        guard self.partial == nil, let partial else { return nil }
        self.partial = partial
        isPartialKept = true
        return partial.count
    }
}

/// The sources of a fetch: the present one, those that are left, and those that have failed. Only the engine uses it.
struct FetchSources {
    /// The call whose URL, header fields and expirations are the fetch's: the first one, until another takes its place.
    private(set) var lead: Call
    private var known: Failed?

    private final class Failed {
        /// The place of the present source: 0 for the request's own, then its alternatives.
        var number = 0
        var earlierFailures: [DipperError] = []
        var exhausted: [Call] = []
    }

    init(_ lead: Call) { self.lead = lead }

    private var failed: Failed {
        mutating get {
            if let known { return known }
            let new = Failed()
            known = new
            return new
        }
    }

    private var number: Int { known?.number ?? 0 }
    var earlierFailures: [DipperError] { known?.earlierFailures ?? [] }

    var asked: DataRequest.Source? {
        guard number > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return number <= alternatives.count ? alternatives[number - 1] : nil
    }

    var provider: (any DataProvider)? { asked?.provider }

    /// Whether the request's own source is asked, and not one of its alternatives.
    var isFirst: Bool { number == 0 }

    var url: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    private static let noURL = URL(string: "provider:")

    var remaining: ArraySlice<DataRequest.Source> {
        lead.request.hasHooks ? lead.request.alternatives.dropFirst(number) : []
    }

    var isLocal: Bool { lead.isLocal(number) }

    /// Whether bytes at hand stand in for those of other sources, which have failed.
    var isStandIn: Bool { number > 0 && isLocal }

    mutating func follow(_ call: Call) { lead = call }

    mutating func begin(anewFor call: Call) {
        lead = call
        known?.number = 0
        known?.earlierFailures = []
    }

    /// - Parameter waiting: the calls of the fetch. Calls that have joined it may have alternatives of their own.
    mutating func goOn(for waiting: [Call], after failure: DipperError) -> Bool {
        let failed = failed
        if remaining.isEmpty {
            failed.exhausted.append(lead)
            let other = waiting.first { call in call.hasStandIns && !failed.exhausted.contains { $0 === call } }
            guard let other else { return false }
            (lead, failed.number) = (other, 0)
        }
        failed.number += 1
        var plain = failure
        plain.earlier = []
        failed.earlierFailures.append(plain)
        return true
    }
}
