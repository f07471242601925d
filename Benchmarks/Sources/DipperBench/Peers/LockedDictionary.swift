import Foundation
import Synchronization

/// A dictionary under a mutex: the simplest possible memory cache, without order or limit.
final class LockedDictionary<Key: Hashable & Sendable>: Sendable {
    private let entries: Mutex<[Key: Data]>

    init(_ entries: [Key: Data]) {
        self.entries = Mutex(entries)
    }

    func data(for key: Key) -> Data? {
        entries.withLock { $0[key] }
    }
}

/// A digest of 128 bits, computed beforehand.
struct Digest128: Hashable, Sendable {
    let high: UInt64
    let low: UInt64
}

/// Foundation's cache, with URLs as keys.
// NSCache locks itself, but is not marked as Sendable on this platform.
final class FoundationCache: @unchecked Sendable {
    private final class Box {
        let data: Data
        init(_ data: Data) { self.data = data }
    }

    private let cache = NSCache<NSString, Box>()

    func add(_ data: Data, for url: URL) {
        cache.setObject(Box(data), forKey: NSString(string: url.absoluteString), cost: data.count)
    }

    func data(for url: URL) -> Data? {
        cache.object(forKey: NSString(string: url.absoluteString))?.data
    }
}
