import Foundation

/// A memory tier for objects made from bytes, each with the metadata of its bytes.
package final class ObjectTier: Sendable {
    package struct Entry: Sendable {
        package let object: any AnyObject & Sendable
        package let info: EntryInfo

        package init(_ object: any AnyObject & Sendable, _ info: EntryInfo) {
            self.object = object
            self.info = info
        }
    }

    private let memory: MemoryTier<Entry>

    /// The observation that adapts the tier's limits to memory pressure.
    private let following: ChangeObservation

    /// - Parameter limit: the largest total cost, in bytes.
    init(
        limit: Int, count: Int?, order: EvictionOrder, history: StoreHistory,
        now: @escaping @Sendable () -> Date, pressure: PressureRelay,
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?
    ) {
        memory = MemoryTier(
            limits: .init(cost: limit, count: count), order: order, history: history, now: now, onCleaned: onCleaned)
        following = pressure.follow { [weak memory] in memory?.setPressure($0) }
    }

    package func entry(for key: CacheKey) -> Entry? { memory.value(for: key) }
    package func contains(_ key: CacheKey) -> Bool { memory.contains(key) }
    /// Keeps an object, unless the bytes it was made from have been flushed or cleared since.
    /// - Parameter isWanted: called in the moment of the change, under a lock, so that an object that was inserted
    ///   after a removal stays. If it returns `false`, nothing changes. It may only read values.
    package func insert(
        _ entry: Entry, for key: CacheKey, cost: Int, lifetime: Lifetime, if isWanted: () -> Bool = { true }
    ) {
        memory.insert(
            entry, for: key, cost: cost + entry.info.cost(for: key), lifetime: lifetime, permit: .init(entry.info),
            if: isWanted)
    }

    package func remove(_ key: CacheKey) { memory.remove(key) }
    /// Removes the objects derived from the bytes of a key, but not the object under that key itself.
    package func removeDerived(of key: CacheKey) { memory.removeDerived(of: key) }
    package func derivedKeys(of key: CacheKey) -> [CacheKey] { memory.derivedKeys(of: key) }
    package func removeAll() { memory.removeAll() }
    package func removeExpired(storedBefore limit: TimeInterval) { memory.removeExpired(storedBefore: limit) }
    package func trim(to bytes: Int) { memory.trim(toCost: max(0, bytes)) }
    package func setLimits(bytes: Int, count: Int?) { memory.setLimits(.init(cost: bytes, count: count)) }
    package var totalCost: Int { memory.totalCost }
    package var count: Int { memory.entryCount }
}
