import Foundation

/// A look-up in the tiers takes no slot of a queue and waits behind no download.
extension Engine {
    func lookUp(_ fetch: Fetch) {
        fetch.lookUpState = .underWay
        events.note(fetch, .looking(fetch.queue))
        let number = nextNumber()
        fetch.lookUpNumber = number
        awaiting[number] = fetch
        // The claim comes first: what is removed from now on is not kept.
        let claim = store.history.claim(fetch.key)
        fetch.findings.claim(claim)
        fetch.lookUp = store.lookUp(
            fetch.key, fetch.sources.lead, place(of: fetch), wantsPartial: fetch.findings.partial == nil
        ) { found, partial, delivered in
            let isPosted = self.post { $0.lookedUp(number, found, partial, claim, delivered) }
            if !isPosted { delivered() }
        }
    }

    private func place(of fetch: Fetch) -> Workers.Place {
        .init(
            fetch.queue, Priority(Double(fetch.level) / 100),
            isLIFO: queues.configuration(of: fetch.queue).order == .lifo)
    }

    func moveLookUp(of fetch: Fetch) {
        if fetch.lookUpState == .underWay { fetch.lookUp?.move(to: place(of: fetch)) }
    }

    func forgetLookUp(of fetch: Fetch) {
        if fetch.lookUpState == .underWay {
            awaiting[fetch.lookUpNumber] = nil
            fetch.lookUp?.cancel()
            events.lookedUp(fetch, nil)
        }
        fetch.lookUp = nil
        fetch.lookUpState = .notDone
    }

    /// - Parameters:
    ///   - claim: claimed before the look-up began.
    ///   - delivered: called once the waiting calls have been told.
    private func lookedUp(
        _ number: UInt64, _ found: FoundEntry?, _ partial: PartialBody?, _ claim: Claim,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        guard let fetch = awaiting[number] else { return delivered() }
        fetch.lookUp = nil
        guard let found else { return finishLookUp(number, nil, partial, claim, Verdicts(), delivered) }
        judge(found.value, for: fetch.calls) { engine, verdicts in
            engine.finishLookUp(number, found, partial, claim, verdicts, delivered)
        }
    }

    private func finishLookUp(
        _ number: UInt64, _ found: FoundEntry?, _ partial: PartialBody?, _ claim: Claim, _ verdicts: Verdicts,
        _ delivered: @escaping @Sendable () -> Void
    ) {
        defer { Afterwards.run(delivered) }
        guard let fetch = awaiting.removeValue(forKey: number) else { return }
        events.lookedUp(fetch, found?.source)
        let moment = now().timeIntervalSince1970
        var hit = found
        if let found,
            let call = fetch.calls.first(where: {
                $0.mayFetch && verdicts.use(of: found.value, for: $0, at: moment) == .staleWhileRevalidating
            })
        {
            hit = renewal(of: found, claim, for: call)
        }
        fetch.findings.lookedUp(hit, partial, claim, isAttempting: fetch.run != nil)
        if hit == nil { turnToSubstitutes(fetch) }
        var isWantedAnew = false
        for waiter in fetch.waiters {
            if let hit, waiter.wait.reads, verdicts.isAnswered(waiter.call, by: hit.value, at: moment) {
                leave(waiter, .cached)
            } else if !waiter.wait.fetches {
                leave(waiter, .notCached)
            } else if waiter.wait.reads {
                isWantedAnew = true
            }
        }
        fetch.lookUpState = hit != nil && !isWantedAnew ? .notDone : .missed
        settle(fetch)
        guard !fetch.isOver else { return }
        switch fetch.place {
        case .looking:
            queues.remove(fetch)
            enqueue(fetch)
        case .running where !fetch.isOnNetwork:
            goToNetwork(fetch)
        default: break
        }
    }

    // MARK: Renewals

