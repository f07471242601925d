/// The urgency of a request for an object, or of work that is done for requests.
package struct ObjectWant: Hashable, Sendable {
    var queue: FetchQueue
    /// The priority in hundredths.
    var level: UInt8

    package init(_ queue: FetchQueue, _ priority: Priority = .normal) {
        self.queue = queue
        level = UInt8(priority.level)
    }

    fileprivate init(_ queue: FetchQueue, level: UInt8) {
        self.queue = queue
        self.level = level
    }

    var priority: Priority { Priority(Double(level) / 100) }
}

/// The requests that wait for a piece of work, with the work that waits for it, and the urgency that they give it.
struct ObjectCrowd: Sendable {
    private(set) var requests: Set<ObjectRequestID> = []
    private var count = 0
    private var urgentCount = 0
    private var levels = LevelCounts()
    /// The urgency that the driver, or the work that this work waits for, was told last; `nil` before the work begins.
    var told: ObjectWant?

    var isEmpty: Bool { count == 0 }

    /// The urgency of the work: the most urgent queue and the highest priority.
    var want: ObjectWant { ObjectWant(urgentCount > 0 ? .fast : .slow, level: levels.highest) }

    mutating func add(_ id: ObjectRequestID, _ want: ObjectWant) {
        requests.insert(id)
        add(want)
    }

    mutating func remove(_ id: ObjectRequestID, _ want: ObjectWant) {
        requests.remove(id)
        remove(want)
    }

    /// Adds the urgency of a request, or of work that waits for this work.
    mutating func add(_ want: ObjectWant) {
        count += 1
        if want.queue == .fast { urgentCount += 1 }
        levels.add(want.level)
    }

    mutating func remove(_ want: ObjectWant) {
        count -= 1
        if want.queue == .fast { urgentCount -= 1 }
        levels.remove(want.level)
    }

    /// Changes the crowd in place, for owners that are found by an optional chain.
    mutating func change(_ body: (inout ObjectCrowd) -> Void) { body(&self) }
}
