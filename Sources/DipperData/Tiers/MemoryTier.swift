import Foundation
import Synchronization

/// A value in memory, with the metadata of its bytes.
protocol MemoryValue: Sendable {
    var info: EntryInfo { get }
}

extension StoredData: MemoryValue {}

/// The memory tier, limited by cost and number of entries.
///
/// Entries are spread over shards, each with a lock, so that threads do not wait for one another. Every move stamps its
/// entry with its number, and an eviction takes or spares the entry with the lowest stamp of a line of all shards.
final class MemoryTier<Value: MemoryValue>: Sendable {
    struct Limits: Sendable {
        var cost: Int
        var count: Int?
        /// The largest share of `cost` that a single entry may have, as a divisor.
        var largestShare = 10
    }

    private struct Bounds {
        var given: Limits
        var pressure = MemoryPressure.normal

        /// In memory is no value that is larger. The configured limit, because pressure does not change the size of a
        /// value worth keeping.
        var largest: Int { given.cost / given.largestShare }
        /// From the configured limits each time, so that changes of the pressure do not add up.
        var present: Limits {
            switch pressure {
            case .normal: given
            case .moderate: Limits(cost: given.cost / 2, count: given.count.map { $0 / 2 + $0 % 2 })
            case .severe: Limits(cost: 0, count: 0)
            }
        }
    }

    private struct State {
        var bounds: Bounds
        /// The keys of derived entries, by the key of the first origin.
        var derived = KeyGroups<Substring>()
        /// The keys of entries by their URLs, as asked for and after redirects, except where the URL is the key, or that
        /// of the first origin.
        var elsewhere = KeyGroups<String>()
    }

    private static var shardCount: Int { 16 }

    private let shards: [MemoryShard<Value>]
    private let state: Mutex<State>
    let hasDerived = Atomic(false)
    let hasElsewhere = Atomic(false)
    private let totals: MemoryTotals
    private let history: RemovalHistory
    private let now: @Sendable () -> Date
    private let expiries: ExpiryWatch
    private let onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?

    /// - Parameter onCleaned: called with entries that were removed without being named, on the thread that caused it.
    init(
        limits: Limits, order: EvictionOrder, history: RemovalHistory, now: @escaping @Sendable () -> Date,
        expiries: ExpiryWatch, mover: (any MemoryMover<Value>)? = nil,
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?
    ) {
        self.history = history
        self.onCleaned = onCleaned
        let bounds = Bounds(given: limits)
        state = Mutex(State(bounds: bounds))
        totals = MemoryTotals(bounds.present, largest: bounds.largest)
        self.now = now
        shards = (0..<Self.shardCount).map { [totals] _ in MemoryShard(order, totals, mover) }
        self.expiries = expiries
        expiries.add { [weak self] in self?.removeExpired() }
    }

    var totalCost: Int { totals.cost.load(ordering: .sequentiallyConsistent) }
    var entryCount: Int { totals.count.load(ordering: .sequentiallyConsistent) }

    @inline(__always)
    func value(for key: CacheKey) -> Value? {
        part(of: key) { copy $0 }
    }

    func value(
        for key: CacheKey, _ lifetime: (Lifetime, _ entered: TimeInterval, _ now: TimeInterval) -> Lifetime
    ) -> Value? {
        let now = now().timeIntervalSince1970
        var expires = TimeInterval.infinity
        let expired = shard(of: key).change(key, now: now) { present, entered in
            let changed = lifetime(present, entered, now)
            expires = changed.expires
            return changed
        }
        guard let expired else {
            expiries.note(expires)
            return value(for: key)
        }
        remove(expired: expired)
        return expired.value
    }

    /// Copies only a part of a value; counts as a use.
    @inline(__always)
    func part<Part: Sendable>(of key: CacheKey, _ part: (borrowing Value) -> Part) -> Part? {
        let now = now().timeIntervalSince1970
        let found = borrowed(shard(of: key)) { $0.access(key, now: now, part: part) }
        if found.isExpired, let expired = shard(of: key).removeExpired(key, now: now) { remove(expired: expired) }
        return found.part
    }

