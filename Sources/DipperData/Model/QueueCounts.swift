/// The numbers of jobs in the queues, by what the jobs are doing.
///
/// ```swift
/// if cache.queueCounts == QueueCounts() { print("idle") }
/// ```
public struct QueueCounts: Sendable, Hashable {
    /// The number of urgent jobs that are looked up on disk or wait for a slot.
    public var fastWaiting = 0
    /// The number of urgent jobs that hold a slot.
    public var fastRunning = 0
    /// The number of prefetches that wait for a slot, or that were urgent and are still looked up on disk.
    public var slowWaiting = 0
    /// The number of prefetches that hold a slot, paused ones included.
    public var slowRunning = 0
    /// The number of jobs that wait for the network or a back-off.
    public var parked = 0

    /// Creates counts. Those that are not given are zero.
    public init(
        fastWaiting: Int = 0, fastRunning: Int = 0, slowWaiting: Int = 0, slowRunning: Int = 0, parked: Int = 0
    ) {
        self.fastWaiting = fastWaiting
        self.fastRunning = fastRunning
        self.slowWaiting = slowWaiting
        self.slowRunning = slowRunning
        self.parked = parked
    }
}