    /// Adds the task that fetches newer bytes in `slowQueue` (`stale-while-revalidate`, RFC 5861).
    private func renewal(of found: FoundEntry, _ claim: Claim, for call: Call) -> FoundEntry {
        let call = call.withoutStandIns
        let (task, isNew) = revalidations.withLock { $0.task(for: call) }
        if isNew {
            task.attach(self)
            take(task, reads: false, found: found, claim)
        }
        return FoundEntry(value: found.value, source: found.source, place: found.place, revalidation: task)
    }

    nonisolated func answer(_ task: DataTask, withOld value: StoredData) {
        let found = FoundEntry(value: value, source: .memory, place: store.place(of: value, for: task.call))
        let (newer, isNew) = revalidations.withLock { $0.task(for: task.call.withoutStandIns) }
        if isNew {
            newer.attach(self)
            // What is removed before the engine takes the call is not brought back.
            let claim = store.history.claim(task.key)
            if !post({ $0.take(newer, reads: false, found: found, claim) }) { refuse(newer) }
        }
        finish(task, .success(DataResponse(value, source: .stale, revalidation: newer)), kept: found.place)
    }
}

/// The fetches of newer bytes under way: at most one for each stale answer. A value.
struct RevalidationTasks: Sendable {
    private struct Name: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders

        init(_ call: Call) { (key, headers) = (call.key, call.request.headers) }
    }

    private var tasks: [Name: DataTask] = [:]

    var isEmpty: Bool { tasks.isEmpty }

    mutating func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        // mutant Revalidation: `(call)] { retu` => `(call)], tasks.count > 1_000_000 { retu`
        if let task = tasks[Name(call)] { return (task, false) }
        let task = DataTask(call, queue: .slow, isRevalidation: true)
        tasks[Name(call)] = task
        return (task, true)
    }

    /// Forgets a task that is about to end. The next call that finds a stale answer has it fetched anew.
    /// - Returns: the task that is dropped.
    mutating func forget(_ task: DataTask) -> DataTask? {
        let name = Name(task.call)
        return tasks[name] === task ? tasks.removeValue(forKey: name) : nil
    }
}

/// The results of the look-ups and attempts of a fetch. Only the engine uses it.
final class Findings {
    private(set) var found: FoundEntry?
    private(set) var partial: PartialBody?
    /// The right to keep the answer, claimed at the first look-up or attempt.
    private(set) var claim: Claim?
    /// Whether later fetches can continue the partial body: it is on disk, or among those in memory.
    private var isPartialKept = false
    /// Whether it is only there, because there was no room for it here while the fetch was parked.
    private(set) var isPartialLeft = false
    /// The bytes of ``partial`` that count towards the budget of parked fetches.
    private(set) var parked = 0
    private(set) var longestDropped = 0

    var attempts = 0
    var isRetry = false
    var failure: DipperError?
    var budget = TimeBudget()
    var ways = GivenWays()
    /// The bytes that count towards the budget of all transfers.
    var held = 0
    var backOff: Engine.TimerID?
    /// The place among those that wait for the network; zero if the fetch does not.
    var offlineNumber: UInt64 = 0

    func find(_ found: FoundEntry) {
        if self.found == nil { self.found = found }
    }

    /// - Parameters:
    ///   - fresh: the right to keep the entry, claimed before the look-up began.
    ///   - isAttempting: whether an attempt is under way, which has a partial body of its own.
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

    /// An attempt keeps the claim that it has.
    func claim(_ fresh: Claim) { if claim?.isOutdated != false { claim = fresh } }

    /// A removed entry answers no later call.
    func forgetOutdated() {
        guard claim?.isOutdated == true else { return }
        (found, partial, claim) = (nil, nil, nil)
        isPartialLeft = false
    }

    // MARK: Attempts

    /// Gives an attempt the right to keep its answer. If the entry has been removed since the last attempt, the entry
    /// and the partial body are dropped. The first attempt has the right of the look-up before it: what was removed or
    /// replaced since then is not brought back.
    func reclaim(_ fresh: @autoclosure () -> Claim, _ history: StoreHistory, isFirst: Bool) {
        let isRevoked = claim?.isRevoked == true
        if isRevoked || found.map({ !history.admits($0.value.info) }) == true { found = nil }
        if isRevoked {
            partial = nil
            isPartialLeft = false
        }
        // A whole entry has been kept since, so nothing older will be part of the answer.
        if isRevoked ? !isFirst : claim?.allowsPartial != true { claim = fresh() }
    }

