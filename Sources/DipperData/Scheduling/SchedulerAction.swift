/// An action that the scheduler asks for. The driver carries actions out in order, without holding its lock.
enum SchedulerAction<Waiter: Sendable, Work: Sendable>: Sendable {
    /// Ask the disk tier; answer with `lookedUp`.
    case lookUp(JobID, Work)
    /// Move the look-up of a job to the urgency that the job has now.
    case moveLookUp(JobID, Work)
    /// Drop a look-up whose answer is no longer wanted.
    case dropLookUp(Work)
    /// From now on begin only look-ups of this queue and of more urgent queues; with `nil`, begin none.
    case beginLookUps(downTo: FetchQueue?)
    /// Begin the transfer of a job that has a slot; answer with `finished` or `failed`.
    case transfer(JobID, Work, queue: FetchQueue, throttled: Bool)
    /// Stop a running transfer from using the link, or let it use the link again.
    case setThrottled(Work, Bool)
    /// Note that a parked job has woken and waits for a slot.
    case waitForTurn(Work)
    /// Move a running transfer to another queue.
    case setQueue(Work, FetchQueue)
    /// Stop the transfer of a job that no task waits for any more.
    case abort(Work)
    /// Send `timerFired` with this token after the delay.
    case arm(JobID, Work, after: Duration, token: UInt32)
    /// Cancel the timer of a parked job that has ended.
    case disarm(Work)
    /// Send `pauseElapsed` with this token after the delay: a queue has been held up.
    case armPause(after: Duration, token: UInt32)
    /// End a task, which is in this queue.
    case end(Waiter, Work, Ending, FetchQueue)
    /// Tell a task that its job has failed for now and is parked. The task goes on waiting.
    case tellFailure(Waiter, Work)
    /// Tell a task that its job is about to try again.
    case tellRetry(Waiter, Work)
    /// Call this after everything before it has been told. Only the driver adds it.
    case call(@Sendable () -> Void)
    /// Tell a change to the sinks of events.
    case note(Work, JobNote)
    /// Tell the sinks of events that a task waits for this work. Only the driver adds it.
    case noteJoined(Waiter, Work)
}

/// The way in which a task ended.
enum Ending: Sendable, Hashable {
    /// With what the tiers have.
    case cached
    /// With what the network delivered.
    case fetched
    /// With what the cache has, although it is out of date, because the network has failed.
    case keptAnswer
    /// With the job's failure.
    case failed
    /// Without an answer: only the cache was asked, and it has none.
    case notCached
    case cancelled
    case timedOut
}

/// A change in a job's life.
enum JobNote: Sendable, Hashable {
    case queued(FetchQueue)
    case looking(FetchQueue)
    case transferring(FetchQueue)
    case paused
    case resumed
    case queueChanged(FetchQueue)
    case parked
    case ended
}
