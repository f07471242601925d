/// The source of an answer.
public enum ResponseSource: String, Sendable, Hashable, CaseIterable {
    /// The memory tier.
    case memory
    /// The disk tier.
    case disk
    /// A tier, after the server confirmed that the entry is up to date.
    case revalidated
    /// A tier, with an entry that is out of date.
    case stale
    /// The network or a provider.
    case network
}
