import Foundation
import Synchronization

/// A memory tier for pictures and values, with the metadata of the bytes that they were made from. An object that has
/// been evicted, or is too large to be kept, is still found for as long as somebody else holds it.
package final class ObjectMemoryTier: Sendable {
    package struct Entry: MemoryValue {
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

        var lineage: Lineage { Lineage(digest: digest, isAdded: isAdded) }

        /// The object, if any request may see it.
        @inline(__always)
        fileprivate var plain: Product? { isPlain ? product : nil }
    }

    /// Where an object comes from.
    struct Lineage: Sendable {
        /// The digest of the bytes.
        let digest: UInt64
        let isAdded: Bool
    }

    private let memory: MemoryTier<Entry>
    private let held = HeldObjects()
    private let now: @Sendable () -> Date
    /// The pressure of the system, and whether the cache keeps less all the same.
    private let demand = Mutex((pressure: MemoryPressure.normal, keepsLess: false))
    private let following = AtomicLazyReference<ChangeObservation>()

    init(
        limit: Int, count: Int?, order: EvictionOrder, history: RemovalHistory,
        now: @escaping @Sendable () -> Date, expiries: ExpiryWatch, pressure: PressureRelay,
        onCleaned: (@Sendable (CacheEvent.Cleaning) -> Void)?
    ) {
        memory = MemoryTier(
            limits: .init(cost: limit, count: count), order: order, history: history, now: now,
            expiries: expiries, mover: held, onCleaned: onCleaned)
        self.now = now
        let observation = pressure.follow { [weak self] level in self?.adapt { $0.pressure = level } }
        _ = following.storeIfNil(observation)
    }

    /// Whether the tier keeps at most half of its limits, as under moderate pressure.
    package var keepsLess: Bool {
        get { demand.withLock { $0.keepsLess } }
        set { adapt { $0.keepsLess = newValue } }
    }

    private func adapt(_ change: (inout (pressure: MemoryPressure, keepsLess: Bool)) -> Void) {
        demand.withLock { change(&$0) }
        // Another thread may have made another change, and must not be overtaken.
        var told: MemoryPressure
        repeat {
            told = level
            memory.setPressure(told)
        } while told != level
    }

    private var level: MemoryPressure {
        demand.withLock { $0.keepsLess ? max($0.pressure, .moderate) : $0.pressure }
    }

    package func entry(for key: CacheKey) -> Entry? { memory.value(for: key) ?? takeBack(key) }
    func entry(
        for key: CacheKey, _ lifetime: (Lifetime, _ entered: TimeInterval, _ now: TimeInterval) -> Lifetime
    ) -> Entry? {
        memory.value(for: key, lifetime) ?? takeBack(key, lifetime)
    }
    /// Returns the object of a key without a copy of the rest; `nil` in an optional if not every request may see it.
    package func product(for key: CacheKey) -> Product?? {
        borrowed(memory) { $0.part(of: key) { $0.plain } } ?? takeBack(key).map(\.plain)
    }
    package func contains(_ key: CacheKey) -> Bool { memory.contains(key) || held[key, at: time]?.entry() != nil }

    private var time: TimeInterval { now().timeIntervalSince1970 }

    /// Finds an object that somebody holds, and lets it enter memory again, if there is room.
    private func takeBack(
        _ key: CacheKey,
        _ change: (Lifetime, _ entered: TimeInterval, _ now: TimeInterval) -> Lifetime = { old, _, _ in old }
    ) -> Entry? {
        let now = time
        guard let record = held[key, at: now], let entry = record.entry() else { return nil }
        var lifetime = change(record.lifetime, record.entered, now)
        if lifetime.accessExtension != nil { lifetime.expires = lifetime.expires(accessedAt: now) }
        insert(entry, for: key, lifetime: lifetime, entered: record.entered) { [held] in
            held[key, at: now] === record
        }
        return entry
    }

    private func cost(of entry: Entry, _ key: CacheKey) -> Int { entry.product.cost + entry.info.cost(for: key) }

    /// Returns the objects that memory or somebody else has of the bytes of a key, with their keys. Counts no use.
    package func family(of key: CacheKey) -> [(key: CacheKey, entry: Entry)] {
        let present = (memory.derivedKeys(of: key) + [key]).compactMap { key in
            memory.peek(key) { copy $0 }.map { (key, $0) }
        }
        return present + held.family(of: key, at: time)
    }

    /// Keeps an entry, unless its bytes have been flushed or cleared since.
    /// - Parameters:
    ///   - entered: when the entry entered memory; `nil` for now.
    ///   - isWanted: called under a lock, and may only read values. If it returns `false`, nothing changes.
    func insert(
        _ entry: Entry, for key: CacheKey, lifetime: Lifetime, entered: TimeInterval? = nil,
        if isWanted: () -> Bool = { true }
    ) {
        memory.insert(
            entry, for: key, cost: cost(of: entry, key), lifetime: lifetime, entered: entered,
            permit: .init(entry.info), if: isWanted)
        held.sweep(at: time)
    }

    package func remove(_ key: CacheKey) { held.remove(key) { memory.remove(key) } }
    /// The entry of the key itself stays.
    package func removeDerived(of key: CacheKey) { held.removeDerived(of: key) { memory.removeDerived(of: key) } }
    /// Removes the object of a key; with its family also what is derived from the key.
    func remove(_ key: CacheKey, family: Bool = false, where isRemoved: (Lineage) -> Bool) {
        held.remove(key, family: family, where: isRemoved) {
            for key in (family ? memory.derivedKeys(of: key) : []) + [key] {
                if memory.peek(key, { isRemoved($0.lineage) }) == true { memory.remove(key) }
            }
        }
    }
    package func removeAll() { held.remove(where: { _ in true }) { memory.removeAll() } }
    func removeAll(of address: String) {
        held.remove(where: { $0.isOf(address) }) { memory.removeAll(of: address) }
    }
    package func removeExpired(storedBefore limit: TimeInterval) {
        held.remove(where: { $0.stored < limit }) { memory.removeExpired(storedBefore: limit) }
    }
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
    private let holder: any AnyHolder

    /// - Parameter weak: makes a function that returns the value for as long as somebody holds it, and does not keep it.
    package init<Value: Sendable>(
        _ value: Value, cost: Int, weak: (@Sendable (Value) -> @Sendable () -> Value?)? = nil
    ) {
        self.cost = cost
        holder = Holder(value, weak)
    }

    /// The type must be right.
    @inline(__always)
    package func value<Value: Sendable>(as type: Value.Type = Value.self) -> Value {
        unsafeDowncast(holder, to: Holder<Value>.self).value
    }

    /// Returns the object, without keeping it, for as long as somebody holds it; `nil` if that cannot be told. Made late,
    /// because an object of which there are weak references is slower to use.
    var held: (@Sendable () -> Product?)? { holder.held(cost) }

    static func === (a: Product, b: Product) -> Bool { a.holder === b.holder }
}

private protocol AnyHolder: AnyObject, Sendable {
    func held(_ cost: Int) -> (@Sendable () -> Product?)?
}

private final class Holder<Value: Sendable>: AnyHolder {
    let value: Value
    private let weak: (@Sendable (Value) -> @Sendable () -> Value?)?

    init(_ value: Value, _ weak: (@Sendable (Value) -> @Sendable () -> Value?)?) {
        (self.value, self.weak) = (value, weak)
    }

    func held(_ cost: Int) -> (@Sendable () -> Product?)? {
        guard let weak else { return nil }
        let held = weak(value)
        return { held().map { Product($0, cost: cost, weak: weak) } }
    }
}
