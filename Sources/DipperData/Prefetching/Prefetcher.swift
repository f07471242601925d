/// A prefetcher of many requests whose answers someone may need later: it makes a few calls at a time, in `slowQueue`.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// The prefetcher skips requests that the cache can answer already, judged by the metadata of the entries alone;
/// entries that are out of date count as missing. An urgent call for the same key promotes a prefetch, and the bytes
/// are fetched once. A million URLs cost no more memory than their list.
///
/// Methods may be called from any thread. The prefetcher continues if it is released; ``stop()`` ends it.
public final class Prefetcher<Request: Hashable & Sendable>: Sendable {
    private let window: PrefetchWindow<Request>

    package init(_ requests: [Request], maxOutstanding: Int, _ cache: PrefetchWindow<Request>.Cache) {
        window = PrefetchWindow(requests, maxOutstanding: maxOutstanding, cache)
    }

    /// Starts the prefetcher. Without effect the second time.
    @discardableResult
    public func start() -> Prefetcher {
        window.start()
        return self
    }

    /// Adds requests behind those that wait.
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    @discardableResult
    public func add(_ requests: [Request]) -> Bool { window.add(requests) }

    /// Takes requests, equal to those that were added, out of the prefetcher. Their calls under way are cancelled; a
    /// fetch goes on if other calls wait for it. Progress and result no longer contain them.
    public func remove(_ requests: [Request]) { window.remove(Set(requests)) }

    /// The priority inside `slowQueue` of all calls of the prefetcher, also of those under way. With `nil`, the default,
    /// new calls have the priorities of their requests.
    public var priority: Priority? {
        get { window.priority }
        set { window.priority = newValue }
    }

    /// Pauses the prefetcher: no more calls are made. Calls under way go on to their ends.
    public func pause() { window.pause() }

    /// Resumes a paused prefetcher.
    public func resume() { window.resume() }

    /// Whether the prefetcher is paused.
    public var isPaused: Bool { window.isPaused }

    /// Stops the prefetcher: cancels the calls under way and makes no more. ``PrefetchResult/remaining`` has the
    /// requests that were not done. A fetch goes on if other calls wait for it; the received part of a body is kept, so
    /// that a later fetch can continue it.
    public func stop() { window.stop() }

    /// The progress of the prefetcher now.
    ///
    /// ```swift
    /// let progress = prefetcher.progress
    /// print("\(progress.finished) of \(progress.total), \(progress.failed) failed")
    /// ```
    public var progress: PrefetchProgress { window.progress }

    /// Calls a closure with the progress at the start, when requests are added and as requests end, on the cache's
    /// callback queue. If requests end faster than the closure is called, it gets the latest progress.
    @discardableResult
    public func onProgress(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (PrefetchProgress) -> Void
    ) -> Prefetcher {
        window.onProgress(onItsActor(body))
        return self
    }

    /// Calls a closure last, when all requests have ended or the prefetcher was stopped, on the cache's callback queue.
    @discardableResult
    public func onEnd(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (PrefetchResult<Request>) -> Void
    ) -> Prefetcher {
        window.onEnd(onItsActor(body))
        return self
    }

    /// The result of the prefetcher. Awaiting it starts the prefetcher and returns when all requests have ended or the
    /// prefetcher has been stopped, perhaps before the closures have been called. Cancelling the Swift task that awaits
    /// it stops the prefetcher.
    ///
    /// ```swift
    /// let result = await prefetcher.value
    /// for failure in result.failed { print(failure.request, failure.error) }
    /// ```
    public var value: PrefetchResult<Request> {
        get async {
            window.start()
            return await window.value
        }
    }
}

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
