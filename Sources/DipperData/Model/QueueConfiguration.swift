/// The limits and the order of one queue. They can be changed while the cache is running.
///
/// ```swift
/// cache.fastQueue.maxConcurrent = 4
/// cache.fastQueue.order = .lifo
/// ```
public struct QueueConfiguration: Sendable, Hashable {
    /// The order of jobs of equal priority.
    public enum Order: Sendable, Hashable {
        /// The job that has waited longest starts first (first in, first out).
        case fifo
        /// The job that was asked for last starts first (last in, first out). This fits a list that is being scrolled.
        case lifo
    }

    /// The largest number of jobs that run at a time; at least 1. Lowering it stops no running job. Local sources have
    /// places of their own; see ``DataProvider/isLocal``.
    public var maxConcurrent: Int
    /// The largest number of running jobs for one host; `nil` for no limit per host.
    public var maxPerHost: Int?
    /// The order in which jobs of equal priority start.
    public var order: Order
    /// Whether the queue is suspended: no job starts, and running jobs go on.
    public var isSuspended: Bool
    /// The longest time that work in `fastQueue` may hold `slowQueue` up; without effect on `fastQueue`. `nil`, the
    /// default, sets no limit.
    ///
    /// After that time one slow job runs beside the urgent ones, then the wait begins anew.
    public var maxPause: Duration?

    /// Creates a configuration. Everything but the number of jobs has a default.
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

    /// The default of `fastQueue`: eight jobs at a time.
    public static let fast = QueueConfiguration(maxConcurrent: 8)
    /// The default of `slowQueue`: one job at a time.
    public static let slow = QueueConfiguration(maxConcurrent: 1)
}