    private func remove(expired entry: MemoryEntry<Value>) {
        account(removed: entry)
        tell([entry], .expired)
    }

    func peek<Part: Sendable>(_ key: CacheKey, _ part: (borrowing Value) -> Part) -> Part? {
        shard(of: key).peek(key, now: now().timeIntervalSince1970, part)
    }

    /// Takes time by the number of all entries.
    func entries<Part: Sendable>(_ part: (CacheKey, Value, _ cost: Int, Lifetime, _ stored: TimeInterval) -> Part)
        -> [Part]
    {
        shards.flatMap { $0.entries(part) }
    }

    func contains(_ key: CacheKey) -> Bool { peek(key) { _ in true } == true }

    /// Keeps a value, unless it costs more than its share of the configured limit or more than the present limit, has
    /// expired, or memory pressure is severe. Then the key's old value is removed, unless `changes` is given.
    /// - Parameters:
    ///   - entered: when the value entered memory; `nil` for now.
    ///   - permit: the right to keep the value; entries without one count as stored now.
    ///   - changes: the ``changes(of:)`` before the value was read elsewhere. After later ones it is not kept.
    ///   - isWanted: called under a lock, and may only read values. If it returns `false`, nothing changes.
    func insert(
        _ value: Value, for key: CacheKey, cost entryCost: Int, lifetime: Lifetime, entered: TimeInterval? = nil,
        permit: Permit? = nil, unlessChangedSince changes: UInt64? = nil, if isWanted: () -> Bool = { true }
    ) {
        let now = now().timeIntervalSince1970
        let isAllowed = { [history] in isWanted() && permit?.isGranted(in: .memory, by: history) ?? true }
        let entry = MemoryEntry(
            key: key, value: value, cost: entryCost, lifetime: lifetime, stored: permit?.info.stored ?? now,
            entered: entered ?? now)
        guard totals.isRoom(for: entryCost), !lifetime.isExpired(at: now) else {
            // mutant MemoryTier: `hanges == nil, ` => `hanges != nil, `
            if changes == nil, let removed = shard(of: key).refuse(entry, now: now, ifAllowed: isAllowed) {
                account(removed: removed)
            }
            return
        }
        // First, so that a removal by origin or URL misses none.
        count(key, value.info, 1)
        let (replaced, isInserted) = shard(of: key).insert(
            entry, unlessChangedSince: changes, ifAllowed: isAllowed)
        guard isInserted else { return count(key, value.info, -1) }
        totals.cost.add(entryCost, ordering: .sequentiallyConsistent)
        totals.count.add(1, ordering: .sequentiallyConsistent)
        if let replaced { account(removed: replaced) }
        expiries.note(min(lifetime.expires, lifetime.expires(accessedAt: now)))
        enforceLimits(.overLimit)
    }

    func changes(of key: CacheKey) -> UInt64 { shard(of: key).changes }

    func remove(_ key: CacheKey) {
        if let removed = shard(of: key).remove(key) { account(removed: removed) }
    }

    func removeAll() {
        tell(take { _, _, _ in true }, .cleared)
    }

    // By origin or URL. A removal says first that it has begun: an insertion that does not see it has counted its key. It
    // takes time by the number of the entries that it removes, not of all.

    func removeDerived(of key: CacheKey) {
        totals.sweeps.add(1, ordering: .sequentiallyConsistent)
        for key in derivedKeys(of: key) { remove(key) }
    }

    /// Removes the entry of a URL alone, and all others whose URL, as asked for or after redirects, has this text. Returns
    /// their keys.
    @discardableResult
    func removeAll(of address: String) -> [CacheKey] {
        totals.sweeps.add(1, ordering: .sequentiallyConsistent)
        let plain = CacheKey(verbatim: address)
        remove(plain)
        return [plain]
            + (derivedKeys(of: plain) + keysElsewhere(of: address)).filter { key in
                guard let removed = shard(of: key).remove(key, if: { $0.info.isOf(address) }) else { return false }
                account(removed: removed)
                return true
            }
    }

    func derivedKeys(of key: CacheKey) -> [CacheKey] {
        guard hasDerived.load(ordering: .sequentiallyConsistent) else { return [] }
        let group = state.withLock { $0.derived[key.firstOrigin ?? key.string[...]] }
        return group.filter { $0.isDerived(of: key) }
    }

