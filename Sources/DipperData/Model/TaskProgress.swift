/// How far a transfer has come.
public struct TaskProgress: Sendable, Hashable {
    /// Bytes of the body received so far.
    public let received: Int
    /// Bytes there will be, if the server said.
    public let expected: Int?

    /// So many bytes, of so many.
    public init(received: Int, expected: Int?) {
        self.received = received
        self.expected = expected
    }

    /// 0…1; zero as long as the end is not known.
    public var fraction: Double {
        guard let expected, expected > 0 else { return 0 }
        return min(1, Double(received) / Double(expected))
    }
}
