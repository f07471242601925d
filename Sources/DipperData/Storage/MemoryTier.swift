import Foundation
import Synchronization

/// The memory tier: the least recently used entry goes first, limited by cost and by number.
///
/// Entries are spread over shards, each with a lock of its own, so that threads do not wait for one another.
/// Every access stamps its entry with the time; an eviction takes the oldest of all shards' oldest entries, so
/// that the order is that of one list.
final class MemoryTier<Value: Sendable>: Sendable {
    struct Limits: Sendable, Hashable {
        /// The most that all entries together may cost, in bytes.
        var cost: Int
        /// The most entries; `nil` for no limit.
        var count: Int?
        /// A single entry may take no more than this share of `cost`.
        static var largestShare: Int { 10 }
    }

    private static var shardCount: Int { 16 }

    private let shards: [Shard<Value>]
    private let limits: Mutex<Limits>
    private let cost = Atomic<Int>(0)
    private let count = Atomic<Int>(0)
    private let now: @Sendable () -> Date

    /// - Parameter now: the time that lifetimes are measured by.
    init(limits: Limits, now: @escaping @Sendable () -> Date) {
        self.limits = Mutex(limits)
        self.now = now
        shards = (0..<Self.shardCount).map { _ in Shard() }
    }

    var totalCost: Int { cost.load(ordering: .relaxed) }
    var entryCount: Int { count.load(ordering: .relaxed) }

    /// The value, which becomes the most recently used; `nil` if there is none or it has expired.
    @inline(__always)
    func value(for key: CacheKey) -> Value? {
        let shard = shard(of: key)
        let found = shard.access(key, stamp: Self.stamp(), now: now().timeIntervalSince1970)
        if let expired = found.expired { account(removed: expired) }
        return found.value
    }

    func contains(_ key: CacheKey) -> Bool {
        shard(of: key).contains(key, now: now().timeIntervalSince1970)
    }

    /// Keeps a value in place of the one its key had. A value that costs more than a tenth of the limit is not
    /// kept, and neither is the old one.
    func insert(_ value: Value, for key: CacheKey, cost entryCost: Int, lifetime: Lifetime) {
        let limits = limits.withLock { $0 }
        guard entryCost <= limits.cost / Limits.largestShare,
            !lifetime.isExpired(at: now().timeIntervalSince1970)
        else {
            remove(key)
            return
        }
        let replaced = shard(of: key).insert(
            .init(key: key, value: value, cost: entryCost, lifetime: lifetime, stored: now().timeIntervalSince1970),
            stamp: Self.stamp())
        cost.add(entryCost, ordering: .relaxed)
        count.add(1, ordering: .relaxed)
        if let replaced { account(removed: replaced) }
        trim(toCost: limits.cost, count: limits.count)
    }

    func remove(_ key: CacheKey) {
        if let removed = shard(of: key).remove(key) { account(removed: removed) }
    }

    func removeAll() {
        removeAll { _ in true }
    }

    /// Removes what has expired, and what was stored before the moment given.
    func removeExpired(storedBefore limit: TimeInterval = -.infinity) {
        let now = now().timeIntervalSince1970
        removeAll { $0.lifetime.isExpired(at: now) || $0.stored < limit }
    }

    private func removeAll(where condition: (MemoryEntry<Value>) -> Bool) {
        for shard in shards {
            for removed in shard.remove(where: condition) { account(removed: removed) }
        }
    }

    /// Changes the limits; what is too much goes at once.
    func setLimits(_ new: Limits) {
        limits.withLock { $0 = new }
        trim(toCost: new.cost, count: new.count)
    }

    /// Removes the least recently used entries until no more than this is left. The limits stay.
    func trim(toCost maximum: Int, count maximumCount: Int? = nil) {
        while totalCost > maximum || entryCount > maximumCount ?? .max {
            guard let oldest = shards.min(by: { $0.oldestStamp < $1.oldestStamp }), oldest.oldestStamp < .max,
                let removed = oldest.removeOldest()
            else { return }
            account(removed: removed)
        }
    }

    private func account(removed entry: MemoryEntry<Value>) {
        cost.subtract(entry.cost, ordering: .relaxed)
        count.subtract(1, ordering: .relaxed)
    }

    @inline(__always)
    private func shard(of key: CacheKey) -> Shard<Value> {
        shards[Int(truncatingIfNeeded: key.hashCode >> 60)]
    }

    @inline(__always)
    private static func stamp() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
    }
}

/// What the memory tier keeps for a key.
struct MemoryEntry<Value: Sendable>: Sendable {
    let key: CacheKey
    let value: Value
    let cost: Int
    var lifetime: Lifetime
    /// Seconds since 1970.
    let stored: TimeInterval
}

