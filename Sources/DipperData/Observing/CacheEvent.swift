/// An event in a cache, for the timeline and other observers.
///
/// ```swift
/// var configuration = DataCache.Configuration()
/// configuration.observer = { event in
///     if case .failed(let error) = event.kind { print(event.time, event.key, error) }
/// }
/// ```
public struct CacheEvent: Sendable {
    /// The kind of an event.
    public enum Kind: Sendable, Hashable {
        /// A call was made in this queue.
        case asked(FetchQueue)
        /// The memory tier answered a call at once, without a job.
        case memoryHit
        /// A job waits in this queue.
        case queued(FetchQueue)
        /// A job asks the disk tier.
        case looking(FetchQueue)
        /// A job transfers bytes.
        case transferring(FetchQueue)
        /// A running job is held back for urgent work.
        case paused
        /// A job that was held back continues.
        case resumed
        /// A job was promoted or demoted to this queue.
        case queueChanged(FetchQueue)
        /// A job waits for the network or for a back-off.
        case parked
        /// A call ended with an answer.
        case answered(ResponseSource)
        /// A call ended with an error.
        case failed(DipperError)
        /// A job ended; no call waits for it any more.
        case ended
        /// A tier removed entries by itself, or for a call that named no single entry. The event belongs to no key.
        case cleaned(Cleaning)
    }

    /// The time since the cache was created, on the cache's clock.
    public let time: Duration
    /// The key that the event concerns; empty for an event of the cache as a whole.
    public let key: CacheKey
    /// The kind of the event.
    public let kind: Kind

    /// Creates an event, for tests of observers.
    public init(time: Duration, key: CacheKey, kind: Kind) {
        self.time = time
        self.key = key
        self.kind = kind
    }
}
