/// The urgency of a piece of work.
protocol Urgency: Sendable {
    var queue: FetchQueue { get }
    var priority: Priority { get }
    init(queue: FetchQueue, priority: Priority)
}

/// The urgency of a call.
struct Wish: Urgency, Hashable {
    var queue: FetchQueue
    var priority: Priority
}

/// The waiters of a piece of work, and the urgency of the most urgent one. A value. Each change takes the same time,
/// whatever the number of waiters.
struct Wishes<Waiter: AnyObject & Sendable, Wish: Urgency>: Sendable {
    private struct Entry: Sendable {
        let waiter: Waiter
        let number: Int
        var wish: Wish
    }

    private var entries: [ObjectIdentifier: Entry] = [:]
    private var nextNumber = 0
    private var urgentCount = 0
    /// The number of waiters at each priority, in hundredths.
    private var counts: [Int: Int] = [:]
    /// A bit for each priority that a waiter has.
    private var levels: UInt128 = 0

    var isEmpty: Bool { entries.isEmpty }

    /// All waiters, the oldest first.
    var all: [Waiter] { entries.values.sorted { $0.number < $1.number }.map(\.waiter) }

    /// The urgency that the work takes from its waiters: the most urgent queue and the highest priority.
    var strongest: Wish {
        let level = levels == 0 ? Self.level(.normal) : 127 - levels.leadingZeroBitCount
        return Wish(queue: urgentCount > 0 ? .fast : .slow, priority: Priority(Double(level) / 100))
    }

    /// Adds a waiter, or changes the wish of one that is already there.
    mutating func set(_ waiter: Waiter, _ wish: Wish) {
        let id = ObjectIdentifier(waiter)
        if let present = entries[id] {
            count(present.wish, -1)
            entries[id]?.wish = wish
        } else {
            entries[id] = Entry(waiter: waiter, number: nextNumber, wish: wish)
            nextNumber += 1
        }
        count(wish, 1)
    }

    func contains(_ waiter: Waiter) -> Bool { entries[ObjectIdentifier(waiter)] != nil }

    /// Removes a waiter.
    /// - Returns: whether the waiter was there.
    @discardableResult
    mutating func remove(_ waiter: Waiter) -> Bool {
        guard let entry = entries.removeValue(forKey: ObjectIdentifier(waiter)) else { return false }
        count(entry.wish, -1)
        return true
    }

    private mutating func count(_ wish: Wish, _ change: Int) {
        if wish.queue == .fast { urgentCount += change }
        let level = Self.level(wish.priority)
        let count = counts[level, default: 0] + change
        counts[level] = count == 0 ? nil : count
        if count == 0 { levels &= ~(1 << UInt128(level)) } else { levels |= 1 << UInt128(level) }
    }

    private static func level(_ priority: Priority) -> Int { Int((priority.value * 100).rounded()) }
}
