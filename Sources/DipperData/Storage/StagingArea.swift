import Foundation

/// What is on its way to the disk, by key: reads look here first. A value; its owner locks it.
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
        /// Called when the change has been carried out, has failed, or has been replaced.
        var whenDone: [@Sendable () -> Void] = []
    }

    /// What a removal takes away.
    enum Scope: Hashable {
        case all
        /// What was made from an entry; see ``CacheKey/isDerived(of:)``.
        case derived(of: CacheKey)

        func covers(_ key: CacheKey) -> Bool {
            switch self {
            case .all: true
            case .derived(let origin): key.isDerived(of: origin)
            }
        }
    }

    private var items: [CacheKey: Item] = [:]
    private var queue: [(key: CacheKey, number: UInt64)] = []
    private var head = 0
    private var nextNumber: UInt64 = 0
    /// Bytes of all entries that wait to be written.
    private(set) var bytes = 0
    /// Removals under way: everything older that they cover is gone, though it may still be on disk.
    private var removals: [Scope] = []

    /// Whether what is on disk under the key does not count any more.
    func isBeingRemoved(_ key: CacheKey) -> Bool { removals.contains { $0.covers(key) } }

    subscript(key: CacheKey) -> Item? { items[key] }

    /// The change that this one takes the place of, for the caller to release outside its lock.
    mutating func add(
        _ change: Change, for key: CacheKey, _ durability: Durability = .relaxed,
        whenDone: (@Sendable () -> Void)? = nil
    ) -> Item? {
        nextNumber += 1
        var item = Item(key: key, number: nextNumber, change: change, durability: durability)
        if let whenDone { item.whenDone = [whenDone] }
        var replaced = items[key]
        if case .write = change, let old = replaced, old.durability == .durable {
            // Who waits for the device waits for what takes the entry's place.
            item.durability = .durable
            item.whenDone = old.whenDone + item.whenDone
            replaced?.whenDone = []
        }
        items[key] = item
        queue.append((key, nextNumber))
        if let replaced { bytes -= replaced.bytes }
        if case .write(let record) = change { bytes += record.value.data.count }
        return replaced
    }

    /// The next changes to carry out, oldest first. They stay visible to reads until ``finish(_:)``.
    mutating func nextBatch(count: Int, bytes limit: Int) -> [Item] {
        var batch: [Item] = []
        var size = 0
        // What was staged after a removal waits for it.
        if !removals.isEmpty { return [] }
        while head < queue.count, batch.count < count, size < limit {
            let next = queue[head]
            head += 1
            // A change that was replaced meanwhile is not carried out.
            guard let item = items[next.key], item.number == next.number else { continue }
            batch.append(item)
            size += item.bytes
        }
        if head == queue.count || head > 4_096 {
            queue.removeFirst(head)
            head = 0
        }
        return batch
    }

    /// Takes out what has been carried out, and gives it back; what was replaced or cleared meanwhile is not there.
    mutating func finish(_ batch: [Item]) -> [Item] {
        batch.filter { item in
            guard items[item.key]?.number == item.number else { return false }
            items[item.key] = nil
            bytes -= item.bytes
            return true
        }
    }

    /// Forgets what waits and is covered; until ``endRemoving(_:)`` nothing of it on disk counts.
    mutating func beginRemoving(_ scope: Scope) -> [Item] {
        removals.append(scope)
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
}

extension StagingArea.Item {
    var bytes: Int {
        if case .write(let record) = change { record.value.data.count } else { 0 }
    }
}
