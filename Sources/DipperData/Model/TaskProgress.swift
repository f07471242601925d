/// The progress of a transfer.
public struct TaskProgress: Sendable, Hashable {
    /// Bytes of the body received so far.
    public let received: Int
    /// The length of the body in bytes; `nil` if the server has not announced it.
    public let expected: Int?

    /// Creates the progress of a transfer from the bytes received and the bytes expected.
    public init(received: Int, expected: Int?) {
        self.received = received
        self.expected = expected
    }

    /// The received part of the body, from 0 to 1; zero as long as the length is not known.
    public var fraction: Double {
        guard let expected, expected > 0 else { return 0 }
        return min(1, Double(received) / Double(expected))
    }
}

/// The source of an answer.
public enum ResponseSource: String, Sendable, Hashable, CaseIterable {
    /// The memory tier.
    case memory
    /// The disk tier.
    case disk
    /// One of the tiers of ``DataCache/Configuration/tiers``.
    case shared
    /// A tier, after the server confirmed that the entry is up to date.
    case revalidated
    /// A tier, with an entry that is out of date.
    case stale
    /// The network or a provider.
    case network
}
