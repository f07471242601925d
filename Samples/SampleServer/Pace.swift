/// How fast the server is: slow enough for the queues to be seen.
public struct Pace: Sendable {
    /// From a request to the first byte of its answer.
    public var delay: Duration
    /// Of each connection.
    public var bytesPerSecond: Double

    /// As slow as a link to somewhere else.
    public init(delay: Duration = .milliseconds(30), bytesPerSecond: Double = 2e6) {
        self.delay = delay
        self.bytesPerSecond = bytesPerSecond
    }
}
