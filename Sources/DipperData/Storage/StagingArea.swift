import Foundation

/// The changes that are not yet on disk, by key. Its owner locks it.
struct StagingArea: Sendable {
    struct Slot: Hashable {
        let key: CacheKey
        var table = EntryIndex.Table.entry

        /// The few scopes that cover the slot: nobody looks for them among all removals or all changes.
        /// - Parameter addresses: those of the entry, as far as they are known.
        fileprivate func scopes(_ addresses: Addresses?) -> [Scope] {
            [.all] + (addresses?.all ?? []).map(Scope.url) + derivedScopes
        }

        fileprivate var derivedScopes: [Scope] {
            table == .entry && key.isDerived ? key.origins.map(Scope.derived(of:)) : []
        }
    }

    struct Item {
        let slot: Slot
        let number: UInt64
        /// `nil` to remove what is there. Without a body in the table of partial bodies.
        let record: EntryRecord?
        let partial: Partial?
        var durability = Durability.relaxed
        var whenDone: [@Sendable (Bool) -> Void] = []
        /// `nil` once the change is being carried out.
        fileprivate var place: UInt64?

        /// The estimated memory.
        fileprivate var bytes: Int {
            let body = partial.map { $0.isArriving ? 0 : $0.body.count } ?? 0
            return body + (record?.value.cost(for: slot.key) ?? slot.key.string.utf8.count + 256)
        }
    }

    struct Partial {
        let body: PartialBody
        /// Whether the rest is on its way. Then a transfer holds the bytes.
        let isArriving: Bool
    }

    enum Scope: Hashable {
        case all
        case derived(of: CacheKey)
        case url(String)

        /// - Parameter addresses: those of the entry, as far as they are known.
        func covers(_ slot: Slot, _ addresses: Addresses? = nil) -> Bool { slot.scopes(addresses).contains(self) }
    }

    /// A removal of many entries, to be carried out before later changes. All that it covers on disk counts as removed;
    /// once it has failed, only what was stored before its time.
    struct PendingRemoval {
        fileprivate let number: UInt64
        var time: TimeInterval
        var hasFailed = false
    }

    private var items: [Slot: Item] = [:]
    /// The slots of `items` that each scope of derived entries covers.
    private var derived: [Scope: Set<Slot>] = [:]
    private var queue = Deque<(slot: Slot, place: UInt64)>()
    /// The number of the latest change, or of a job that has begun since.
    private(set) var latest: UInt64 = 0
    /// The estimated memory of all changes, waiting or being carried out.
    private(set) var bytes = 0
    /// The largest ``load``.
    private let limit: Int
    private var load = 0
    private(set) var removals: [Scope: PendingRemoval] = [:]
    /// Slots whose version on disk is out of date, and must be removed before anything is written.
    private(set) var outdated: Set<Slot> = []
    /// The outdated slots that are to be removed, or known to be on disk.
    private var owed: Set<Slot> = []
    private var dropped: [Item] = []

    init(limit: Int) { self.limit = limit }

    mutating func nextNumber() -> UInt64 {
        latest += 1
        return latest
    }

    subscript(slot: Slot) -> Item? { items.isEmpty ? nil : items[slot] }

    /// Returns those that are still to be carried out. Removals that were asked for since come after the batch.
    func rest(of earlier: [Scope: PendingRemoval]) -> [Scope: PendingRemoval] {
        removals.filter { earlier[$0.key]?.number == $0.value.number }
    }

    var newRemovals: [Scope] { removals.filter { !$0.value.hasFailed }.map(\.key) }

    /// Versions on disk from before this time do not count; infinite if none counts.
    func goneBefore(_ slot: Slot, _ addresses: Addresses? = nil) -> TimeInterval {
        !outdated.isEmpty && outdated.contains(slot) ? .infinity : removals.goneBefore(slot, addresses)
    }

    /// Returns whether all changes would exceed the limit.
    func isFull(for record: EntryRecord, _ partial: Partial?, of slot: Slot) -> Bool {
        let item = Item(slot: slot, number: 0, record: record, partial: partial)
        let others = load - (items[slot].map(share(of:)) ?? 0)
        return others > 0 && others + share(of: item) > limit
    }

    /// Returns what a change counts towards the limit: a long body keeps neither itself nor others from the disk.
    private func share(of item: Item) -> Int { min(item.bytes, limit / 16) }

    /// Returns the changes that have been replaced or dropped, to be released outside the lock. Their callbacks get
    /// `false`.
    mutating func takeDropped() -> [Item] { exchange(&dropped, with: []) }

