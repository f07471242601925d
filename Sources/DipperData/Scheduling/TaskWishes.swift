/// A summary of what the tasks of a job want, so that no task needs to be looked at when another one comes, changes or
/// goes.
struct TaskWishes: Sendable {
    private var counts = PerQueue<Int32>(fast: 0, slow: 0)
    private var levels = LevelCounts()
    /// The number of tasks that the disk tier may answer.
    private var readers: Int32 = 0

    /// The most urgent queue of the tasks; `nil` without tasks.
    var queue: FetchQueue? { FetchQueue.byUrgency.first { counts[$0] > 0 } }

    /// The highest priority level of the tasks.
    var level: UInt8 { levels.highest }

    /// Whether the disk tier may answer a task.
    var includeReading: Bool { readers > 0 }

    /// Whether only the network may answer a task.
    var insistOnNetwork: Bool { readers < FetchQueue.byUrgency.reduce(0) { $0 + counts[$1] } }

    mutating func add<Waiter>(_ task: JobTask<Waiter>) {
        counts[task.queue] += 1
        levels.add(task.level)
        if task.reads { readers += 1 }
    }

    mutating func remove<Waiter>(_ task: JobTask<Waiter>) {
        counts[task.queue] -= 1
        levels.remove(task.level)
        if task.reads { readers -= 1 }
    }
}
