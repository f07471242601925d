import Foundation

/// A source of bytes other than a URL: a file, text, memory, or code of the caller.
///
/// The cache asks a provider as it asks a server: once per key, in the queue of the call, with retries.
///
/// ```swift
/// struct Noise: DataProvider {
///     let seed: UInt8
///     var cacheKey: CacheKey { CacheKey("noise-\(seed)") }
///     func data() async throws -> Data { Data((0..<1_024).map { UInt8(truncatingIfNeeded: $0 * Int(seed)) }) }
/// }
/// let noise = try await cache.getData(DataRequest(Noise(seed: 7))).value
/// ```
public protocol DataProvider: Sendable {
    /// The key by which the bytes are cached.
    var cacheKey: CacheKey { get }
    /// Whether the bytes are at hand without a download. Such a provider waits for no download, and no prefetch waits
    /// for it: up to four are asked at a time, the fourth only for an urgent call. The cache keeps its bytes on disk
    /// only if the request says so. The property is read, more than once, where a request or a call is made or the cache is
    /// looked into: never on its loop, but also on its threads that read the disk. So it must return at once.
    var isLocal: Bool { get }
    /// Returns the bytes. Runs on Swift's cooperative threads, so it must not block. An error other than
    /// ``DipperError`` counts as ``DipperError/unreadable``, a `CancellationError` as ``DipperError/cancelled``.
    func data() async throws -> Data
}

extension DataProvider {
    public var isLocal: Bool { false }
}

/// A provider of bytes that a closure of the caller supplies.
///
/// ```swift
/// let settings = CustomProvider(key: "settings") { try JSONEncoder().encode(["theme": "dark"]) }
/// let data = try await cache.getData(DataRequest(settings)).value
/// ```
public struct CustomProvider: DataProvider {
    public let cacheKey: CacheKey
    private let body: @Sendable () async throws -> Data

    /// Creates a provider from a closure, whose Swift task is cancelled when no call waits for the bytes any more.
    public init(key: CacheKey, _ body: @escaping @Sendable () async throws -> Data) {
        cacheKey = key
        self.body = body
    }

    public func data() async throws -> Data { try await body() }
}

/// A provider of bytes that are in memory.
///
/// ```swift
/// let empty = MemoryProvider(Data("[]".utf8), key: "empty list")
/// let request = DataRequest(feedURL).with(\.alternatives, [.provider(empty)])
/// ```
public struct MemoryProvider: DataProvider {
    public let cacheKey: CacheKey
    private let bytes: Data

    /// Creates a provider of bytes, with the key by which they are cached.
    public init(_ bytes: Data, key: CacheKey) {
        self.bytes = bytes
        cacheKey = key
    }

    public var isLocal: Bool { true }
    public func data() async throws -> Data { bytes }
}
