/// The rules in which the queues differ. Nothing else in the scheduler tells one queue from another.
struct QueueRule: Sendable {
    /// The queues whose work comes first. While one of them has work, no job starts in this queue. Once one of them is
    /// on the network, running jobs of this queue are throttled until all of them are drained.
    let yieldsTo: PerQueue<Bool>
    /// The greatest backlog of the disk with which jobs start.
    let startsUpTo: StorageBacklog
    /// Whether the disk tier is asked at once, so that a hit never waits behind downloads. Otherwise the job waits for
    /// a slot first.
    let looksUpFirst: Bool
    /// Whether a call ends the back-off of the job that it joins.
    let endsBackOff: Bool
    /// Whether running jobs beyond the queue's number of slots are throttled. They were started in another queue.
    let throttlesExcess: Bool

    static let table = PerQueue(
        fast: QueueRule(
            yieldsTo: PerQueue(fast: false, slow: false), startsUpTo: .high, looksUpFirst: true, endsBackOff: true,
            throttlesExcess: false),
        slow: QueueRule(
            yieldsTo: PerQueue(fast: true, slow: false), startsUpTo: .none, looksUpFirst: false, endsBackOff: false,
            throttlesExcess: true))
}

extension FetchQueue {
    var rule: QueueRule { QueueRule.table[self] }

    /// Returns whether work in the other queue comes before work in this one.
    func yields(to other: FetchQueue) -> Bool { rule.yieldsTo[other] }
}
