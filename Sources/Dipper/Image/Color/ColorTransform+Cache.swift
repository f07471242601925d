import Foundation
import Synchronization

extension ColorTransform {
    /// Returns the transform of a profile as ``init(icc:for:)`` creates it, from a cache of the 16 used last: many
    /// pictures have the same profile.
    static func shared(icc: Data, for source: Source = .rgb) -> ColorTransform? {
        guard !icc.isEmpty, icc.count <= largestProfile else { return nil }
        let key = Key(icc, source)
        if let known = cache.withLock({ $0.transform(for: key) }) { return known.transform }
        // Two threads may create the same transform at once. This is better than one waiting for the other.
        let transform = ColorTransform(icc: icc, for: source)
        let dropped = cache.withLock { $0.insert(Entry(key: key, transform: transform)) }
        withExtendedLifetime(dropped) {}
        return transform
    }

    private static let cache = Mutex(Cache())

    /// A profile's length, source and 128 bits of hash. The hash depends on the random seed of the process, so nobody
    /// outside can construct two profiles with the same key.
    private struct Key: Equatable {
        let count: Int
        let source: Source
        let first: Int
        let second: Int

        init(_ icc: Data, _ source: Source) {
            count = icc.count
            self.source = source
            func hash(_ salt: Int) -> Int {
                var hasher = Hasher()
                hasher.combine(salt)
                icc.withUnsafeBytes { hasher.combine(bytes: $0) }
                return hasher.finalize()
            }
            first = hash(1)
            second = hash(2)
        }
    }

    private struct Entry {
        let key: Key
        /// The transform; `nil` if the colours need no conversion or the profile cannot be used.
        let transform: ColorTransform?
    }

    /// The most recently used entries, the last one first.
    private struct Cache {
        static let limit = 16
        var entries: [Entry] = []

        mutating func transform(for key: Key) -> Entry? {
            guard let index = entries.firstIndex(where: { $0.key == key }) else { return nil }
            let entry = entries.remove(at: index)
            entries.insert(entry, at: 0)
            return entry
        }

        /// Inserts an entry at the front.
        /// - Returns: the entry that it displaces, which the caller releases outside the lock.
        mutating func insert(_ entry: Entry) -> Entry? {
            if transform(for: entry.key) != nil { return nil }
            entries.insert(entry, at: 0)
            return entries.count > Self.limit ? entries.removeLast() : nil
        }
    }
}
