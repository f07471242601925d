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
        /// Called when the change has been carried out, has failed, or has been replaced.
        let whenDone: (@Sendable () -> Void)?
    }

    private var items: [CacheKey: Item] = [:]
    private var queue: [(key: CacheKey, number: UInt64)] = []
    private var head = 0
    private var nextNumber: UInt64 = 0
    /// Bytes of all entries that wait to be written.
    private(set) var bytes = 0
    /// Clears under way: everything older has been cleared, though the files may still be there.
    private var clears = 0

    var isClearing: Bool { clears > 0 }

    subscript(key: CacheKey) -> Item? { items[key] }

    /// The change that this one takes the place of, for the caller to release outside its lock.
    mutating func add(
        _ change: Change, for key: CacheKey, whenDone: (@Sendable () -> Void)? = nil
    ) -> Item? {
        nextNumber += 1
        let item = Item(key: key, number: nextNumber, change: change, whenDone: whenDone)
        let replaced = items.updateValue(item, forKey: key)
        queue.append((key, nextNumber))
        if let replaced { bytes -= replaced.bytes }
        if case .write(let record) = change { bytes += record.value.data.count }
        return replaced
    }

    /// The next changes to carry out, oldest first. They stay visible to reads until ``finish(_:)``.
    mutating func nextBatch(count: Int, bytes limit: Int) -> [Item] {
        var batch: [Item] = []
        var size = 0
        // What was staged after a clear waits for it.
        if isClearing { return [] }
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

    /// Forgets all that waits; until ``endClearing()`` nothing on disk counts.
    mutating func beginClearing() -> [CacheKey: Item] {
        clears += 1
        queue = []
        head = 0
        bytes = 0
        return exchange(&items, with: [:])
    }

    mutating func endClearing() { clears -= 1 }
}

extension StagingArea.Item {
    var bytes: Int {
        if case .write(let record) = change { record.value.data.count } else { 0 }
    }
}