    private func keysElsewhere(of address: String) -> [CacheKey] {
        guard hasElsewhere.load(ordering: .sequentiallyConsistent) else { return [] }
        return state.withLock { $0.elsewhere[address] }
    }

    /// Counts a key before its entry comes, and until after it has gone, so for a moment twice.
    private func count(_ key: CacheKey, _ info: EntryInfo, _ change: Int) {
        let origin = key.firstOrigin
        let home = origin ?? key.string[...]
        let isAtHome = info.asked == nil && (home == info.url || !info.hasURL)
        if origin == nil, isAtHome { return }
        state.withLock { state in
            if let origin { state.derived.count(key, in: origin, change) }
            hasDerived.store(!state.derived.isEmpty, ordering: .sequentiallyConsistent)
            if isAtHome { return }
            if home != info.url, info.hasURL { state.elsewhere.count(key, in: info.url, change) }
            if let asked = info.asked, home != asked { state.elsewhere.count(key, in: asked, change) }
            hasElsewhere.store(!state.elsewhere.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// - Parameter limit: in seconds since 1970.
    func removeExpired(storedBefore limit: TimeInterval = -.infinity) {
        let now = now().timeIntervalSince1970
        var next = TimeInterval.infinity
        var removed = take { _, lifetime, stored in
            if lifetime.isExpired(at: now) || stored < limit { return true }
            next = min(next, lifetime.expires, lifetime.expires(accessedAt: now))
            return false
        }
        expiries.note(next)
        let expired = removed.partition { $0.lifetime.isExpired(at: now) }
        tell(removed[expired...], .expired)
        tell(removed[..<expired], .flushed)
    }

    private func take(where condition: (Value, Lifetime, _ stored: TimeInterval) -> Bool) -> [MemoryEntry<Value>] {
        shards.flatMap { shard in
            let removed = shard.remove(where: condition)
            for entry in removed { account(removed: entry) }
            return removed
        }
    }

    var limits: Limits { state.withLock { $0.bounds.given } }

    func changeLimits(_ change: (inout Limits) -> Void) {
        changeBounds { change(&$0.given) }
        enforceLimits(.overLimit)
    }

    func setPressure(_ pressure: MemoryPressure) {
        changeBounds { $0.pressure = pressure }
        enforceLimits(.memoryPressure)
    }

    private func changeBounds(_ change: (inout Bounds) -> Void) {
        state.withLock { state in
            change(&state.bounds)
            totals.set(state.bounds.present, largest: state.bounds.largest)
        }
    }

    private func enforceLimits(_ reason: CacheEvent.Cleaning.Reason) {
        trim(toCost: totals.mostCost, count: totals.mostCount, reason)
    }

    /// In the order of eviction, until at most `maximum` bytes and `maximumCount` entries are left.
    func trim(
        toCost maximum: Int, count maximumCount: Int? = nil, _ reason: CacheEvent.Cleaning.Reason = .overLimit
    ) {
        var (entries, bytes, spared) = (0, 0, 0)
        // mutant MemoryTier|Eviction: `maximum || entryCount > maximumCount ?? .max, let n` => `maximum, let n`
        while totalCost > maximum || entryCount > maximumCount ?? .max, let next = nextToLeave {
            // Another thread may have removed the last entry of this line, or the entry is spared.
            guard let removed = next.shard.removeOldest(in: next.line, isSparing: spared < Self.mostSpared) else {
                spared += 1
                continue
            }
            spared = 0
            account(removed: removed)
            entries += 1
            bytes += removed.cost
        }
        if entries > 0 { onCleaned?(.init(tier: .memory, reason: reason, entries: entries, bytes: bytes)) }
    }

    /// The number of entries spared in a row: an insertion must not wait for the turns of a million.
    private static var mostSpared: Int { 1_000 }

    private var nextToLeave: (shard: MemoryShard<Value>, line: MemoryLine)? {
        let line = totals.isTrialLong ? MemoryLine.trial : .main
        return oldest(in: line) ?? oldest(in: line == .trial ? .main : .trial)
    }

    private func oldest(in line: MemoryLine) -> (shard: MemoryShard<Value>, line: MemoryLine)? {
        var oldest: (shard: MemoryShard<Value>?, stamp: UInt64) = (nil, .max)
        for shard in shards {
            // Read once: another thread may be removing the entry.
            let stamp = shard.oldestStamp(line)
            if stamp < oldest.stamp { oldest = (shard, stamp) }
        }
        return oldest.shard.map { ($0, line) }
    }

    private func tell(_ removed: some Collection<MemoryEntry<Value>>, _ reason: CacheEvent.Cleaning.Reason) {
        guard let onCleaned, !removed.isEmpty else { return }
        let bytes = removed.reduce(0) { $0 + $1.cost }
        onCleaned(.init(tier: .memory, reason: reason, entries: removed.count, bytes: bytes))
    }

    private func account(removed entry: MemoryEntry<Value>) {
        totals.cost.subtract(entry.cost, ordering: .relaxed)
        totals.count.subtract(1, ordering: .relaxed)
        count(entry.key, entry.value.info, -1)
    }

    @inline(__always)
    private func shard(of key: CacheKey) -> MemoryShard<Value> {
        shards[Int(truncatingIfNeeded: key.hash.second >> 60)]
    }
}

/// The sums over all shards of a tier, and their present limits. Of an insertion and a change of the limits, one sees the
/// other.
final class MemoryTotals: Sendable {
    let cost = Atomic<Int>(0)
    let count = Atomic<Int>(0)
    private let costLimit, countLimit, largest: Atomic<Int>
    /// The number of removals that concern all shards.
    let sweeps = Atomic<UInt64>(0)
    let trialCost = Atomic<Int>(0)
    /// The number of moves so far.
    let moves = Atomic<UInt64>(0)

    /// The part of memory that the entries on trial may have, in millionths.
    private let trialShare = Atomic<Int>(300_000)

    init<Value>(_ limits: MemoryTier<Value>.Limits, largest: Int) {
        costLimit = Atomic(limits.cost)
        countLimit = Atomic(limits.count ?? .max)
        self.largest = Atomic(largest)
    }

    func set<Value>(_ limits: MemoryTier<Value>.Limits, largest: Int) {
        costLimit.store(limits.cost, ordering: .sequentiallyConsistent)
        countLimit.store(limits.count ?? .max, ordering: .sequentiallyConsistent)
        self.largest.store(largest, ordering: .sequentiallyConsistent)
    }

    var mostCost: Int { costLimit.load(ordering: .sequentiallyConsistent) }
    var mostCount: Int { countLimit.load(ordering: .sequentiallyConsistent) }

    func isRoom(for cost: Int) -> Bool {
        cost <= min(largest.load(ordering: .sequentiallyConsistent), mostCost) && mostCount > 0
    }

    /// Whether entries leave the trial next.
    var isTrialLong: Bool {
        let share = Double(trialShare.load(ordering: .relaxed)) / 1_000_000
        return Double(trialCost.load(ordering: .relaxed)) > Double(cost.load(ordering: .relaxed)) * share
    }

    /// An entry has come back that left a line too early, so the line gets more room.
    func learn(from line: MemoryLine) {
        // A quarter of an entry: with larger steps, few that come back move the share to and fro.
        let step = 250_000 / max(1, count.load(ordering: .relaxed))
        let share = trialShare.load(ordering: .relaxed) + (line == .trial ? step : -step)
        trialShare.store(min(max(share, 50_000), 900_000), ordering: .relaxed)
    }
}

struct MemoryEntry<Value: Sendable>: Sendable {
    let key: CacheKey
    let value: Value
    let cost: Int
    var lifetime: Lifetime
    /// In seconds since 1970.
    let stored, entered: TimeInterval
}

/// Takes over the entries that leave memory for want of room. It is called under a lock of the tier.
protocol MemoryMover<Value>: Sendable {
    associatedtype Value: Sendable
    /// Memory has an entry of the key from now on, or another one leaves at once.
    func enters(_ key: CacheKey)
    func leaves(_ entry: MemoryEntry<Value>)
}
