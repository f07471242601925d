/// A small value for each queue.
struct PerQueue<Value> {
    private var fast: Value
    private var slow: Value

    init(fast: Value, slow: Value) {
        self.fast = fast
        self.slow = slow
    }

    subscript(queue: FetchQueue) -> Value {
        get {
            switch queue {
            case .fast: fast
            case .slow: slow
            }
        }
        set {
            switch queue {
            case .fast: fast = newValue
            case .slow: slow = newValue
            }
        }
    }
}

extension PerQueue: Sendable where Value: Sendable {}

extension FetchQueue {
    /// The place of the queue in the order of urgency.
    var rank: Int {
        switch self {
        case .fast: 0
        case .slow: 1
        }
    }

    /// The queues in the order of urgency.
    static var byUrgency: QueuesByUrgency { QueuesByUrgency() }
}

/// The queues in the order of urgency. Unlike `allCases` it takes no storage: the scheduler goes through it several times
/// an event.
struct QueuesByUrgency: Sequence, IteratorProtocol {
    private var following: FetchQueue? = .fast

    mutating func next() -> FetchQueue? {
        let queue = following
        following =
            switch queue {
            case .fast: .slow
            case .slow, nil: nil
            }
        return queue
    }
}

/// The queues of a scheduler. They are in an array, from which a part of a queue is read without a copy of the rest.
struct JobQueues {
    private var queues: [JobQueue]

    init(fast: JobQueue, slow: JobQueue) {
        let all = PerQueue(fast: fast, slow: slow)
        queues = FetchQueue.byUrgency.map { all[$0] }
    }

    subscript(queue: FetchQueue) -> JobQueue {
        _read { yield queues[queue.rank] }
        _modify { yield &queues[queue.rank] }
    }
}
