/// An event that a job only notes: the engine tells, cancels or releases what follows from it, and nothing else.
enum JobEvent: Sendable {
    /// A look-up is under way; `nil` if it was answered at once.
    case looksUp(LookUp?)
    /// The answer of the look-up is no longer wanted.
    case dropLookUp
    /// The tiers have answered. The claim is the right to keep what was found.
    case lookedUp(FetchJob.Found?, PartialBody?, Claim)
    /// Memory has an entry by now, which may be the answer for all calls.
    case found(FetchJob.Found, isAnswer: Bool)
    /// The job begins again, for a call that the last answer was not for.
    case beginAnew(Call)
    case throttle(Bool, at: Duration)
    case changeQueue(FetchQueue)
    case abort
    /// The job waits for a timer before its next attempt.
    case backOff(until: TimerQueue.ID)
    case endBackOff
    /// The job has woken, and waits for a slot.
    case waitForTurn(at: Duration)
    case networkReturned(at: Duration)
}

/// The consequences of a ``JobEvent``. All of them are to be released without a lock.
struct JobConsequence: Sendable {
    /// The transfer that is to be told.
    var transfer: (any Transfer)?
    /// The timer that is no longer needed.
    var timer: TimerQueue.ID?
    /// The look-up that is to be cancelled.
    var lookUp: LookUp?
    /// The phase that has ended.
    var phase: FetchJob.Phase?
    var dropped = JobFindings.Dropped()
}
