import Foundation
import Synchronization

/// The objects that have left memory for want of room, found for as long as somebody holds them: what displays show need
/// not be made twice.
final class HeldObjects: MemoryMover {
    final class Record: Sendable {
        let lifetime: Lifetime
        let entered: TimeInterval
        fileprivate let info: EntryInfo
        fileprivate let lineage: ObjectMemoryTier.Lineage
        /// `nil` if nobody holds the object any more.
        let entry: @Sendable () -> ObjectMemoryTier.Entry?

        fileprivate init?(_ left: MemoryEntry<ObjectMemoryTier.Entry>) {
            let entry = left.value
            guard let product = entry.product.held else { return nil }
            (lifetime, entered, info, lineage) = (left.lifetime, left.entered, entry.info, entry.lineage)
            self.entry = { [lineage, info] in
                product().map { .init(product: $0, digest: lineage.digest, isAdded: lineage.isAdded, info: info) }
            }
        }
    }

    private struct State {
        /// By the key of the first origin.
        var families: [Substring: [CacheKey: Record]] = [:]
        var count = 0
        /// The count above which records of objects that nobody holds are dropped.
        var most = 256

        mutating func remove(from origin: Substring, where isRemoved: (CacheKey, Record) -> Bool) {
            guard let family = families[origin], family.contains(where: { isRemoved($0.key, $0.value) }) else { return }
            let rest = family.filter { !isRemoved($0.key, $0.value) }
            families[origin] = rest.isEmpty ? nil : rest
            count -= family.count - rest.count
        }

        mutating func remove(where isRemoved: (Record) -> Bool) {
            for origin in Array(families.keys) { remove(from: origin) { isRemoved($1) } }
        }

        mutating func remove(_ key: CacheKey) {
            let origin = HeldObjects.origin(key)
            guard families[origin]?.removeValue(forKey: key) != nil else { return }
            if families[origin]?.isEmpty == true { families[origin] = nil }
            count -= 1
        }
    }

    private let state = Mutex(State())
    /// The count and its bound, to be read without the lock. Who enters and who leaves as one key see it, because both
    /// are under one shard's lock.
    private let count = Atomic<Int>(0)
    private let most = Atomic<Int>(State().most)
    /// The number of removals under way. Of a removal and an object that leaves memory, one sees the other.
    private let removals = Atomic<Int>(0)

    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            count.store(state.count, ordering: .sequentiallyConsistent)
            most.store(state.most, ordering: .relaxed)
        }
    }

    private var isEmpty: Bool { count.load(ordering: .sequentiallyConsistent) == 0 }

    private static func origin(_ key: CacheKey) -> Substring { key.firstOrigin ?? key.string[...] }

    subscript(key: CacheKey, at now: TimeInterval) -> Record? {
        if isEmpty { return nil }
        let record = state.withLock { $0.families[Self.origin(key)]?[key] }
        return record.flatMap { $0.lifetime.isExpired(at: now) ? nil : $0 }
    }

    /// The object of a key, and all that are derived from it.
    func family(of key: CacheKey, at now: TimeInterval) -> [(key: CacheKey, entry: ObjectMemoryTier.Entry)] {
        let records = state.withLock { $0.families[Self.origin(key)] } ?? [:]
        return records.compactMap { other, record in
            guard other == key || other.isDerived(of: key), !record.lifetime.isExpired(at: now) else { return nil }
            return record.entry().map { (other, $0) }
        }
    }

    func enters(_ key: CacheKey) { if !isEmpty { change { $0.remove(key) } } }

    func leaves(_ entry: MemoryEntry<ObjectMemoryTier.Entry>) {
        guard let record = Record(entry) else { return }
        change { state in
            if state.families[Self.origin(entry.key), default: [:]].updateValue(record, forKey: entry.key) == nil {
                state.count += 1
            }
        }
        // It may be one of those that are removed.
        if removals.load(ordering: .sequentiallyConsistent) > 0 { change { $0.remove(entry.key) } }
    }

    /// Drops the records of objects that nobody holds, if there are many.
    func sweep(at now: TimeInterval) {
        guard count.load(ordering: .relaxed) > most.load(ordering: .relaxed) else { return }
        // Nobody else may hold them any more: they end outside the lock.
        var seen: [ObjectMemoryTier.Entry] = []
        change { state in
            guard state.count > state.most else { return }
            state.remove { record in
                guard !record.lifetime.isExpired(at: now), let entry = record.entry() else { return true }
                seen.append(entry)
                return false
            }
            state.most = max(256, 2 * state.count)
        }
    }

    // Memory removes its objects in the body. None that leaves it meanwhile is remembered, so that none stays behind.

    func remove(_ key: CacheKey, _ body: () -> Void) { change({ $0.remove(key) }, body) }

    /// - Parameter family: whether also what is derived from the key is removed.
    func remove(
        _ key: CacheKey, family: Bool, where isRemoved: (ObjectMemoryTier.Lineage) -> Bool, _ body: () -> Void
    ) {
        change(
            {
                $0.remove(from: Self.origin(key)) { other, record in
                    (other == key || family && other.isDerived(of: key)) && isRemoved(record.lineage)
                }
            }, body)
    }

    func removeDerived(of key: CacheKey, _ body: () -> Void) {
        change({ $0.remove(from: Self.origin(key)) { other, _ in other.isDerived(of: key) } }, body)
    }

    func remove(where isRemoved: (EntryInfo) -> Bool, _ body: () -> Void) {
        change({ $0.remove { isRemoved($0.info) } }, body)
    }

    private func change(_ remove: (inout State) -> Void, _ body: () -> Void) {
        removals.add(1, ordering: .sequentiallyConsistent)
        if !isEmpty { change(remove) }
        body()
        removals.subtract(1, ordering: .sequentiallyConsistent)
    }
}
