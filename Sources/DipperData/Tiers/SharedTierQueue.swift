import Foundation

/// The changes that a tier has yet to carry out, and whether it works.
struct SharedTierQueue {
    private static let removalLimit = 65_536

    private(set) var changes = TierChanges()
    var health = TierHealth()
    /// In seconds since 1970: earlier records count as absent.
    private var clearedBefore = -TimeInterval.infinity
    /// Waits for the end of the rest, if there are changes.
    var rest: Task<Void, any Error>?
    var settling: [CheckedContinuation<Void, Never>] = []
    /// Whether no change begins any more.
    var isStopped = false

    func hiddenBefore(_ name: String) -> TimeInterval {
        if case .remove = changes[name] { .infinity } else { clearedBefore }
    }

    /// - Parameter end: a moment after all stored records, in seconds since 1970.
    /// - Returns: changes that have been dropped, to be freed outside of locks.
    mutating func add(
        _ change: TierChanges.Change, to name: String, before end: TimeInterval
    ) -> TierChanges? {
        // A tier that rests takes no records.
        if case .store = change, health.restsUntil != nil { return nil }
        changes.add(change, to: name)
        guard changes.count > Self.removalLimit else { return nil }
        clearedBefore = end
        return changes.drop(withRemovals: true)
    }

    /// - Returns: changes that have been dropped, to be freed outside of locks.
    mutating func hideAll(before end: TimeInterval) -> TierChanges {
        clearedBefore = max(clearedBefore, end)
        return changes.drop()
    }

    mutating func next(at now: Duration) -> (name: String, change: TierChanges.Change)? {
        guard !isStopped, changes.mayBegin, health.admits(at: now) else { return nil }
        return changes.next()
    }

    /// Takes the same short time however many changes wait.
    /// - Returns: the changes that are dropped because a rest begins, to be freed outside of locks.
    mutating func ended(_ name: String?, isFailure: Bool, at now: Duration) -> TierChanges? {
        if let name { changes.ended(name, isLost: isFailure) }
        guard isFailure else {
            health.succeeded()
            return nil
        }
        return health.failed(at: now) ? changes.drop() : nil
    }

    /// Whether an end may let a change begin, or somebody go on who waits for changes.
    var hasWaiting: Bool { !changes.isEmpty || !settling.isEmpty }

    /// When to carry out the changes that wait while the tier rests.
    var wakes: Duration? { isStopped || changes.isEmpty ? nil : health.restsUntil }

    mutating func takeSettled() -> [CheckedContinuation<Void, Never>] {
        let isSettled = changes.isEmpty || (!changes.isRunning && (isStopped || health.restsUntil != nil))
        return isSettled ? exchange(&settling, with: []) : []
    }
}

/// The changes that a tier has yet to carry out, the latest of each name: in order, a few at a time, one of each name.
struct TierChanges: Sendable {
    enum Change: Sendable {
        case store(Data, until: Date?, Sharing?)
        case remove

        /// In bytes; 1 for an empty record, so that it counts as a record.
        fileprivate var size: Int { if case .store(let record, _, _) = self { max(1, record.count) } else { 0 } }
    }

    private static let mostRunning = 4
    /// The largest size of all records that wait or are being stored, in bytes.
    private static let limit = 16 << 20

    /// May hold names that no longer wait.
    private var order = Deque<String>()
    /// A name waits in one of the two.
    private var stores: [String: Change] = [:]
    private var removals: Set<String> = []
    private var running: [String: Change] = [:]
    private var size = 0

    var isEmpty: Bool { count == 0 && running.isEmpty }
    var isRunning: Bool { !running.isEmpty }
    var mayBegin: Bool {
        running.count < Self.mostRunning
            && (removals.contains { running[$0] == nil } || stores.contains { running[$0.key] == nil })
    }
    var count: Int { stores.count + removals.count }

    subscript(name: String) -> Change? { waiting(name) ?? running[name] }

    private func waiting(_ name: String) -> Change? { removals.contains(name) ? .remove : stores[name] }

    private mutating func take(_ name: String) -> Change? {
        removals.remove(name) != nil ? .remove : stores.removeValue(forKey: name)
    }

    mutating func add(_ change: Change, to name: String) {
        let replaced = take(name)
        size -= replaced?.size ?? 0
        guard size + change.size <= Self.limit else { return }
        size += change.size
        if replaced == nil { order.append(name) }
        if case .store = change { stores[name] = change } else { removals.insert(name) }
    }

    mutating func next() -> (name: String, change: Change)? {
        while let index = order.firstIndex(where: { running[$0] == nil }) {
            let name = order.remove(at: index)
            guard let change = take(name) else { continue }
            running[name] = change
            return (name, change)
        }
        return nil
    }

    /// - Parameter isLost: whether the tier has failed. A removal is tried again, unless another change of the name
    ///   waits.
    mutating func ended(_ name: String, isLost: Bool) {
        guard let change = running.removeValue(forKey: name) else { return }
        size -= change.size
        if isLost, case .remove = change, waiting(name) == nil { add(.remove, to: name) }
    }

    /// - Returns: the changes that have been dropped.
    mutating func drop(withRemovals: Bool = false) -> TierChanges {
        var dropped = TierChanges()
        swap(&stores, &dropped.stores)
        if withRemovals {
            swap(&removals, &dropped.removals)
            swap(&order, &dropped.order)
        }
        size = running.values.reduce(0) { $0 + $1.size }
        return dropped
    }
}

/// The rule that lets a failing tier rest. Times are those of the cache's clock.
struct TierHealth: Sendable {
    private static let tolerance = 3

    private var failures = 0
    private(set) var restsUntil: Duration?
    private var isTrying = false

    /// After a rest one operation tries the tier, and others must wait for its outcome.
    mutating func admits(at now: Duration) -> Bool {
        guard let restsUntil else { return true }
        guard now >= restsUntil, !isTrying else { return false }
        isTrying = true
        return true
    }

    mutating func succeeded() { self = TierHealth() }

    mutating func failed(at now: Duration) -> Bool {
        // Operations that began before the rest say nothing new.
        if restsUntil != nil, !isTrying { return false }
        isTrying = false
        failures += 1
        // mutant Tier: `res >= Self.tolerance else {` => `res >= 1_000 else {`
        guard failures >= Self.tolerance else { return false }
        // Of one second, two, four and so on, up to a minute.
        restsUntil = now + .seconds(min(60, 1 << min(failures - Self.tolerance, 6)))
        return failures == Self.tolerance
    }
}