/// A part of the memory tier: a dictionary, and a list from the most to the least recently used.
private final class Shard<Value: Sendable>: Sendable {
    private struct Node: Sendable {
        var entry: MemoryEntry<Value>?
        var stamp: UInt64
        /// Towards the more recently used.
        var newer: Int32
        /// Towards the less recently used; the next free node while free.
        var older: Int32
    }

    private struct State: Sendable {
        var indices: [CacheKey: Int32] = [:]
        var nodes: [Node] = []
        var newest: Int32 = -1
        var oldest: Int32 = -1
        var free: Int32 = -1
    }

    private let state = Mutex(State())
    /// The stamp of the least recently used entry, to be read without the lock.
    private let oldest = Atomic<UInt64>(.max)

    var oldestStamp: UInt64 { oldest.load(ordering: .relaxed) }

    @inline(__always)
    func access(_ key: CacheKey, stamp: UInt64, now: TimeInterval) -> (value: Value?, expired: MemoryEntry<Value>?) {
        state.withLock { state in
            guard let index = state.indices[key], let lifetime = state.nodes[Int(index)].entry?.lifetime
            else { return (nil, nil) }
            if lifetime.expires != .infinity {
                if lifetime.isExpired(at: now) { return (nil, take(index, &state)) }
                if lifetime.accessExtension != nil {
                    state.nodes[Int(index)].entry?.lifetime.expires = lifetime.expires(accessedAt: now)
                }
            }
            state.nodes[Int(index)].stamp = stamp
            if state.newest != index {
                unlink(index, &state)
                linkNewest(index, &state)
            }
            publishOldest(state)
            return (state.nodes[Int(index)].entry?.value, nil)
        }
    }

    func contains(_ key: CacheKey, now: TimeInterval) -> Bool {
        state.withLock { state in
            guard let index = state.indices[key], let entry = state.nodes[Int(index)].entry else { return false }
            return !entry.lifetime.isExpired(at: now)
        }
    }

    /// The entry that was there before.
    func insert(_ entry: MemoryEntry<Value>, stamp: UInt64) -> MemoryEntry<Value>? {
        state.withLock { state in
            let replaced = state.indices[entry.key].flatMap { take($0, &state) }
            let index: Int32
            if state.free >= 0 {
                index = state.free
                state.free = state.nodes[Int(index)].older
                state.nodes[Int(index)] = Node(entry: entry, stamp: stamp, newer: -1, older: -1)
            } else {
                index = Int32(state.nodes.count)
                state.nodes.append(Node(entry: entry, stamp: stamp, newer: -1, older: -1))
            }
            state.indices[entry.key] = index
            linkNewest(index, &state)
            publishOldest(state)
            return replaced
        }
    }

    func remove(_ key: CacheKey) -> MemoryEntry<Value>? {
        state.withLock { state in state.indices[key].flatMap { take($0, &state) } }
    }

    func removeOldest() -> MemoryEntry<Value>? {
        state.withLock { state in state.oldest >= 0 ? take(state.oldest, &state) : nil }
    }

    func remove(where condition: (MemoryEntry<Value>) -> Bool) -> [MemoryEntry<Value>] {
        state.withLock { state in
            var removed: [MemoryEntry<Value>] = []
            for index in state.nodes.indices {
                if let entry = state.nodes[index].entry, condition(entry), let taken = take(Int32(index), &state) {
                    removed.append(taken)
                }
            }
            return removed
        }
    }

    // MARK: Under the lock

    private func take(_ index: Int32, _ state: inout State) -> MemoryEntry<Value>? {
        unlink(index, &state)
        let entry = exchange(&state.nodes[Int(index)].entry, with: nil)
        state.nodes[Int(index)].older = state.free
        state.free = index
        if let entry { state.indices[entry.key] = nil }
        publishOldest(state)
        return entry
    }

    @inline(__always)
    private func unlink(_ index: Int32, _ state: inout State) {
        let newer = state.nodes[Int(index)].newer
        let older = state.nodes[Int(index)].older
        if newer >= 0 { state.nodes[Int(newer)].older = older } else { state.newest = older }
        if older >= 0 { state.nodes[Int(older)].newer = newer } else { state.oldest = newer }
    }

    @inline(__always)
    private func linkNewest(_ index: Int32, _ state: inout State) {
        let newest = state.newest
        state.nodes[Int(index)].newer = -1
        state.nodes[Int(index)].older = newest
        if newest >= 0 { state.nodes[Int(newest)].newer = index } else { state.oldest = index }
        state.newest = index
    }

    @inline(__always)
    private func publishOldest(_ state: borrowing State) {
        let stamp = state.oldest >= 0 ? state.nodes[Int(state.oldest)].stamp : .max
        oldest.store(stamp, ordering: .relaxed)
    }
}
