import DequeModule
import Foundation

/// The changes that a tier has yet to carry out. A value. The latest change of a name replaces one that waits. Changes
/// begin in the order in which their names came, a few at a time, and never two of one name.
struct TierChanges: Sendable {
    enum Change: Sendable {
        case store(Data, until: Date?)
        case remove

        /// In bytes; for an empty record 1, so that it counts as a record.
        fileprivate var size: Int { if case .store(let record, _) = self { max(1, record.count) } else { 0 } }
    }

    static let mostRunning = 4

    private var order = Deque<String>()
    private var waiting: [String: Change] = [:]
    private var running: [String: Change] = [:]
    /// The size of the records that wait or are being stored, in bytes.
    private(set) var size = 0
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    var isEmpty: Bool { waiting.isEmpty && running.isEmpty }
    var isRunning: Bool { !running.isEmpty }

    subscript(name: String) -> Change? { waiting[name] ?? running[name] }

    var mayBegin: Bool { running.count < Self.mostRunning && !waiting.isEmpty }

    var count: Int { waiting.count }

    /// A record for which there is no room is not stored.
    /// - Returns: the changes that are dropped, to be released without a lock.
    mutating func add(_ change: Change, to name: String) -> [Change] {
        let replaced = waiting.removeValue(forKey: name)
        size -= replaced?.size ?? 0
        let dropped = replaced.map { [$0] } ?? []
        guard size + change.size <= limit else { return dropped + [change] }
        size += change.size
        if replaced == nil { order.append(name) }
        waiting[name] = change
        return dropped
    }

    mutating func next() -> (name: String, change: Change)? {
        guard running.count < Self.mostRunning else { return nil }
        while let index = order.firstIndex(where: { running[$0] == nil }) {
            let name = order.remove(at: index)
            // The change may have been dropped.
            guard let change = waiting.removeValue(forKey: name) else { continue }
            running[name] = change
            return (name, change)
        }
        return nil
    }

    /// - Parameter isLost: whether the tier has not carried it out. A removal is then tried again, unless another
    ///   change of the name waits; a record is given up.
    /// - Returns: the change, to be released without a lock.
    mutating func ended(_ name: String, isLost: Bool) -> Change? {
        guard let change = running.removeValue(forKey: name) else { return nil }
        size -= change.size
        if isLost, case .remove = change, waiting[name] == nil {
            waiting[name] = .remove
            order.append(name)
        }
        return change
    }

    /// - Returns: the changes that are dropped, to be released without a lock.
    mutating func dropRecords() -> [Change] {
        let dropped = waiting.filter { $0.value.size > 0 }
        for (name, change) in dropped {
            size -= change.size
            waiting[name] = nil
        }
        order.removeAll { waiting[$0] == nil }
        return Array(dropped.values)
    }

    /// - Returns: the changes that are dropped, to be released without a lock.
    mutating func dropAll() -> [Change] {
        let dropped = Array(waiting.values)
        size -= dropped.reduce(0) { $0 + $1.size }
        waiting = [:]
        order = []
        return dropped
    }
}
