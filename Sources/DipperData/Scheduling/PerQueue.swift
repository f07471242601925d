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
    /// The place of the queue in the order of urgency: 0 is the most urgent.
    var rank: Int {
        switch self {
        case .fast: 0
        case .slow: 1
        }
    }

    /// The queues in the order of urgency.
    static var byUrgency: QueuesByUrgency { QueuesByUrgency() }
}

/// A sequence of the queues in the order of urgency. Unlike `allCases` it takes no storage, because the scheduler goes
/// through it several times in an event.
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

/// The queues of a scheduler, in an array: a part of one queue is read without a copy of the rest.
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
