import Foundation
import Synchronization

/// A part of the memory tier: a table of keys, and the lines. A spared entry goes to the end of the main line.
final class MemoryShard<Value: MemoryValue>: Sendable {
    private struct Node: Sendable {
        var key: CacheKey
        var value: Value?
        var lifetime: Lifetime
        var uses: UInt8
        /// Whether the entry has been used since it took its place in the line.
        var isUsed = false
        var line: MemoryLine
        // A hit reads these only if it moves the entry.
        /// -1 for none.
        var newer: Int32 = -1
        /// In the list of free nodes, the next one; -1 for none.
        var older: Int32 = -1
        /// The number of its latest move.
        var stamp: UInt64 = 0
        var cost: Int
        var stored: TimeInterval
        var entered: TimeInterval
    }

    private struct Line {
        var newest: Int32 = -1
        var oldest: Int32 = -1
    }

    private struct State: ~Copyable {
        var table = KeyTable()
        var nodes = SlotStorage<Node>()
        var lines = InlineArray<2, Line>(repeating: Line())
        var free: Int32 = -1
        var departures = InlineArray<2, Departures> { _ in Departures() }

        /// The number of entries that left each line and are known.
        var remembered: Int { max(2, table.count / 2) }

        @inline(__always)
        func find(_ key: CacheKey) -> Int32 {
            let nodes = nodes.start
            return table.find(key.hash.first) { nodes[Int($0)].key == key }
        }
    }

    private let state = Mutex(State())
    /// Changed under the lock.
    private let ownChanges = Atomic<UInt64>(0)
    private let order: EvictionOrder
    private let totals: MemoryTotals
    private let mover: (any MemoryMover<Value>)?
    private let noKey = CacheKey("")
    // The stamps of the oldest entries, readable without the lock.
    private let oldestInMain = Atomic<UInt64>(.max)
    private let oldestOnTrial = Atomic<UInt64>(.max)

    init(_ order: EvictionOrder, _ totals: MemoryTotals, _ mover: (any MemoryMover<Value>)?) {
        self.order = order
        self.totals = totals
        self.mover = mover
    }

    func oldestStamp(_ line: MemoryLine) -> UInt64 {
        line == .main ? oldestInMain.load(ordering: .relaxed) : oldestOnTrial.load(ordering: .relaxed)
    }

    @inline(__always)
    func access<Part: Sendable>(
        _ key: CacheKey, now: TimeInterval, part: (borrowing Value) -> Part
    ) -> (part: Part?, isExpired: Bool) {
        state.withLock { state in
            let index = state.find(key)
            guard index >= 0 else { return (nil, false) }
            let node = state.nodes.start + Int(index)
            if node.pointee.lifetime.isExpired(at: now) { return (nil, true) }
            if node.pointee.lifetime.accessExtension != nil {
                node.pointee.lifetime.expires = node.pointee.lifetime.expires(accessedAt: now)
            }
            let uses = order.counted(node.pointee.uses)
            // Not written if it is the same: other threads may have the memory at hand.
            if uses != node.pointee.uses || !node.pointee.isUsed {
                node.pointee.uses = uses
                node.pointee.isUsed = true
            }
            if order.movesUsed {
                unlink(index, &state)
                linkNewest(index, .main, &state)
                publishOldest(.main, state)
            }
            return (node.pointee.value.map(part), false)
        }
    }

