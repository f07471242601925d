/// A prefetcher fetches many things that someone may look at later, in `slowQueue` and a few at a time. It is a
/// ``DataPrefetcher``, or an `ImagePrefetcher` of `Dipper`.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// The prefetcher skips requests that the cache can answer already. To find that out it reads the metadata of an entry,
/// but not its body. Entries that are out of date count as missing, so that the server is asked whether they are still
/// valid.
///
/// Few calls are under way at a time: a million URLs cost no more than their list. An urgent call for the same key
/// promotes a prefetch, and the bytes are fetched once.
///
/// Methods may be called from any thread and return at once. The prefetcher continues if it is released; ``stop()`` ends
/// it.
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
    ///
    /// ```swift
    /// prefetcher.add([DataRequest(nextURL)])
    /// ```
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    @discardableResult
    public func add(_ requests: [Request]) -> Bool { window.add(requests) }

    /// Takes requests out of the prefetcher. Their calls that are under way are cancelled; a fetch goes on if other calls
    /// wait for it. The progress no longer counts them, and the result does not contain them. The requests must be equal to
    /// those that were added.
    ///
    /// ```swift
    /// prefetcher.remove([DataRequest(url)])       // the row is gone
    /// ```
    public func remove(_ requests: [Request]) { window.remove(Set(requests)) }

    /// The priority inside `slowQueue` of all calls of the prefetcher, now and from now on. With `nil`, the default, calls
    /// that are made from now on have the priorities of their requests.
    ///
    /// ```swift
    /// prefetcher.priority = .low          // the page is no longer in front
    /// ```
    public var priority: Priority? {
        get { window.priority }
        set { window.priority = newValue }
    }

    /// Pauses the prefetcher: no more calls are made. The few calls under way go on to their ends.
    public func pause() { window.pause() }

    /// Resumes a paused prefetcher.
    public func resume() { window.resume() }

    /// Whether the prefetcher is paused.
    public var isPaused: Bool { window.isPaused }

    /// Stops the prefetcher: cancels the calls under way and makes no more.
    ///
    /// The prefetcher ends at once; ``PrefetchResult/remaining`` has the requests that were not done. A fetch goes on
    /// if other calls wait for it. The received part of a body that is broken off is kept, so that a later fetch can
    /// continue it.
    ///
    /// ```swift
    /// prefetcher.stop()
    /// ```
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

    /// Calls a closure once, when all requests have ended or the prefetcher has been stopped, on the cache's callback
    /// queue. No closure is called after that.
    @discardableResult
    public func onEnd(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (PrefetchResult<Request>) -> Void
    ) -> Prefetcher {
        window.onEnd(onItsActor(body))
        return self
    }

    /// The result of the prefetcher. Awaiting it starts the prefetcher and returns when all requests have ended or the
    /// prefetcher has been stopped.
    ///
    /// Code that awaits the result may continue before the closures have been called. Cancelling the Swift task that
    /// awaits it stops the prefetcher.
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
