/// The tiers that keep entries.
public struct CacheTiers: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The memory tier; in a cache without a folder it also has the partial bodies of interrupted transfers.
    public static let memory = CacheTiers(rawValue: 1)
    /// The disk tier, including the partial bodies of interrupted transfers.
    public static let disk = CacheTiers(rawValue: 2)
    /// The tiers of ``DataCache/Configuration/tiers``, which other caches may use as well.
    public static let shared = CacheTiers(rawValue: 4)
    /// Every tier.
    public static let all: CacheTiers = [.memory, .disk, .shared]
}

/// The point at which an entry counts as written.
///
/// ```swift
/// let request = DataRequest(url).with(\.durability, .durable)
/// try await cache.addDataAndWait(Data("receipt 7".utf8), for: request)
/// ```
public enum Durability: Sendable, Hashable {
    /// The system has the bytes, and brings them to the device in its own time. A program that is killed loses nothing;
    /// a power cut may cost the latest entries, but never leads to wrong ones.
    case relaxed
    /// The bytes are on the device: file, folder and index have been flushed (`fdatasync`, `fsync`, SQLite's
    /// `synchronous = FULL`). Each such write, and the writes behind it, wait for the device.
    case durable
}

/// The source of an answer.
///
/// ```swift
/// let source: ResponseSource = try await cache.getData(url).response.source
/// if source == .stale { print("These bytes may be out of date.") }
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
    /// The network.
    case network
    /// A provider: a file, text, memory or code of the program.
    case provider

    /// Whether the bytes come from a source itself, and not from a tier.
    var isAnswer: Bool { self == .network || self == .provider }
}
