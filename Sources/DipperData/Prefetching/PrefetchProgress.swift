/// The progress of a prefetcher.
public struct PrefetchProgress: Sendable, Hashable {
    /// The number of requests that ended with success.
    public var completed = 0
    /// The number of requests that ended with an error.
    public var failed = 0
    /// The number of requests that were skipped, because the cache could answer them already.
    public var skipped = 0
    /// The number of all requests, those that are still to come included.
    public var total = 0

    /// Creates a progress of no requests.
    public init() {}

    /// The number of requests that have ended, with success or not.
    public var finished: Int { completed + failed + skipped }
    /// The share of requests that have ended, from 0 to 1; 1 if there are no requests.
    public var fraction: Double { total == 0 ? 1 : Double(finished) / Double(total) }
}

/// The result of a prefetcher.
public struct PrefetchResult<Request: Sendable>: Sendable {
    /// A request that ended with an error.
    public struct Failure: Sendable {
        /// The request that failed.
        public let request: Request
        /// The error that the request ended with.
        public let error: DipperError
    }

    /// The requests that ended with success, in the order in which they ended.
    public internal(set) var completed: [Request] = []
    /// The requests that ended with an error, after the retries that their policies allow.
    public internal(set) var failed: [Failure] = []
    /// The requests that were skipped, because the cache could answer them already.
    public internal(set) var skipped: [Request] = []
    /// The requests that were not done when the prefetcher was stopped: those under way, then those that waited.
    public internal(set) var remaining: [Request] = []
}
