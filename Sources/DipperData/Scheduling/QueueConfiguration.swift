/// The limits and the order of one queue. They can be changed while the cache is running.
public struct QueueConfiguration: Sendable, Hashable {
    /// Which of two equally important jobs starts first.
    public enum Order: Sendable, Hashable {
        /// The job that has waited longest (first in, first out).
        case fifo
        /// The job that was asked for last (last in, first out): fits a list that is being scrolled.
        case lifo
    }

    /// How many jobs may run at a time; at least 1. Lowering the number stops no running job.
    public var maxConcurrent: Int
    /// How many of the running jobs may be for one host; `nil` for no limit of its own.
    public var maxPerHost: Int?
    /// Which of two equally important jobs starts first.
    public var order: Order
    /// Whether no job starts. Running jobs go on.
    public var isSuspended: Bool
    /// How long work in `fastQueue` may hold `slowQueue` up; without effect on `fastQueue`. After that time one slow job runs
    /// beside the urgent ones, then the wait begins anew. `nil`, the default: without limit.
    public var maxPause: Duration?

    /// Creates a configuration; all but the number of jobs has a default.
    public init(
        maxConcurrent: Int, maxPerHost: Int? = nil, order: Order = .fifo, isSuspended: Bool = false,
        maxPause: Duration? = nil
    ) {
        self.maxConcurrent = maxConcurrent
        self.maxPerHost = maxPerHost
        self.order = order
        self.isSuspended = isSuspended
        self.maxPause = maxPause
    }

    /// Eight jobs at a time.
    public static let fast = QueueConfiguration(maxConcurrent: 8)
    /// One job at a time.
    public static let slow = QueueConfiguration(maxConcurrent: 1)
}
