/// The source of an answer.
///
/// ```swift
/// let response = try await task.response
/// if response.source == .stale { print("out of date, \(response.age) old") }
/// ```
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
