struct Urgency: Hashable {
    var queue: FetchQueue
    /// From 0 to 100.
    var level: UInt8

    init(queue: FetchQueue, level: UInt8) { (self.queue, self.level) = (queue, level) }
    init(_ queue: FetchQueue, _ priority: Priority) { self.init(queue: queue, level: UInt8(priority.level)) }

    var priority: Priority { Priority(Double(level) / 100) }
}

/// The urgency of all that wait for one fetch, or for one piece of other work.
struct Urgencies {
    private(set) var count: Int32 = 0
    private var urgent: Int32 = 0
    private var levels = LevelCounts()

    var isEmpty: Bool { count == 0 }
    var highest: Urgency { Urgency(queue: urgent > 0 ? .fast : .slow, level: levels.highest) }

    mutating func add(_ want: Urgency) {
        count += 1
        if want.queue == .fast { urgent += 1 }
        levels.add(want.level)
    }

    mutating func remove(_ want: Urgency) {
        count -= 1
        if want.queue == .fast { urgent -= 1 }
        levels.remove(want.level)
    }
}

extension Engine {
    /// - Parameter isNext: whether the work comes before all other work of its queue.
    func place(_ want: Urgency, isNext: Bool = false) -> Workers.Place {
        isNext
            ? .init(want.queue, Priority(1), isLIFO: true)
            : .init(want.queue, want.priority, isLIFO: queues.configuration(of: want.queue).order == .lifo)
    }
}

/// The number of calls at each priority level. Nearly always all have the same level, which takes no array.
struct LevelCounts: Sendable {
    private var level: UInt8 = 0
    private var count: Int32 = 0
    private var others: [(level: UInt8, count: Int32)] = []

    var highest: UInt8 { others.reduce(level) { max($0, $1.level) } }

    mutating func add(_ level: UInt8) {
        if count == 0 || level == self.level {
            self.level = level
            count += 1
        } else if let place = others.firstIndex(where: { $0.level == level }) {
            others[place].count += 1
        } else {
            others.append((level, 1))
        }
    }

    mutating func remove(_ level: UInt8) {
        if level == self.level {
            count -= 1
            if count == 0 { (self.level, count) = others.popLast() ?? (0, 0) }
        } else if let place = others.firstIndex(where: { $0.level == level }) {
            others[place].count -= 1
            if others[place].count == 0 { others.remove(at: place) }
        }
    }
}
