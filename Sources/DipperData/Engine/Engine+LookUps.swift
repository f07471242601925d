import Foundation

/// The look-ups in the tiers. A look-up takes no place in a queue and waits behind no download.
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

    /// The place of a fetch among the look-ups that wait: as urgent as the fetch is now.
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
    ///   - claim: the right to keep what was found, claimed before the look-up began.
    ///   - delivered: to be called once those who wait have been told.
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

    /// Returns an entry that is out of date with the task that fetches newer bytes, behind the urgent work
    /// (`stale-while-revalidate`, RFC 5861).
    private func renewal(of found: FoundEntry, _ claim: Claim, for call: Call) -> FoundEntry {
        let call = call.withoutStandIns
        let (task, isNew) = revalidations.withLock { $0.task(for: call) }
        if isNew {
            task.attach(self)
            take(task, reads: false, found: found, claim)
        }
        return FoundEntry(value: found.value, source: found.source, place: found.place, revalidation: task)
    }

    /// Answers a task from memory with bytes that are out of date, and has newer ones fetched.
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

/// The fetches of newer bytes that are under way: at most one for each answer that is out of date. A value.
struct RevalidationTasks: Sendable {
    private struct Name: Hashable {
        let key: CacheKey
        let headers: HTTPHeaders

        init(_ call: Call) { (key, headers) = (call.key, call.request.headers) }
    }

    private var tasks: [Name: DataTask] = [:]

    /// Whether no fetch is under way.
    var isEmpty: Bool { tasks.isEmpty }

    /// Returns the task that fetches newer bytes: the one under way, or a new one, which the caller starts.
    mutating func task(for call: Call) -> (task: DataTask, isNew: Bool) {
        // mutant Revalidation: `(call)] { retu` => `(call)], tasks.count > 1_000_000 { retu`
        if let task = tasks[Name(call)] { return (task, false) }
        let task = DataTask(call, queue: .slow, isRevalidation: true)
        tasks[Name(call)] = task
        return (task, true)
    }

    /// Forgets a fetch of newer bytes, because its task is about to end. The next call that finds an answer out of date
    /// has it fetched anew.
    /// - Returns: the task that is dropped.
    mutating func forget(_ task: DataTask) -> DataTask? {
        let name = Name(task.call)
        return tasks[name] === task ? tasks.removeValue(forKey: name) : nil
    }
}
