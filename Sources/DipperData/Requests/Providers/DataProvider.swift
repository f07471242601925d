import Foundation

/// Where the bytes of a request come from, if not from a URL: a file, text, memory, or code of the caller's.
///
/// A provider is asked as a server would be: once per key, in the queue of the call, with retries after errors that
/// may pass (``DipperError/mayPass``).
public protocol DataProvider: Sendable {
    /// The key its bytes are cached by.
    var cacheKey: CacheKey { get }
    /// The bytes are at hand anyway: they are not kept on disk unless the request says so.
    var isLocal: Bool { get }
    /// The bytes. Errors other than ``DipperError`` count as ``DipperError/unreadable``. Runs on Swift's cooperative
    /// threads, and so must not block.
    func data() async throws -> Data
}

extension DataProvider {
    public var isLocal: Bool { false }
}

/// Bytes that code of the caller's brings.
public struct CustomProvider: DataProvider {
    public let cacheKey: CacheKey
    private let body: @Sendable () async throws -> Data

    /// - Parameters:
    ///   - key: what the bytes are cached by.
    ///   - body: brings them; its Swift task is cancelled when nobody waits for them any more.
    public init(key: CacheKey, _ body: @escaping @Sendable () async throws -> Data) {
        cacheKey = key
        self.body = body
    }

    public func data() async throws -> Data { try await body() }
}

/// Bytes that are in memory.
public struct MemoryProvider: DataProvider {
    public let cacheKey: CacheKey
    private let bytes: Data

    /// Bytes and the key they are cached by.
    public init(_ bytes: Data, key: CacheKey) {
        self.bytes = bytes
        cacheKey = key
    }

    public var isLocal: Bool { true }
    public func data() async throws -> Data { bytes }
}
