/// The identifier of a consumer of fetched bytes that may hold fetches back. It is never reused.
struct HolderID: Hashable, Sendable {
    let number: UInt64
}

/// The limits on what may be fetched: the backlog of the disk, the budget of bytes, and consumers that cannot take
/// more. A value.
struct Intake: Sendable {
    struct Holder: Sendable {
        /// The queue that the holder holds back, with all queues that yield to it.
        let queue: FetchQueue
        var isHolding = Latest(false)
    }

    private var backlog = Latest(StorageBacklog.none)
    private var isSpent = Latest(false)
    /// The consumers of fetched bytes. There are never many.
    private(set) var holders: [HolderID: Holder] = [:]
    private var lastHolder: UInt64 = 0

    /// Whether the transfers hold as many bytes as they may.
    var isBudgetSpent: Bool { isSpent.value }

    /// Returns whether the disk and all consumers can take what a queue fetches.
    func accepts(_ queue: FetchQueue) -> Bool {
        backlog.value <= queue.rule.startsUpTo && !isHeldBack(queue)
    }

    private func isHeldBack(_ queue: FetchQueue) -> Bool {
        holders.values.contains { $0.isHolding.value && ($0.queue == queue || queue.yields(to: $0.queue)) }
    }

    /// The least urgent queue that no holder holds back; `nil` if all are held back.
    var leastUrgentQueue: FetchQueue? { FetchQueue.byUrgency.reduce(nil) { isHeldBack($1) ? $0 : $1 } }

    // Each function that takes a notice or removes a holder returns whether this has changed anything.

    mutating func take(_ notice: ByteBudget.Notice) -> Bool { isSpent.take(notice.isSpent, number: notice.number) }

    mutating func take(_ notice: BacklogNotice) -> Bool { backlog.take(notice.backlog, number: notice.number) }

    mutating func take(_ notice: ByteBudget.Notice, from id: HolderID) -> Bool {
        holders[id]?.isHolding.take(notice.isSpent, number: notice.number) ?? false
    }

    mutating func add(of queue: FetchQueue) -> HolderID {
        lastHolder += 1
        let id = HolderID(number: lastHolder)
        holders[id] = Holder(queue: queue)
        return id
    }

    mutating func remove(_ id: HolderID) -> Bool { holders.removeValue(forKey: id)?.isHolding.value ?? false }
}
