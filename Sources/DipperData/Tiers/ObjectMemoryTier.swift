import Foundation

/// A memory tier for pictures and values, with the metadata of the bytes that they were made from.
package final class ObjectMemoryTier: Sendable {
    package struct Entry: Sendable {
        package let product: Product
        let digest: UInt64
        let isAdded: Bool
        package let info: EntryInfo
        private let isPlain: Bool

        init(product: Product, digest: UInt64, isAdded: Bool, info: EntryInfo) {
            self.product = product
            self.digest = digest
            self.isAdded = isAdded
            self.info = info
            isPlain = info.isPlain
        }

        /// The object, if any request may see it.
        @inline(__always)
        fileprivate var plain: Product? { isPlain ? product : nil }
    }

    private let memory: MemoryTier<Entry>

    private let following: ChangeObservation

    init(
        limit: Int, count: Int?, order: EvictionOrder, history: RemovalHistory,
        now: @escaping @Sendable () -> Date, expiries: ExpiryWatch, pressure: PressureRelay,
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?
    ) {
        memory = MemoryTier(
            limits: .init(cost: limit, count: count), order: order, history: history, now: now,
            expiries: expiries, onCleaned: onCleaned)
        following = pressure.follow { [weak memory] in memory?.setPressure($0) }
    }

    package func entry(for key: CacheKey) -> Entry? { memory.value(for: key) }
    func entry(
        for key: CacheKey, _ lifetime: (Lifetime, _ entered: TimeInterval, _ now: TimeInterval) -> Lifetime
    ) -> Entry? { memory.value(for: key, lifetime) }
    /// Returns the object of a key without a copy of the rest; `nil` in an optional if not every request may see it.
    package func product(for key: CacheKey) -> Product?? { borrowed(memory) { $0.part(of: key) { $0.plain } } }
    package func contains(_ key: CacheKey) -> Bool { memory.contains(key) }
    /// Keeps an entry, unless its bytes have been flushed or cleared since.
    /// - Parameter isWanted: called under a lock, and may only read values. If it returns `false`, nothing changes.
    func insert(_ entry: Entry, for key: CacheKey, lifetime: Lifetime, if isWanted: () -> Bool = { true }) {
        memory.insert(
            entry, for: key, cost: entry.product.cost + entry.info.cost(for: key), lifetime: lifetime,
            permit: .init(entry.info), if: isWanted)
    }

    package func remove(_ key: CacheKey) { memory.remove(key) }
    /// The entry of the key itself stays.
    package func removeDerived(of key: CacheKey) { memory.removeDerived(of: key) }
    package func derivedKeys(of key: CacheKey) -> [CacheKey] { memory.derivedKeys(of: key) }
    package func removeAll() { memory.removeAll() }
    func removeAll(of address: String) { memory.removeAll { $0.info.isOf(address) } }
    package func removeExpired(storedBefore limit: TimeInterval) { memory.removeExpired(storedBefore: limit) }
    package func trim(to bytes: Int) { memory.trim(toCost: max(0, bytes)) }
    package var costLimit: Int {
        get { memory.limits.cost }
        set { memory.changeLimits { $0.cost = newValue } }
    }
    package var countLimit: Int? {
        get { memory.limits.count }
        set { memory.changeLimits { $0.count = newValue } }
    }
    package var totalCost: Int { memory.totalCost }
    package var count: Int { memory.entryCount }
}

/// A picture or value that is made from bytes. The engine does not know its type.
package struct Product: Sendable {
    /// In bytes of memory.
    package let cost: Int
    private let holder: any AnyObject & Sendable

    package init(_ value: some Sendable, cost: Int) {
        self.cost = cost
        holder = Holder(value)
    }

    /// The type must be right.
    @inline(__always)
    package func value<Value: Sendable>(as type: Value.Type = Value.self) -> Value {
        unsafeDowncast(holder, to: Holder<Value>.self).value
    }

    static func === (a: Product, b: Product) -> Bool { a.holder === b.holder }
}

private final class Holder<Value: Sendable>: Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
