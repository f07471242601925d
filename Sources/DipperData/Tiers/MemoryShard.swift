import Foundation
import Synchronization

/// A part of the memory tier: a table of keys, and a list from the most to the least recently used entry. A spared
/// entry counts as used at that moment.
final class MemoryShard<Value: Sendable>: Sendable {
    private struct Node: Sendable {
        var key: CacheKey
        var value: Value?
        var stamp: UInt64
        var lifetime: Lifetime
        /// Insertion counts as a use, so that a new entry does not leave before older ones that are no better.
        var uses: UInt8 = 1
        /// -1 for none.
        var newer: Int32 = -1
        /// In the list of free nodes, the next one; -1 for none.
        var older: Int32 = -1
        // A hit does not read these.
        var cost: Int
        var stored: TimeInterval
        var entered: TimeInterval
    }

    private struct State: ~Copyable {
        var table = KeyTable()
        var nodes = SlotStorage<Node>()
        var newest: Int32 = -1
        var oldest: Int32 = -1
        var free: Int32 = -1
        var changes: UInt64 = 0

        @inline(__always)
        func find(_ key: CacheKey) -> Int32 {
            let nodes = nodes.start
            return table.find(key.hashCode) { nodes[Int($0)].key == key }
        }
    }

    private let state = Mutex(State())
    private let order: EvictionOrder
    private let noKey = CacheKey("")
    /// The stamp of the least recently used entry, readable without the lock.
    private let oldest = Atomic<UInt64>(.max)

    init(_ order: EvictionOrder) {
        self.order = order
    }

    var oldestStamp: UInt64 { oldest.load(ordering: .relaxed) }

    @inline(__always)
    func access<Part: Sendable>(
        _ key: CacheKey, stamp: UInt64, now: TimeInterval, part: (borrowing Value) -> Part
    ) -> (part: Part?, expired: MemoryEntry<Value>?) {
        state.withLock { state in
            let index = state.find(key)
            guard index >= 0 else { return (nil, nil) }
            let node = state.nodes.start + Int(index)
            let lifetime = node.pointee.lifetime
            if lifetime.isExpired(at: now) { return (nil, take(index, &state)) }
            if lifetime.accessExtension != nil { node.pointee.lifetime.expires = lifetime.expires(accessedAt: now) }
            node.pointee.stamp = stamp
            if order.countsUses { node.pointee.uses = EvictionOrder.counted(node.pointee.uses) }
            // mutant MemoryTier|Eviction: `if state.newest != index {` => `if state.newest == index {`
            if state.newest != index {
                let wasOldest = state.oldest == index
                unlink(index, &state)
                linkNewest(index, &state)
                if wasOldest { publishOldest(state) }
            } else if state.oldest == index {
                publishOldest(state)
            }
            return (node.pointee.value.map(part), nil)
        }
    }

    /// Changes the lifetime, given the present one and when the entry was inserted. Returns an entry that expires by
    /// that.
    func change(
        _ key: CacheKey, now: TimeInterval, _ lifetime: (Lifetime, _ entered: TimeInterval) -> Lifetime
    ) -> MemoryEntry<Value>? {
        state.withLock { state in
            let index = state.find(key)
            guard index >= 0 else { return nil }
            let node = state.nodes.start + Int(index)
            if node.pointee.lifetime.isExpired(at: now) { return nil }
            let changed = lifetime(node.pointee.lifetime, node.pointee.entered)
            node.pointee.lifetime = changed
            return changed.isExpired(at: now) ? take(index, &state) : nil
        }
    }

    /// Counts no use.
    func peek<Part: Sendable>(_ key: CacheKey, now: TimeInterval, _ part: (borrowing Value) -> Part) -> Part? {
        state.withLock { state in
            let index = state.find(key)
            guard index >= 0, !state.nodes.start[Int(index)].lifetime.isExpired(at: now) else { return nil }
            return state.nodes.start[Int(index)].value.map(part)
        }
    }

    /// Counts also removals of absent keys, but neither evictions nor entries that an access finds expired.
    var changes: UInt64 { state.withLock { $0.changes } }

    /// Makes insertions fail of entries that were read from disk before.
    func noteChange() { state.withLock { $0.changes += 1 } }

