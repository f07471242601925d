/// What the scheduler wants done. The driver carries actions out in order, without holding its lock.
enum SchedulerAction<Waiter: Sendable, Work: Sendable>: Sendable {
    /// Ask the disk tier; answer with `lookedUp`. The job holds no slot for it.
    case lookUp(JobID, Work)
    /// The job that is being looked up is as urgent as it is now.
    case moveLookUp(JobID, Work)
    /// Nobody waits for the disk tier's answer any more.
    case dropLookUp(Work)
    /// From now on only look-ups of this lane or a more urgent one may begin; none with `nil`.
    case beginLookUps(downTo: Lane?)
    /// The job has a slot and goes to the network. Answer with `finished` or `failed`.
    case transfer(JobID, Work, lane: Lane, throttled: Bool)
    /// Stop a running transfer from using the link, or let it use the link again.
    case setThrottled(Work, Bool)
    /// A parked job has woken and waits for a slot.
    case waitForTurn(Work)
    /// The running transfer is now in this lane.
    case setLane(Work, Lane)
    /// Nobody waits for the job any more: stop what it does.
    case abort(Work)
    /// Send `timerFired` with this token after the wait.
    case arm(JobID, Work, after: Duration, token: UInt32)
    /// The parked job has ended: its timer is not needed any more.
    case disarm(Work)
    /// The same for `pauseElapsed`: the slow lane has been held up.
    case armPause(after: Duration, token: UInt32)
    /// The task has ended, in this lane.
    case end(Waiter, Work, Ending, Lane)
    /// The job failed for now and is parked; the task goes on waiting.
    case tellFailure(Waiter, Work)
    /// The job is about to try again.
    case tellRetry(Waiter, Work)
    /// Call this after everything before it has been told. Only the driver adds it.
    case call(@Sendable () -> Void)
    /// A change worth showing: for logs, metrics and the timeline.
    case note(Work, JobNote)
}

/// How a task ended.
enum Ending: Sendable, Hashable {
    /// With what the disk tier had.
    case cached
    /// With what the network delivered.
    case fetched
    /// With what the cache had, although it is out of date: the network has failed.
    case keptAnswer
    /// With the job's failure.
    case failed
    /// The cache alone was asked, and it has nothing.
    case notCached
    case cancelled
    case timedOut
}

/// A change in a job's life.
enum JobNote: Sendable, Hashable {
    case queued(Lane)
    case looking(Lane)
    case transferring(Lane)
    case paused
    case resumed
    case laneChanged(Lane)
    case parked
    case ended
}

/// Names a job as long as it lives; never used again.
struct JobID: Hashable, Sendable {
    let index: Int32
    let generation: UInt32
}

/// Names a task as long as it waits; never used again.
struct TaskID: Hashable, Sendable {
    let index: Int32
    let generation: UInt32
}

/// Names one who takes what is fetched, and may hold it back; never used again.
struct HolderID: Hashable, Sendable {
    let number: UInt64
}
