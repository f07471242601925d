import Foundation

/// The changes that are not yet on disk, by key. Reads look here first. A value; its owner locks it.
struct StagingArea {
    enum Change {
        case write(EntryRecord)
        case remove
    }

    struct Item {
        let key: CacheKey
        let number: UInt64
        let change: Change
        var durability = Durability.relaxed
        /// Callbacks, each called once: with `true` when the entry is on disk, or with `false` if it will not be.
        var whenDone: [@Sendable (Bool) -> Void] = []
        /// The place in the queue; `nil` once the change is being carried out.
        fileprivate var place: UInt64?
    }

    /// The result of carrying out a batch on disk.
    struct Outcome {
        /// The numbers of the items that were not carried out.
        var failed: Set<UInt64> = []
        /// The keys whose earlier version could not be removed from the disk either.
        var stuck: Set<CacheKey> = []
        /// The keys of ``StagingArea/hidden`` whose earlier version has been removed since.
        var freed: Set<CacheKey> = []
    }

    /// The set of entries that a removal covers.
    enum Scope: Hashable {
        case all
        /// The entries derived from an entry; see ``CacheKey/isDerived(of:)``.
        case derived(of: CacheKey)

        func covers(_ key: CacheKey) -> Bool {
            switch self {
            case .all: true
            case .derived(let origin): key.isDerived(of: origin)
            }
        }
    }

    private var items: [CacheKey: Item] = [:]
    private var queue: [(key: CacheKey, place: UInt64)] = []
    private var head = 0
    private var nextNumber: UInt64 = 0
    /// The estimated memory of all changes that wait or are being carried out, in bytes.
    private(set) var bytes = 0
    /// The removals in progress. Older entries that they cover count as removed, even while they are still on disk.
    private(set) var removals: [Scope] = []
    /// The keys whose version on disk is out of date and could not be removed.
    private(set) var hidden: Set<CacheKey> = []

    /// Returns whether the version on disk no longer counts for the key, whatever is staged.
    func isHidden(_ key: CacheKey) -> Bool { removals.contains { $0.covers(key) } || hidden.contains(key) }

    subscript(key: CacheKey) -> Item? { items[key] }

    /// Returns whether a change would take more than `limit` bytes together with all other changes. A change alone is
    /// never too large.
    func isFull(_ limit: Int, for change: Change, of key: CacheKey) -> Bool {
        let others = bytes - (items[key]?.bytes ?? 0)
        return others > 0 && others + Self.bytes(change, key) > limit
    }

    /// Adds a change, which replaces the one that waits for its key. Callers that wait for a replaced write wait for
    /// the new write, which is durable if one of the two is.
    /// - Returns: the replaced change, which the caller releases outside its lock. Its `whenDone` contains the
    ///   callbacks to be told that their entry will not be on disk.
    mutating func add(
        _ change: Change, for key: CacheKey, _ durability: Durability = .relaxed,
        whenDone: (@Sendable (Bool) -> Void)? = nil
    ) -> Item? {
        nextNumber += 1
        var item = Item(key: key, number: nextNumber, change: change, durability: durability)
        if let whenDone { item.whenDone = [whenDone] }
        var replaced = items[key]
        if case .write = change, let old = replaced {
            if old.durability == .durable { item.durability = .durable }
            item.whenDone = old.whenDone + item.whenDone
            replaced?.whenDone = []
        }
        // A key has one place, however often it changes before its turn.
        item.place = replaced?.place ?? nextNumber
        if replaced?.place == nil { queue.append((key, nextNumber)) }
        items[key] = item
        bytes += item.bytes - (replaced?.bytes ?? 0)
        return replaced
    }

    /// Adds a callback to the staged write of a key. The write becomes durable if the caller wants that.
    /// - Returns: `false` if no write of the key waits or is being carried out.
    mutating func join(_ key: CacheKey, _ durability: Durability, whenDone: @escaping @Sendable (Bool) -> Void) -> Bool
    {
        guard let item = items[key], case .write = item.change else { return false }
        if durability == .durable, item.durability != .durable, item.place == nil {
            // A write that has begun cannot become durable any more, so the record is written once more.
            let replaced = add(item.change, for: key, .durable, whenDone: whenDone)
            assert(replaced?.whenDone.isEmpty != false)
            return true
        }
        if durability == .durable { items[key]?.durability = .durable }
        items[key]?.whenDone.append(whenDone)
        return true
    }

    /// Returns the next changes to carry out, oldest first. They stay visible to reads until ``finish(_:_:)``.
    mutating func nextBatch(count: Int, bytes limit: Int) -> [Item] {
        var batch: [Item] = []
        var size = 0
        // Changes that were staged after a removal wait until it has ended.
        if !removals.isEmpty { return [] }
        while head < queue.count, batch.count < count, size < limit {
            let next = queue[head]
            head += 1
            guard let item = items[next.key], item.place == next.place else { continue }
            items[next.key]?.place = nil
            batch.append(item)
            size += item.bytes
        }
        if head == queue.count || head > 4_096 {
            queue.removeFirst(head)
            head = 0
        }
        return batch
    }

    /// Removes a batch that has been carried out. Returns its items, each with whether it succeeded, except those that
    /// were replaced or removed meanwhile.
    mutating func finish(_ batch: [Item], _ outcome: Outcome) -> [(item: Item, isDone: Bool)] {
        hidden.subtract(outcome.freed)
        return batch.compactMap { item in
            let isDone = !outcome.failed.contains(item.number)
            if outcome.stuck.contains(item.key) { hidden.insert(item.key) } else { hidden.remove(item.key) }
            guard let present = items[item.key], present.number == item.number else { return nil }
            items[item.key] = nil
            bytes -= item.bytes
            return (present, isDone)
        }
    }

    /// Removes the staged changes that a removal covers. Entries on disk that it covers do not count until
    /// ``endRemoving(_:)``.
    mutating func beginRemoving(_ scope: Scope) -> [Item] {
        removals.append(scope)
        return drop(scope)
    }

    /// Removes the staged changes that a removal covers.
    mutating func drop(_ scope: Scope) -> [Item] {
        let dropped = items.values.filter { scope.covers($0.key) }
        for item in dropped {
            items[item.key] = nil
            bytes -= item.bytes
        }
        if items.isEmpty {
            queue = []
            head = 0
        }
        return dropped
    }

    mutating func endRemoving(_ scope: Scope) {
        if let index = removals.firstIndex(of: scope) { removals.remove(at: index) }
    }

    /// Replaces staged writes of entries that were stored before `limit` by removals of their keys.
    /// - Returns: the replaced writes.
    mutating func removeWrites(storedBefore limit: TimeInterval) -> [Item] {
        let old = items.values.filter { item in
            if case .write(let record) = item.change { record.value.info.stored < limit } else { false }
        }
        return old.compactMap { add(.remove, for: $0.key) }
    }

    fileprivate static func bytes(_ change: Change, _ key: CacheKey) -> Int {
        switch change {
        case .write(let record): record.value.cost(for: key)
        case .remove: key.string.utf8.count + 256
        }
    }
}

extension StagingArea.Item {
    /// An estimate of the memory that the change takes while it waits, in bytes.
    var bytes: Int { StagingArea.bytes(change, key) }
}
