/// The state of an engine, which its driver holds: the scheduler, and what is counted and noted beside it. A value.
struct FetchMachine: Sendable {
    typealias Scheduler = QueueScheduler<DataTask, FetchJob>

    var scheduler: Scheduler
    private(set) var bodies: BodyBudget
    var revalidations = RevalidationTasks()
    /// The timer of the pause in which prefetches may run.
    var pauseTimer: TimerQueue.ID?
    /// The observation of the network; `nil` once the engine has been shut down.
    var observation: ChangeObservation?

    init(_ scheduler: Scheduler, inFlightLimit: Int) {
        self.scheduler = scheduler
        bodies = BodyBudget(limit: inFlightLimit)
    }

    /// Changes the budget for bodies, and tells the scheduler if that has spent the budget or freed it.
    mutating func account<Result>(
        into actions: inout [Scheduler.Action], _ change: (inout BodyBudget) -> Result
    ) -> Result {
        let before = bodies.notice
        let result = change(&bodies)
        if bodies.notice != before { scheduler.budgetChanged(bodies.notice, into: &actions) }
        return result
    }
}
