/// The rules of one lane. They can be changed while the cache is running.
public struct LaneConfiguration: Sendable, Hashable {
    /// Which of two equally important jobs starts first.
    public enum Order: Sendable, Hashable {
        /// The one that has waited longest.
        case fifo
        /// The one asked for last: fits a list that is being scrolled.
        case lifo
    }

    /// How many jobs may run at a time; at least 1. Lowering it stops nothing that runs.
    public var maxConcurrent: Int
    /// How many of them may be for one host; `nil` for no limit of its own.
    public var maxPerHost: Int?
    /// Which of two equally important jobs starts first.
    public var order: Order
    /// Nothing starts while this is true; what runs goes on.
    public var isSuspended: Bool
    /// Only for the slow lane: how long work in the fast lane may hold it up. After that one slow job runs
    /// beside the fast ones, then the wait begins anew. `nil`, the default: for as long as it takes.
    public var maxPause: Duration?

    /// Rules, all but the number with a default.
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

    /// Eight at a time.
    public static let fast = LaneConfiguration(maxConcurrent: 8)
    /// One at a time.
    public static let slow = LaneConfiguration(maxConcurrent: 1)
}