    /// Does nothing if there have been other changes since `changes`, or if the insertion is not allowed.
    func insert(
        _ entry: MemoryEntry<Value>, stamp: UInt64, now: TimeInterval, unlessChangedSince changes: UInt64?,
        ifAllowed isAllowed: () -> Bool
    ) -> (replaced: MemoryEntry<Value>?, isInserted: Bool) {
        state.withLock { state in
            if let changes, changes != state.changes { return (nil, false) }
            guard isAllowed() else { return (nil, false) }
            state.changes += 1
            let present = state.find(entry.key)
            let replaced = present >= 0 ? take(present, &state) : nil
            let index: Int32
            let node = Node(
                key: entry.key, value: entry.value, stamp: stamp, lifetime: entry.lifetime, cost: entry.cost,
                stored: entry.stored, entered: now)
            if state.free >= 0 {
                index = state.free
                state.free = state.nodes.start[Int(index)].older
                state.nodes.start[Int(index)] = node
            } else {
                index = Int32(state.nodes.count)
                state.nodes.append(node)
            }
            state.table.insert(entry.key.hashCode, index)
            linkNewest(index, &state)
            publishOldest(state)
            return (replaced, true)
        }
    }

    func remove(_ key: CacheKey, if isWanted: () -> Bool = { true }) -> MemoryEntry<Value>? {
        state.withLock { state in
            guard isWanted() else { return nil }
            state.changes += 1
            let index = state.find(key)
            return index >= 0 ? take(index, &state) : nil
        }
    }

    /// `nil` if there is no entry, or if the eviction order spares the least recently used one.
    /// - Parameter stamp: for a spared entry.
    func removeOldest(stamp: UInt64) -> MemoryEntry<Value>? {
        state.withLock { state -> MemoryEntry<Value>? in
            // mutant MemoryTier|Eviction: `let index = state.oldest` => `let index = state.newest`
            let index = state.oldest
            guard index >= 0 else { return nil }
            let node = state.nodes.start + Int(index)
            guard let uses = order.spared(node.pointee.uses) else { return take(index, &state) }
            node.pointee.uses = uses
            node.pointee.stamp = stamp
            unlink(index, &state)
            linkNewest(index, &state)
            publishOldest(state)
            return nil
        }
    }

    func remove(where condition: (Value, Lifetime, _ stored: TimeInterval) -> Bool) -> [MemoryEntry<Value>] {
        state.withLock { state in
            state.changes += 1
            var removed: [MemoryEntry<Value>] = []
            for index in 0..<state.nodes.count {
                let node = state.nodes.start + index
                if let value = node.pointee.value, condition(value, node.pointee.lifetime, node.pointee.stored),
                    let taken = take(Int32(index), &state)
                {
                    removed.append(taken)
                }
            }
            return removed
        }
    }

    /// The caller releases the entry outside the lock.
    private func take(_ index: Int32, _ state: inout State) -> MemoryEntry<Value>? {
        let node = state.nodes.start + Int(index)
        guard let value = exchange(&node.pointee.value, with: nil) else { return nil }
        let entry = MemoryEntry(
            key: exchange(&node.pointee.key, with: noKey), value: value, cost: node.pointee.cost,
            lifetime: node.pointee.lifetime, stored: node.pointee.stored)
        state.table.remove(entry.key.hashCode, index)
        unlink(index, &state)
        node.pointee.older = state.free
        state.free = index
        publishOldest(state)
        return entry
    }

    @inline(__always)
    private func unlink(_ index: Int32, _ state: inout State) {
        let newer = state.nodes.start[Int(index)].newer
        let older = state.nodes.start[Int(index)].older
        if newer >= 0 { state.nodes.start[Int(newer)].older = older } else { state.newest = older }
        if older >= 0 { state.nodes.start[Int(older)].newer = newer } else { state.oldest = newer }
    }

    @inline(__always)
    private func linkNewest(_ index: Int32, _ state: inout State) {
        let newest = state.newest
        state.nodes.start[Int(index)].newer = -1
        state.nodes.start[Int(index)].older = newest
        if newest >= 0 { state.nodes.start[Int(newest)].newer = index } else { state.oldest = index }
        state.newest = index
    }

    @inline(__always)
    private func publishOldest(_ state: borrowing State) {
        let stamp = state.oldest >= 0 ? state.nodes.start[Int(state.oldest)].stamp : .max
        oldest.store(stamp, ordering: .relaxed)
    }
}
