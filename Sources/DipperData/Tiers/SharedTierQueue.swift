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

    func hiddenBefore(_ name: String) -> TimeInterval {
        if case .remove = changes[name] { .infinity } else { clearedBefore }
    }

    /// - Parameter end: a moment after all stored records, in seconds since 1970.
    mutating func add(_ change: TierChanges.Change, to name: String, before end: TimeInterval) {
        // A tier that rests takes no records.
        if case .store = change, health.restsUntil != nil { return }
        changes.add(change, to: name)
        guard changes.count > Self.removalLimit else { return }
        clearedBefore = end
        changes.drop(withRemovals: true)
    }

    mutating func hideAll(before end: TimeInterval) {
        clearedBefore = max(clearedBefore, end)
        changes.drop()
    }

    mutating func next(at now: Duration) -> (name: String, change: TierChanges.Change)? {
        guard changes.mayBegin, health.admits(at: now) else { return nil }
        return changes.next()
    }

    /// - Returns: whether a rest begins.
    mutating func ended(_ name: String?, isFailure: Bool, at now: Duration) -> Bool {
        if let name { changes.ended(name, isLost: isFailure) }
        guard isFailure else {
            health.succeeded()
            return false
        }
        let begins = health.failed(at: now)
        if begins { changes.drop() }
        return begins
    }

    /// When to carry out the changes that wait while the tier rests.
    var wakes: Duration? { changes.isEmpty ? nil : health.restsUntil }

    mutating func takeSettled() -> [CheckedContinuation<Void, Never>] {
        let isSettled = changes.isEmpty || (!changes.isRunning && health.restsUntil != nil)
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
    private var waiting: [String: Change] = [:]
    private var running: [String: Change] = [:]
    private var size = 0

    var isEmpty: Bool { waiting.isEmpty && running.isEmpty }
    var isRunning: Bool { !running.isEmpty }
    var mayBegin: Bool {
        running.count < Self.mostRunning && waiting.contains(where: { running[$0.key] == nil })
    }
    var count: Int { waiting.count }

    subscript(name: String) -> Change? { waiting[name] ?? running[name] }

    mutating func add(_ change: Change, to name: String) {
        let replaced = waiting.removeValue(forKey: name)
        size -= replaced?.size ?? 0
        guard size + change.size <= Self.limit else { return }
        size += change.size
        if replaced == nil { order.append(name) }
        waiting[name] = change
    }

    mutating func next() -> (name: String, change: Change)? {
        while let index = order.firstIndex(where: { running[$0] == nil }) {
            let name = order.remove(at: index)
            guard let change = waiting.removeValue(forKey: name) else { continue }
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
        if isLost, case .remove = change, waiting[name] == nil {
            waiting[name] = .remove
            order.append(name)
        }
    }

    mutating func drop(withRemovals: Bool = false) {
        waiting = withRemovals ? [:] : waiting.filter { $0.value.size == 0 }
        order.removeAll { waiting[$0] == nil }
        size = running.values.reduce(0) { $0 + $1.size }
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
