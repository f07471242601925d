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
    private var wants = Tally<Urgency>()

    var count: Int32 { wants.count }
    var isEmpty: Bool { wants.isEmpty }

    var highest: Urgency {
        wants.reduce(into: Urgency(queue: .slow, level: 0)) { highest, want in
            if want.queue == .fast { highest.queue = .fast }
            highest.level = max(highest.level, want.level)
        }
    }

    mutating func add(_ want: Urgency) { wants.add(want) }
    mutating func remove(_ want: Urgency) { wants.remove(want) }
}

extension Engine {
    /// - Parameter isNext: whether the work comes before all other work of its queue.
    func place(_ want: Urgency, isNext: Bool = false) -> Workers.Place {
        isNext
            ? .init(want.queue, Priority(1), isLIFO: true)
            : .init(want.queue, want.priority, isLIFO: queues.configuration(of: want.queue).order == .lifo)
    }
}

/// Counts how many calls have each value. Nearly always all have the same one, which takes no array.
struct Tally<Value: Equatable & Sendable>: Sendable {
    private var value: Value?
    private var times: Int32 = 0
    private var others: [(value: Value, times: Int32)] = []

    var count: Int32 { others.reduce(times) { $0 + $1.times } }
    var isEmpty: Bool { times == 0 }

    func reduce<Result>(into initial: Result, _ add: (inout Result, Value) -> Void) -> Result {
        guard let value else { return initial }
        var result = initial
        add(&result, value)
        for other in others { add(&result, other.value) }
        return result
    }

    mutating func add(_ new: Value) {
        if times == 0 || new == value {
            value = new
            times += 1
        } else if let place = others.firstIndex(where: { $0.value == new }) {
            others[place].times += 1
        } else {
            others.append((new, 1))
        }
    }

    mutating func remove(_ old: Value) {
        if old == value {
            times -= 1
            guard times == 0 else { return }
            let next = others.popLast()
            (value, times) = (next?.value, next?.times ?? 0)
        } else if let place = others.firstIndex(where: { $0.value == old }) {
            others[place].times -= 1
            if others[place].times == 0 { others.remove(at: place) }
        }
    }
}
