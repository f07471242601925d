import Foundation

/// The changes that are not yet on disk, by key. Reads look here first. A value; its owner locks it.
struct StagingArea {
    /// The place of an entry or a partial body.
    struct Slot: Hashable {
        let key: CacheKey
        var table = EntryIndex.Table.entry
    }

    enum Change {
        case write(EntryRecord)
        case remove
    }

    struct Item {
        let slot: Slot
        let number: UInt64
        let change: Change
        var durability = Durability.relaxed
        /// Each called once, with whether the entry is on disk.
        var whenDone: [@Sendable (Bool) -> Void] = []
        /// `nil` once the change is being carried out.
        fileprivate var place: UInt64?
    }

    struct Outcome {
        /// The numbers of the items that were not carried out.
        var failed: Set<UInt64> = []
        /// Their earlier version could not be removed from the disk either.
        var stuck: Set<Slot> = []
        /// Slots of ``StagingArea/hidden`` whose earlier version has been removed since.
        var freed: Set<Slot> = []
    }

    enum Scope: Hashable {
        case all
        case derived(of: CacheKey)

        func covers(_ slot: Slot) -> Bool {
            switch self {
            case .all: true
            case .derived(let origin): slot.table == .entry && slot.key.isDerived(of: origin)
            }
        }
    }

    private var items: [Slot: Item] = [:]
    private var queue: [(slot: Slot, place: UInt64)] = []
    private var head = 0
    private var nextNumber: UInt64 = 0
    /// The estimated memory of all changes that wait or are being carried out.
    private(set) var bytes = 0
    /// In progress. Older entries that they cover count as removed, even while they are still on disk.
    private(set) var removals: [Scope] = []
    /// Removals that could not be carried out, and must be before anything is written, with the times at which they
    /// began. Earlier entries that they cover count as removed, too.
    private(set) var left: [Scope: TimeInterval] = [:]
    /// Their version on disk is out of date and could not be removed.
    private(set) var hidden: Set<Slot> = []

    /// Whether the version on disk no longer counts, whatever is staged.
    func isHidden(_ slot: Slot) -> Bool { removals.contains { $0.covers(slot) } || hidden.contains(slot) }

    /// Versions on disk from before this time no longer count.
    func goneBefore(_ slot: Slot) -> TimeInterval {
        left.isEmpty ? -.infinity : left.filter { $0.key.covers(slot) }.values.max() ?? -.infinity
    }

    subscript(slot: Slot) -> Item? { items[slot] }

    /// Returns whether a change would exceed `limit` bytes together with all others. A change alone is never too large.
    func isFull(_ limit: Int, for change: Change, of slot: Slot) -> Bool {
        let others = bytes - (items[slot]?.bytes ?? 0)
        return others > 0 && others + Self.bytes(change, slot.key) > limit
    }

    /// Adds a change, which replaces the one that waits for its key. Callers that wait for a replaced write wait for
    /// the new write, which is durable if one of the two is.
    /// - Returns: the replaced change, which the caller releases outside its lock. Its `whenDone` contains the
    ///   callbacks to be told that their entry will not be on disk.
    mutating func add(
        _ change: Change, for slot: Slot, _ durability: Durability = .relaxed,
        whenDone: (@Sendable (Bool) -> Void)? = nil
    ) -> Item? {
        nextNumber += 1
        var item = Item(slot: slot, number: nextNumber, change: change, durability: durability)
        if let whenDone { item.whenDone = [whenDone] }
        var replaced = items[slot]
        if case .write = change, let old = replaced {
            if old.durability == .durable { item.durability = .durable }
            item.whenDone = old.whenDone + item.whenDone
            replaced?.whenDone = []
        }
        // A key has one place, however often it changes before its turn.
        item.place = replaced?.place ?? nextNumber
        if replaced?.place == nil { queue.append((slot, nextNumber)) }
        items[slot] = item
        bytes += item.bytes - (replaced?.bytes ?? 0)
        return replaced
    }

