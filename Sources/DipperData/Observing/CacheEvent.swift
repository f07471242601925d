/// Something that happened in a cache, for the timeline and other observers.
public struct CacheEvent: Sendable {
    /// What happened.
    public enum Kind: Sendable, Hashable {
        /// A call was made in this queue.
        case asked(FetchQueue)
        /// The memory tier answered a call at once, without a job.
        case memoryHit
        /// A job waits in this queue.
        case queued(FetchQueue)
        /// A job asks the disk tier.
        case looking(FetchQueue)
        /// A job moves bytes.
        case transferring(FetchQueue)
        /// A running job is held back for urgent work, and let go again.
        case paused
        case resumed
        /// A job was promoted or demoted.
        case queueChanged(FetchQueue)
        /// A job waits for the network or for a back-off.
        case parked
        /// A call ended.
        case answered(ResponseSource)
        case failed(DipperError)
        /// A job ended; nobody waits for it any more.
        case ended
        /// A tier has removed entries of its own accord. Belongs to no key.
        case cleaned(Cleaning)
    }

    /// Time since the cache was made, on its clock.
    public let time: Duration
    /// What it happened to. Empty for what happened to the cache as a whole.
    public let key: CacheKey
    /// What happened.
    public let kind: Kind

    /// An event, for observers under test.
    public init(time: Duration, key: CacheKey, kind: Kind) {
        self.time = time
        self.key = key
        self.kind = kind
    }
}
