/// The numbers of jobs by what they are doing.
public struct QueueCounts: Sendable, Hashable {
    /// Urgent jobs that are looked up on disk or wait for a slot.
    public var fastWaiting = 0
    /// Urgent jobs that hold a slot.
    public var fastRunning = 0
    /// Prefetches that wait for their turn.
    public var slowWaiting = 0
    /// Prefetches that hold a slot, paused ones included.
    public var slowRunning = 0
    /// Jobs that wait for the network or a back-off.
    public var parked = 0

    /// Creates counts, zero unless given.
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
