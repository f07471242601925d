import Foundation
import Synchronization

/// The objects that have been in memory, found for as long as somebody holds them: what displays show need not be made
/// twice because memory has no room for it.
final class HeldObjects: Sendable {
    final class Record: Sendable {
        let lifetime: Lifetime
        fileprivate let info: EntryInfo
        /// `nil` if nobody holds the object any more.
        fileprivate let entry: @Sendable () -> ObjectMemoryTier.Entry?

        fileprivate init(_ record: Record, _ lifetime: Lifetime) {
            (self.lifetime, info, entry) = (lifetime, record.info, record.entry)
        }

        fileprivate init?(_ entry: ObjectMemoryTier.Entry, _ lifetime: Lifetime) {
            guard let product = entry.product.held else { return nil }
            (self.lifetime, info) = (lifetime, entry.info)
            self.entry = { [digest = entry.digest, isAdded = entry.isAdded, info] in
                product().map { .init(product: $0, digest: digest, isAdded: isAdded, info: info) }
            }
        }
    }

    private struct State {
        /// By the key of the first origin.
        var families: [Substring: [CacheKey: Record]] = [:]
        var count = 0
        /// The count at which records of objects that nobody holds are dropped.
        var most = 256

        mutating func take(from origin: Substring, where isTaken: (CacheKey, Record) -> Bool) -> [Record] {
            guard let family = families[origin] else { return [] }
            let taken = family.filter { isTaken($0.key, $0.value) }
            let rest = taken.isEmpty ? family : family.filter { taken[$0.key] == nil }
            families[origin] = rest.isEmpty ? nil : rest
            count -= taken.count
            return Array(taken.values)
        }

        mutating func takeAll(where isTaken: (Record) -> Bool) -> [Record] {
            families.keys.flatMap { take(from: $0) { isTaken($1) } }
        }
    }

    private let state = Mutex(State())

    private static func origin(_ key: CacheKey) -> Substring { key.firstOrigin ?? key.string[...] }

    private func record(_ key: CacheKey) -> Record? { state.withLock { $0.families[Self.origin(key)]?[key] } }

    subscript(key: CacheKey, at now: TimeInterval) -> (ObjectMemoryTier.Entry, Record)? {
        guard let record = record(key), !record.lifetime.isExpired(at: now) else { return nil }
        return record.entry().map { ($0, record) }
    }

    func has(_ record: Record, _ key: CacheKey) -> Bool { self.record(key) === record }

    /// The object of a key, and all that are derived from it.
    func family(of key: CacheKey, at now: TimeInterval) -> [(key: CacheKey, entry: ObjectMemoryTier.Entry)] {
        let records = state.withLock { $0.families[Self.origin(key)] } ?? [:]
        return records.compactMap { other, record in
            guard other == key || other.isDerived(of: key), !record.lifetime.isExpired(at: now) else { return nil }
            return record.entry().map { (other, $0) }
        }
    }

    /// - Parameter isWanted: called under the lock, and may only read values. If it returns `false`, nothing changes.
    func insert(_ entry: ObjectMemoryTier.Entry, _ key: CacheKey, _ lifetime: Lifetime, if isWanted: () -> Bool) {
        let (record, origin) = (Record(entry, lifetime), Self.origin(key))
        // Nobody else may hold them any more: they end outside the lock.
        var seen: [ObjectMemoryTier.Entry] = []
        take { state in
            guard isWanted() else { return [] }
            var old = state.take(from: origin) { other, _ in other == key }
            guard let record else { return old }
            state.families[origin, default: [:]][key] = record
            state.count += 1
            if state.count >= state.most {
                old += state.takeAll { record in
                    guard let entry = record.entry() else { return true }
                    seen.append(entry)
                    return false
                }
                state.most = max(256, 2 * state.count)
            }
            return old
        }
    }

    /// A reader has given the object another lifetime.
    func change(_ key: CacheKey, to lifetime: Lifetime) {
        take { state in
            guard let old = state.families[Self.origin(key)]?[key] else { return [] }
            state.families[Self.origin(key)]?[key] = Record(old, lifetime)
            return [old]
        }
    }

    func remove(_ key: CacheKey) { take { $0.take(from: Self.origin(key)) { other, _ in other == key } } }
    func removeDerived(of key: CacheKey) {
        take { $0.take(from: Self.origin(key)) { other, _ in other.isDerived(of: key) } }
    }
    func removeAll(where isRemoved: (EntryInfo) -> Bool = { _ in true }) {
        take { $0.takeAll { isRemoved($0.info) } }
    }

    /// Takes records out, which end outside the lock.
    private func take(_ body: (inout State) -> [Record]) {
        let taken = state.withLock { body(&$0) }
        withExtendedLifetime(taken) {}
    }
}