    /// Adds a change in place of the waiting one of its key. Callers that wait for a replaced write wait for the new
    /// one, which is durable if either is.
    mutating func add(
        _ record: EntryRecord?, _ partial: Partial? = nil, for slot: Slot, _ durability: Durability = .relaxed,
        whenDone: (@Sendable (Bool) -> Void)? = nil
    ) {
        var item = Item(slot: slot, number: nextNumber(), record: record, partial: partial, durability: durability)
        if let whenDone { item.whenDone = [whenDone] }
        var replaced = items[slot]
        if record != nil, let old = replaced {
            if old.durability == .durable { item.durability = .durable }
            item.whenDone = old.whenDone + item.whenDone
            replaced?.whenDone = []
        }
        item.place = replaced?.place ?? latest
        if items[slot] == nil {
            for scope in slot.derivedScopes { derived[scope, default: []].insert(slot) }
        }
        if replaced?.place == nil { queue.append((slot, latest)) }
        items[slot] = item
        bytes += item.bytes - (replaced?.bytes ?? 0)
        load += share(of: item) - (replaced.map(share(of:)) ?? 0)
        if let replaced { dropped.append(replaced) }
    }

    /// Adds a callback to a staged write, which becomes durable if wanted; `false` if there is none.
    mutating func join(_ slot: Slot, _ durability: Durability, whenDone: @escaping @Sendable (Bool) -> Void) -> Bool {
        guard let item = items[slot], let record = item.record else { return false }
        if item.place == nil, durability == .durable, item.durability == .relaxed {
            // A write that has begun cannot become durable, so the record is written once more.
            add(record, for: slot, .durable, whenDone: whenDone)
        } else {
            if durability == .durable { items[slot]?.durability = .durable }
            items[slot]?.whenDone.append(whenDone)
        }
        return true
    }

    private mutating func take(_ slot: Slot) -> Item? {
        guard let item = items.removeValue(forKey: slot) else { return nil }
        bytes -= item.bytes
        load -= share(of: item)
        for scope in slot.derivedScopes {
            derived[scope]?.remove(slot)
            if derived[scope]?.isEmpty == true { derived[scope] = nil }
        }
        return item
    }

    /// The keys of the entries to be written that are derived from one.
    func derivedKeys(of key: CacheKey) -> [CacheKey] {
        (derived[.derived(of: key)] ?? []).filter { $0.table == .entry && items[$0]?.record != nil }.map(\.key)
    }

    mutating func drop(_ slot: Slot) {
        if let item = take(slot) { dropped.append(item) }
    }

    mutating func drop(_ scope: Scope) {
        let slots: Set<Slot> =
            switch scope {
            case .all: Set(items.keys)
            case .derived: derived[scope] ?? []
            case .url(let url): Set(items.values.filter { $0.record?.value.info.isOf(url) == true }.map(\.slot))
            }
        for slot in slots { drop(slot) }
    }

    mutating func removeWrites(storedBefore limit: TimeInterval) {
        for item in Array(items.values) {
            if let record = item.record, record.value.info.stored < limit { add(nil, for: item.slot) }
        }
    }

    /// The oldest changes, which stay visible to reads until ``finish(_:_:)``.
    mutating func nextBatch() -> [Item] {
        var batch: [Item] = []
        var size = 0
        while batch.count < 128, size < 4 << 20, let next = queue.popFirst() {
            guard let item = items[next.slot], item.place == next.place else { continue }
            items[next.slot]?.place = nil
            batch.append(item)
            size += item.bytes
        }
        return batch
    }

    func isWaiting(upTo number: UInt64) -> Bool {
        removals.values.contains { !$0.hasFailed && $0.number <= number }
            || queue.first { items[$0.slot]?.place == $0.place }.map { $0.place <= number } ?? false
    }

    mutating func finish(_ batch: [Item], failed: Set<UInt64>) -> [(item: Item, isDone: Bool)] {
        batch.compactMap { item in
            guard items[item.slot]?.number == item.number, let present = take(item.slot) else { return nil }
            return (present, !failed.contains(item.number))
        }
    }

    var owesRemovals: Bool { !owed.isEmpty || removals.values.contains(where: \.hasFailed) }

    mutating func addOutdated(_ slots: [Slot], owed: [Slot]) {
        outdated.formUnion(slots)
        self.owed.formUnion(owed)
        if outdated.count <= 4_096 { return }
        // So many are not remembered one by one.
        (outdated, self.owed) = ([], [])
        let all = PendingRemoval(number: latest, time: .infinity, hasFailed: true)
        removals[.all, default: all].time = .infinity
    }

    mutating func remove(_ scope: Scope, storedBefore time: TimeInterval) {
        drop(scope)
        removals[scope] = PendingRemoval(number: nextNumber(), time: max(time, removals[scope]?.time ?? time))
    }

    mutating func finish(_ scope: Scope, _ removal: PendingRemoval, isDone: Bool) {
        // It may have been asked for again meanwhile.
        guard removals[scope]?.number == removal.number else { return }
        if isDone { removals[scope] = nil } else { removals[scope]?.hasFailed = true }
    }

    mutating func removedOutdated(_ slots: Set<Slot>) {
        outdated.subtract(slots)
        owed.subtract(slots)
    }
}

extension [StagingArea.Scope: StagingArea.PendingRemoval] {
    func goneBefore(_ slot: StagingArea.Slot, _ addresses: Addresses?) -> TimeInterval {
        if isEmpty { return -.infinity }
        return slot.scopes(addresses).compactMap { self[$0] }.reduce(-.infinity) {
            Swift.max($0, $1.hasFailed ? $1.time : .infinity)
        }
    }
}
