/// The fetches under way by their keys.
@Loop
struct FetchTable {
    private var latest: [KeyHash: Fetch] = [:]
    /// Fetches that calls for a key cancel and demote, but do not join: of removed entries, for one call
    /// alone, or of other keys of a URL.
    private var others: [KeyHash: [ObjectIdentifier: Fetch]] = [:]

    nonisolated init() {}

    var isEmpty: Bool { latest.isEmpty && others.isEmpty }

    /// Each of them once.
    var all: [Fetch] {
        Array(latest.values) + others.flatMap { key, fetches in fetches.values.filter { $0.key.hash == key } }
    }

    /// The fetch that a call for a key may join.
    subscript(key: CacheKey) -> Fetch? { latest[key.hash] }

    /// - Parameter isJoined: whether later calls may join the fetch.
    mutating func add(_ fetch: Fetch, isJoined: Bool) {
        let alone = isJoined ? latest.updateValue(fetch, forKey: fetch.key.hash) : fetch
        if let alone { add(alone, to: fetch.key) }
        if let alias = fetch.alias { add(fetch, to: alias) }
    }

    mutating func remove(_ fetch: Fetch) {
        if self[fetch.key] === fetch { latest[fetch.key.hash] = nil } else { remove(fetch, from: fetch.key) }
        if let alias = fetch.alias { remove(fetch, from: alias) }
    }

    /// The calls for a key; if it is that of a URL, `andOthers` those with header fields or a key of their own.
    func waiters(for key: CacheKey, andOthers: Bool) -> [Waiter] {
        let same = self[key].map(\.waiters) ?? []
        guard let others = others[key.hash] else { return same }
        return same
            + others.values.flatMap(\.waiters).filter {
                $0.call.key == key || andOthers && $0.call.plainKey?.value == key
            }
    }

    private mutating func add(_ fetch: Fetch, to key: CacheKey) {
        others[key.hash, default: [:]][ObjectIdentifier(fetch)] = fetch
    }

    private mutating func remove(_ fetch: Fetch, from key: CacheKey) {
        others[key.hash]?[ObjectIdentifier(fetch)] = nil
        if others[key.hash]?.isEmpty == true { others[key.hash] = nil }
    }
}

/// Where two calls for a key become one fetch.
extension Engine {
    /// Has a call join the fetch of its key, or begins one.
    func enroll(
        _ waiter: Waiter, _ found: FoundEntry? = nil, _ claim: Claim? = nil,
        after failed: (waiter: Waiter?, error: DipperError)? = nil
    ) {
        let call = waiter.call
        // mutant Dedup: `fetches[call.key], present` => `fetches[call.key], false, present`
        // mutant Removal: `, present.isCurrent {` => ` {`
        if let present = fetches[call.key], present.isCurrent {
            present.forgetOutdated()
            if let claim { present.take(claim) }
            present.join(waiter, found)
        } else {
            let fetch = begin(call, waiter.want, isJoined: true)
            if let claim { fetch.take(claim) }
            fetch.take(waiter, found)
            guard let failed else { return fetch.enter() }
            if let earlier = failed.waiter { fetch.goOn(for: waiter, after: earlier) }
            fetch.failed(failed.error)
        }
    }

    /// Begins a fetch for one call alone, which no other call joins.
    /// - Parameter budget: the time that the call has spent on another fetch.
    func enroll(_ waiter: Waiter, spent budget: Stopwatch) {
        let fetch = begin(waiter.call, waiter.want, isJoined: false)
        fetch.findings.budget = budget
        fetch.take(waiter, nil)
        fetch.enter()
    }

    private func begin(_ call: Call, _ want: Urgency, isJoined: Bool) -> Fetch {
        let fetch = Fetch(call, want, isAlone: !isJoined, in: self)
        events.tell(fetch, .fetchBegan(fetch.queue))
        fetches.add(fetch, isJoined: isJoined)
        return fetch
    }
}
