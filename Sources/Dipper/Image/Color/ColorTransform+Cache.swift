import Foundation
import Synchronization

extension ColorTransform {
    /// The same as ``init(icc:for:)``, made once for all pictures of one camera.
    static func shared(icc: Data, for source: Source = .rgb) -> ColorTransform? {
        guard !icc.isEmpty, icc.count <= largestProfile else { return nil }
        let key = Key(icc, source)
        if let known = cache.withLock({ $0.transform(for: key) }) { return known.transform }
        // Two threads may both make it: rather than one waits for the other.
        let transform = ColorTransform(icc: icc, for: source)
        let dropped = cache.withLock { $0.insert(Entry(key: key, transform: transform)) }
        withExtendedLifetime(dropped) {}
        return transform
    }

    private static let cache = Mutex(Cache())

    /// Tells profiles apart by 128 bits that nobody outside can foresee: they hang on the process's own seed.
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
        /// `nil`: there is nothing to do, or nothing can be done.
        let transform: ColorTransform?
    }

    /// A few, those used last in front.
    private struct Cache {
        static let limit = 16
        var entries: [Entry] = []

        mutating func transform(for key: Key) -> Entry? {
            guard let index = entries.firstIndex(where: { $0.key == key }) else { return nil }
            let entry = entries.remove(at: index)
            entries.insert(entry, at: 0)
            return entry
        }

        /// - Returns: what has no place any more, to be freed outside of the lock.
        mutating func insert(_ entry: Entry) -> Entry? {
            if transform(for: entry.key) != nil { return nil }
            entries.insert(entry, at: 0)
            return entries.count > Self.limit ? entries.removeLast() : nil
        }
    }
}