    func removeExpired(_ key: CacheKey, now: TimeInterval) -> MemoryEntry<Value>? {
        state.withLock { state in
            let index = state.find(key)
            guard index >= 0, state.nodes.start[Int(index)].lifetime.isExpired(at: now) else { return nil }
            return take(index, &state)
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
    var changes: UInt64 {
        ownChanges.load(ordering: .sequentiallyConsistent) &+ totals.sweeps.load(ordering: .sequentiallyConsistent)
    }

    /// Does nothing if there have been other changes since `changes`, or if the insertion is not allowed.
    func insert(
        _ entry: MemoryEntry<Value>, unlessChangedSince changes: UInt64?,
        ifAllowed isAllowed: () -> Bool
    ) -> (replaced: MemoryEntry<Value>?, isInserted: Bool) {
        state.withLock { state in
            if let changes, changes != self.changes { return (nil, false) }
            guard isAllowed() else { return (nil, false) }
            mover?.enters(entry.key)
            ownChanges.add(1, ordering: .sequentiallyConsistent)
            let present = state.find(entry.key)
            var (uses, line) = (order.newUses, MemoryLine.main)
            if !order.movesUsed {
                if present >= 0 {
                    let node = state.nodes.start + Int(present)
                    (uses, line) = (order.counted(node.pointee.uses), node.pointee.line)
                } else {
                    let left = [MemoryLine.trial, .main].first {
                        state.departures[$0.rawValue].contains(entry.key.hash.first, among: state.remembered)
                    }
                    if let left { totals.learn(from: left) }
                    line = left == nil ? .trial : .main
                }
            }
            let replaced = present >= 0 ? take(present, &state) : nil
            let index: Int32
            let node = Node(
                key: entry.key, value: entry.value, lifetime: entry.lifetime, uses: uses, isUsed: replaced != nil,
                line: line,
                cost: entry.cost, stored: entry.stored, entered: entry.entered)
            if state.free >= 0 {
                index = state.free
                state.free = state.nodes.start[Int(index)].older
                state.nodes.start[Int(index)] = node
            } else {
                index = Int32(state.nodes.count)
                state.nodes.append(node)
            }
            state.table.insert(entry.key.hash.first, index)
            linkNewest(index, line, &state)
            publishOldest(line, state)
            return (replaced, true)
        }
    }

    func remove(_ key: CacheKey, if condition: (Value) -> Bool = { _ in true }) -> MemoryEntry<Value>? {
        state.withLock { state in
            ownChanges.add(1, ordering: .sequentiallyConsistent)
            let index = state.find(key)
            guard index >= 0, state.nodes.start[Int(index)].value.map(condition) == true else { return nil }
            return take(index, &state)
        }
    }

    /// Does not keep an entry, nor the present one of its key.
    func refuse(_ entry: MemoryEntry<Value>, now: TimeInterval, ifAllowed isAllowed: () -> Bool) -> MemoryEntry<Value>?
    {
        state.withLock { state in
            guard isAllowed() else { return nil }
            mover?.enters(entry.key)
            if !entry.lifetime.isExpired(at: now) { mover?.leaves(entry) }
            ownChanges.add(1, ordering: .sequentiallyConsistent)
            return take(entry.key, &state)
        }
    }

    /// - Parameter isSparing: whether the eviction order may spare the oldest entry.
    /// - Returns: `nil` if there is no entry in the line, or if the oldest one is spared.
    func removeOldest(in line: MemoryLine, isSparing: Bool) -> MemoryEntry<Value>? {
        state.withLock { state -> MemoryEntry<Value>? in
            // mutant MemoryTier|Eviction: `state.lines[line.rawValue].oldest` => `state.lines[line.rawValue].newest`
            let index = state.lines[line.rawValue].oldest
            guard index >= 0 else { return nil }
            let node = state.nodes.start + Int(index)
            // mutant MemoryTier|Eviction: `node.pointee.uses, isUsed: node.pointee.isUsed` => `0, isUsed: false`
            guard isSparing, let turn = order.turn(node.pointee.uses, isUsed: node.pointee.isUsed, in: line) else {
                if !order.movesUsed {
                    state.departures[line.rawValue].add(node.pointee.key.hash.first, among: state.remembered)
                }
                let left = take(index, &state)
                if let mover, let left { mover.leaves(left) }
                return left
            }
            (node.pointee.uses, node.pointee.isUsed) = (turn.uses, false)
            unlink(index, &state)
            linkNewest(index, turn.line, &state)
            publishOldest(line, state)
            if turn.line != line { publishOldest(turn.line, state) }
            return nil
        }
    }

    func entries<Part: Sendable>(_ part: (CacheKey, Value, _ cost: Int, Lifetime, _ stored: TimeInterval) -> Part)
        -> [Part]
    {
        state.withLock { state in
            var found: [Part] = []
            for index in 0..<state.nodes.count {
                let node = state.nodes.start + index
                guard let value = node.pointee.value else { continue }
                found.append(
                    part(node.pointee.key, value, node.pointee.cost, node.pointee.lifetime, node.pointee.stored))
            }
            return found
        }
    }

    func remove(where condition: (Value, Lifetime, _ stored: TimeInterval) -> Bool) -> [MemoryEntry<Value>] {
        state.withLock { state in
            ownChanges.add(1, ordering: .sequentiallyConsistent)
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

    private func take(_ key: CacheKey, _ state: inout State) -> MemoryEntry<Value>? {
        let index = state.find(key)
        return index >= 0 ? take(index, &state) : nil
    }

    /// The caller releases the entry outside the lock.
    private func take(_ index: Int32, _ state: inout State) -> MemoryEntry<Value>? {
        let node = state.nodes.start + Int(index)
        guard let value = exchange(&node.pointee.value, with: nil) else { return nil }
        let entry = MemoryEntry(
            key: exchange(&node.pointee.key, with: noKey), value: value, cost: node.pointee.cost,
            lifetime: node.pointee.lifetime, stored: node.pointee.stored, entered: node.pointee.entered)
        state.table.remove(entry.key.hash.first, index)
        let line = node.pointee.line
        unlink(index, &state)
        node.pointee.older = state.free
        state.free = index
        publishOldest(line, state)
        return entry
    }

    @inline(__always)
    private func unlink(_ index: Int32, _ state: inout State) {
        let nodes = state.nodes.start
        let (newer, older) = (nodes[Int(index)].newer, nodes[Int(index)].older)
        let line = nodes[Int(index)].line
        if newer >= 0 { nodes[Int(newer)].older = older } else { state.lines[line.rawValue].newest = older }
        if older >= 0 { nodes[Int(older)].newer = newer } else { state.lines[line.rawValue].oldest = newer }
        if line == .trial { totals.trialCost.subtract(nodes[Int(index)].cost, ordering: .relaxed) }
    }

    @inline(__always)
    private func linkNewest(_ index: Int32, _ line: MemoryLine, _ state: inout State) {
        let nodes = state.nodes.start
        let newest = state.lines[line.rawValue].newest
        nodes[Int(index)].line = line
        nodes[Int(index)].stamp = totals.moves.add(1, ordering: .relaxed).newValue
        nodes[Int(index)].newer = -1
        nodes[Int(index)].older = newest
        if newest >= 0 { nodes[Int(newest)].newer = index } else { state.lines[line.rawValue].oldest = index }
        state.lines[line.rawValue].newest = index
        if line == .trial { totals.trialCost.add(nodes[Int(index)].cost, ordering: .relaxed) }
    }

    @inline(__always)
    private func publishOldest(_ line: MemoryLine, _ state: borrowing State) {
        let oldest = state.lines[line.rawValue].oldest
        let stamp = oldest >= 0 ? state.nodes.start[Int(oldest)].stamp : .max
        if line == .main {
            oldestInMain.store(stamp, ordering: .relaxed)
        } else {
            oldestOnTrial.store(stamp, ordering: .relaxed)
        }
    }
}
