/// The tiers that keep entries.
///
/// ```swift
/// cache.removeData(for: url, from: .memory)       // the disk keeps its entry
/// ```
public struct CacheTiers: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The memory tier, in a cache without a folder including the partial bodies of interrupted transfers.
    public static let memory = CacheTiers(rawValue: 1)
    /// The disk tier, including the partial bodies of interrupted transfers.
    public static let disk = CacheTiers(rawValue: 2)
    /// The tiers of ``DataCache/Configuration/tiers``, which other caches may use as well.
    public static let shared = CacheTiers(rawValue: 4)
    /// Every tier.
    public static let all: CacheTiers = [.memory, .disk, .shared]
}
