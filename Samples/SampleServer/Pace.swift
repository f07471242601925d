/// The pace of a server: by default slow enough for the queues to be visible.
public struct Pace: Sendable {
    /// The time from a request to the first byte of its answer.
    public var delay: Duration
    /// The speed of each connection, in bytes per second.
    public var bytesPerSecond: Double

    /// Creates a pace; the default values resemble a link to a remote server.
    public init(delay: Duration = .milliseconds(30), bytesPerSecond: Double = 2e6) {
        self.delay = delay
        self.bytesPerSecond = bytesPerSecond
    }
}
