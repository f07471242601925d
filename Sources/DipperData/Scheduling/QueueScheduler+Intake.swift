/// Limits on what may be fetched: the budget of bytes, the backlog of the disk, and consumers that hold fetches back.
extension QueueScheduler {
    /// Takes a notice of the budget: the transfers hold all the bytes that they may, or fewer again.
    mutating func budgetChanged(_ notice: ByteBudget.Notice, into actions: inout [Action]) {
        if intake.take(notice) { dispatch(into: &actions) }
    }

    /// Takes a notice of the disk: it falls behind, or has caught up.
    mutating func storageBacklogged(_ notice: BacklogNotice, into actions: inout [Action]) {
        if intake.take(notice) { dispatch(into: &actions) }
    }

    /// Adds a consumer of fetched bytes, which may hold back this queue and the queues that yield to it.
    mutating func addHolder(of queue: FetchQueue) -> HolderID { intake.add(of: queue) }

    /// Removes a holder, which then holds nothing back.
    mutating func removeHolder(_ id: HolderID, into actions: inout [Action]) {
        if intake.remove(id) { holdingChanged(into: &actions) }
    }

    /// Takes a notice of a holder: it cannot take more for now, or can again.
    mutating func hold(_ notice: ByteBudget.Notice, for id: HolderID, into actions: inout [Action]) {
        if intake.take(notice, from: id) { holdingChanged(into: &actions) }
    }

    private mutating func holdingChanged(into actions: inout [Action]) {
        actions.append(.beginLookUps(downTo: intake.leastUrgentQueue))
        dispatch(into: &actions)
    }
}
