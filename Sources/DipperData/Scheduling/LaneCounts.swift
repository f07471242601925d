/// Jobs by what they are doing.
public struct LaneCounts: Sendable, Hashable {
    public var fastWaiting = 0
    public var fastRunning = 0
    public var slowWaiting = 0
    public var slowRunning = 0
    public var parked = 0

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
