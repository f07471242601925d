extension FetchJob {
    /// The part of a job's life that it is in.
    enum Phase: Sendable {
        /// The job is looked up, or waits for a slot or for the network.
        case waiting
        /// The job waits for this timer before its next attempt.
        case backingOff(TimerQueue.ID)
        /// An attempt is under way.
        case attempting(JobExchange)
        /// The job has its answer. It begins anew if the answer is not for all of its calls.
        case answered(JobAnswer)
    }
}
