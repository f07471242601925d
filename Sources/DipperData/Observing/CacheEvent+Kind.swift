extension CacheEvent {
    /// The kind of an event.
    public enum Kind: Sendable, Hashable {
        // MARK: Calls

        /// A call was made in this queue.
        case callBegan(FetchQueue)
        /// A call waits for this job, together with the other calls that have joined it. A call that turns to a smaller
        /// source joins a second job.
        case callJoined(job: ID)
        /// A call ended with an answer.
        case callAnswered(ResponseSource)
        /// A call ended with an error.
        case callFailed(DipperError)

        // MARK: Jobs

        /// A job waits in this queue.
        case queued(FetchQueue)
        /// A running job is held back for urgent work.
        case paused
        /// A job that was held back continues.
        case resumed
        /// A job was promoted or demoted to this queue.
        case queueChanged(FetchQueue)
        /// A job waits for the network or for a back-off.
        case parked
        /// A job ended; no call waits for it any more.
        case jobEnded

        // MARK: Look-ups

        /// A job in this queue asks the disk tier and the tiers below.
        case lookUpBegan(FetchQueue)
        /// A look-up ended with an entry of this source; with `nil` if there is no entry, or if no call waits for the
        /// look-up any more.
        case lookUpEnded(ResponseSource?)

        // MARK: Attempts

        /// A job in this queue has its turn to transfer bytes.
        case attemptBegan(FetchQueue)
        /// A request of an attempt was sent over the network. An attempt may need several because of redirects.
        case requested
        /// The network has answered a request of an attempt, with a body of this size in bytes.
        case received(status: Int, bytes: Int, metrics: TransferMetrics)
        /// An attempt ended.
        case attemptEnded(AttemptEnd)

        // MARK: Objects

        /// The decoding of bytes began.
        case decodeBegan
        /// The decoding of bytes ended, with an error if it failed.
        case decodeEnded(DipperError?)
        /// A processing step with this identifier began.
        case stepBegan(String)
        /// A processing step ended, with an error if it failed.
        case stepEnded(DipperError?)

        // MARK: Tiers

        /// An entry with a body of this size, in bytes, waits to be written to disk.
        case writeBegan(bytes: Int)
        /// The write of an entry ended. The entry is not on disk if the write failed or the entry was removed.
        case writeEnded(isOnDisk: Bool)
        /// A tier removed entries by itself, or for a call that named no single entry. The event belongs to no key.
        case cleaned(Cleaning)

        // MARK: Conditions

        /// Some hosts may have become reachable or unreachable, or the network constrained.
        case networkChanged
        /// The memory pressure has this level now.
        case memoryPressure(MemoryPressure)

        // MARK: Listening

        /// A listener of ``DataCache/events`` was too slow and missed this number of events. Only that listener
        /// receives the event.
        case missed(Int)
    }

    /// The way in which an attempt ended.
    public enum AttemptEnd: Sendable, Hashable {
        /// The attempt brought an answer, or found that another call had brought it meanwhile.
        case answered(ResponseSource)
        /// The attempt failed. With `willRetry` the job tries again.
        case failed(DipperError, willRetry: Bool)
        /// No call waits for the attempt any more, or the job has to wait for its turn again.
        case stopped
    }
}
