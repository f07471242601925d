/// How far a prefetcher has come.
public struct PrefetchProgress: Sendable, Hashable {
    /// Requests whose answers are there now.
    public var completed = 0
    /// Requests that ended with an error.
    public var failed = 0
    /// Requests whose answers were there before.
    public var skipped = 0
    /// All requests, those that are still to come included.
    public var total = 0

    /// Nothing yet.
    public init() {}

    /// Requests that have ended, well or not.
    public var finished: Int { completed + failed + skipped }
    /// The share of requests that have ended, from 0 to 1; 1 of none.
    public var fraction: Double { total == 0 ? 1 : Double(finished) / Double(total) }
}

/// What a prefetcher has done.
public struct PrefetchResult<Request: Sendable>: Sendable {
    /// A request that ended with an error.
    public struct Failure: Sendable {
        /// What was asked for.
        public let request: Request
        /// Why it could not be had.
        public let error: DipperError
    }

    /// Requests whose answers are there now, in the order in which they came.
    public internal(set) var completed: [Request] = []
    /// Requests that ended with an error, after what retries there are.
    public internal(set) var failed: [Failure] = []
    /// Requests whose answers were there before.
    public internal(set) var skipped: [Request] = []
    /// Requests that were not done when the prefetcher was stopped: those under way, then those that waited.
    public internal(set) var remaining: [Request] = []
}
