import Foundation
import Synchronization

/// The keys of derived entries in a memory tier, grouped by the key of the first origin, so that they are found without
/// looking at all entries.
///
/// A key is added before its entry can be found, and removed after the entry has gone; between the two, the key may be
/// counted more than once.
final class DerivedKeys: Sendable {
    private let groups = Mutex<[Substring: [CacheKey: Int]]>([:])

    /// Adds the key of a derived entry. Has no effect on other keys.
    func add(_ key: CacheKey) {
        guard let origin = key.firstOrigin else { return }
        groups.withLock { $0[origin, default: [:]][key, default: 0] += 1 }
    }

    func remove(_ key: CacheKey) {
        guard let origin = key.firstOrigin else { return }
        groups.withLock { groups in
            guard let index = groups.index(forKey: origin), let count = groups.values[index][key] else { return }
            groups.values[index][key] = count > 1 ? count - 1 : nil
            if groups.values[index].isEmpty { groups.remove(at: index) }
        }
    }

    var isEmpty: Bool { groups.withLock { $0.isEmpty } }

    /// Returns the keys of the entries derived from an entry, some of which may be gone already.
    func keys(of origin: CacheKey) -> [CacheKey] {
        let group = groups.withLock { $0[origin.firstOrigin ?? origin.string[...]] }
        return group?.keys.filter { $0.isDerived(of: origin) } ?? []
    }
}

extension CacheKey {
    /// The part of the key before its first `\n#`, which marks a derived entry; `nil` in a key without one.
    fileprivate var firstOrigin: Substring? {
        let text = string.utf8
        var rest = text[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            rest = rest[text.index(after: end)...]
            if rest.first == UInt8(ascii: "#") { return string[..<end] }
        }
        return nil
    }
}