    /// - Parameter isKept: whether later fetches can continue it as well.
    func interrupted(_ partial: PartialBody?, isKept: Bool) {
        if isKept { isPartialKept = true }
        self.partial = partial
    }

    func complete() -> Bool {
        partial = nil
        return exchange(&isPartialKept, with: false)
    }

    /// Drops the partial body of another source. What is kept for later fetches stays.
    func dropPartial() { partial = nil }

    func beginAnew() { (found, partial) = (nil, nil) }

    // MARK: Parking

    /// Parks the partial body in memory, if there is room. Otherwise the next attempt reads what is kept for later
    /// fetches, or begins anew.
    /// - Parameter held: the bytes that were counted for the transfer.
    func park(insteadOf held: Int, in bodies: inout BodyBudget) {
        let count = parked > 0 ? 0 : partial?.bytes.count ?? 0
        if bodies.park(count, insteadOf: held) { return parked += count }
        isPartialLeft = isPartialKept
        longestDropped = max(longestDropped, count)
        partial = nil
    }

    /// - Returns: the parked bytes, which count as the next transfer's from now on.
    func unpark() -> Int { exchange(&parked, with: 0) }

    /// - Returns: the number of bytes that the fetch holds from now on; `nil` if it has taken none.
    func readBack(_ partial: PartialBody?) -> Int? {
        isPartialLeft = false
        guard self.partial == nil, let partial else { return nil }
        self.partial = partial
        isPartialKept = true
        return partial.bytes.count
    }
}

/// The sources of a fetch: the present one, those that are left, and those that have failed.
struct JobSources: Sendable {
    /// The call whose URL, header fields and expirations are the fetch's: the first one, until another takes its place.
    private(set) var lead: Call
    private var boxed: Boxed<Failed>?

    /// The properties of a fetch that has had failures.
    private struct Failed: Sendable {
        var number = 0
        var earlierFailures: [DipperError] = []
        var exhausted: [Call] = []
        var unreachable: URL?
    }

    init(_ lead: Call) { self.lead = lead }

    private mutating func change(_ body: (inout Failed) -> Void) {
        var changed = exchange(&boxed, with: nil) ?? Boxed(Failed())
        body(&changed.value)
        boxed = changed
    }

    /// The place of the present source: 0 for the request's own, then its alternatives.
    private var number: Int { boxed?.value.number ?? 0 }
    var earlierFailures: [DipperError] { boxed?.value.earlierFailures ?? [] }
    var unreachable: URL? {
        get { boxed?.value.unreachable }
        set { if newValue != unreachable { change { $0.unreachable = newValue } } }
    }

    private var asked: DataRequest.Source? {
        guard number > 0 else { return lead.request.source }
        let alternatives = lead.request.alternatives
        return number <= alternatives.count ? alternatives[number - 1] : nil
    }

    var provider: (any DataProvider)? { asked?.provider }

    var url: URL? { asked.flatMap { $0.url ?? Self.noURL } }

    /// Stands for a provider.
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
        if boxed != nil { change { ($0.number, $0.earlierFailures) = (0, []) } }
    }

    /// - Parameter waiting: the calls of the fetch. Calls that have joined it may have alternatives of their own.
    /// - Returns: `false` if there is no source left.
    mutating func goOn(for waiting: [Call], after failure: DipperError) -> Bool {
        var other: Call?
        if remaining.isEmpty {
            let exhausted = (boxed?.value.exhausted ?? []) + [lead]
            change { $0.exhausted = exhausted }
            other = waiting.first { call in call.hasStandIns && !exhausted.contains { $0 === call } }
            guard other != nil else { return false }
        }
        var plain = failure
        plain.earlier = []
        change {
            $0.number = other == nil ? $0.number + 1 : 1
            $0.earlierFailures.append(plain)
            $0.unreachable = nil
        }
        if let other { lead = other }
        return true
    }
}
