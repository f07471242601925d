/// Jobs by what they are doing.
public struct LaneCounts: Sendable, Hashable {
    /// Urgent jobs that are looked up on disk or wait for a place.
    public var fastWaiting = 0
    /// Urgent jobs that hold a place.
    public var fastRunning = 0
    /// Prefetches that wait for their turn.
    public var slowWaiting = 0
    /// Prefetches that hold a place, paused ones included.
    public var slowRunning = 0
    /// Jobs that wait for the network or a back-off.
    public var parked = 0

    /// Counts, zero unless given.
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