    /// Adds a callback to a staged write. The write becomes durable if the caller wants that.
    /// - Returns: `false` if no write waits or is being carried out.
    mutating func join(_ slot: Slot, _ durability: Durability, whenDone: @escaping @Sendable (Bool) -> Void) -> Bool {
        guard let item = items[slot], case .write = item.change else { return false }
        if durability == .durable, item.durability != .durable, item.place == nil {
            // A write that has begun cannot become durable any more, so the record is written once more.
            let replaced = add(item.change, for: slot, .durable, whenDone: whenDone)
            assert(replaced?.whenDone.isEmpty != false)
            return true
        }
        if durability == .durable { items[slot]?.durability = .durable }
        items[slot]?.whenDone.append(whenDone)
        return true
    }

    /// The oldest changes. They stay visible to reads until ``finish(_:_:)``.
    mutating func nextBatch(count: Int, bytes limit: Int) -> [Item] {
        var batch: [Item] = []
        var size = 0
        // Changes that were staged after a removal wait until it has ended.
        if !removals.isEmpty { return [] }
        while head < queue.count, batch.count < count, size < limit {
            let next = queue[head]
            head += 1
            guard let item = items[next.slot], item.place == next.place else { continue }
            items[next.slot]?.place = nil
            batch.append(item)
            size += item.bytes
        }
        if head == queue.count || head > 4_096 {
            queue.removeFirst(head)
            head = 0
        }
        return batch
    }

    var latest: UInt64 { nextNumber }

    func isWaiting(upTo number: UInt64) -> Bool {
        queue[head...].first { items[$0.slot]?.place == $0.place }.map { $0.place <= number } ?? false
    }

    /// Returns the items that were not replaced or removed meanwhile, each with whether it succeeded.
    mutating func finish(_ batch: [Item], _ outcome: Outcome) -> [(item: Item, isDone: Bool)] {
        hidden.subtract(outcome.freed)
        defer {
            // So many are not remembered one by one.
            if hidden.count > 4_096 {
                hidden = []
                left[.all] = .infinity
            }
        }
        return batch.compactMap { item in
            let isDone = !outcome.failed.contains(item.number)
            if outcome.stuck.contains(item.slot) { hidden.insert(item.slot) } else { hidden.remove(item.slot) }
            guard let present = items[item.slot], present.number == item.number else { return nil }
            items[item.slot] = nil
            bytes -= item.bytes
            return (present, isDone)
        }
    }

    /// Entries on disk that the removal covers do not count until ``endRemoving(_:isDone:begun:)``.
    mutating func beginRemoving(_ scope: Scope) -> [Item] {
        removals.append(scope)
        return drop(scope)
    }

    mutating func drop(_ scope: Scope) -> [Item] {
        let dropped = items.values.filter { scope.covers($0.slot) }
        for item in dropped {
            items[item.slot] = nil
            bytes -= item.bytes
        }
        if items.isEmpty {
            queue = []
            head = 0
        }
        return dropped
    }

    mutating func drop(_ slot: Slot) -> Item? {
        guard let item = items.removeValue(forKey: slot) else { return nil }
        bytes -= item.bytes
        return item
    }

    mutating func endRemoving(_ scope: Scope, isDone: Bool, begun time: TimeInterval) {
        if let index = removals.firstIndex(of: scope) { removals.remove(at: index) }
        if !isDone {
            left[scope] = max(time, left[scope] ?? time)
        } else if let earlier = left[scope], earlier <= time {
            left[scope] = nil
        }
    }

    /// Replaces staged writes of entries that were stored before `limit` by removals of their keys.
    /// - Returns: the replaced writes.
    mutating func removeWrites(storedBefore limit: TimeInterval) -> [Item] {
        let old = items.values.filter { item in
            if case .write(let record) = item.change { record.value.info.stored < limit } else { false }
        }
        return old.compactMap { add(.remove, for: $0.slot) }
    }

    fileprivate static func bytes(_ change: Change, _ key: CacheKey) -> Int {
        switch change {
        case .write(let record): record.value.cost(for: key)
        case .remove: key.string.utf8.count + 256
        }
    }
}

extension StagingArea.Item {
    /// An estimate of the memory that the change takes while it waits.
    var bytes: Int { StagingArea.bytes(change, slot.key) }
}
