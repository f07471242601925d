/// What is fetched can or cannot be kept and taken.
extension QueueScheduler {
    /// The transfers hold all the bytes that they may, or fewer again.
    mutating func budgetChanged(_ notice: ByteBudget.Notice, into actions: inout [Action]) {
        if intake.take(notice) { dispatch(into: &actions) }
    }

    /// The disk falls behind, or has caught up.
    mutating func storageBacklogged(_ notice: BacklogNotice, into actions: inout [Action]) {
        if intake.take(notice) { dispatch(into: &actions) }
    }

    /// Adds a consumer of fetched bytes, which may hold back this queue and those that yield to it.
    mutating func addHolder(of queue: FetchQueue) -> HolderID { intake.add(of: queue) }

    /// A holder goes, and holds nothing back any more.
    mutating func removeHolder(_ id: HolderID, into actions: inout [Action]) {
        if intake.remove(id) { holdingChanged(into: &actions) }
    }

    /// A holder cannot take more for now, or can again.
    mutating func hold(_ notice: ByteBudget.Notice, for id: HolderID, into actions: inout [Action]) {
        if intake.take(notice, from: id) { holdingChanged(into: &actions) }
    }

    private mutating func holdingChanged(into actions: inout [Action]) {
        actions.append(.beginLookUps(downTo: intake.leastUrgentQueue))
        dispatch(into: &actions)
    }
}
