import Foundation

/// Fetches many things that someone may look at later, in the slow lane, a few at a time.
///
/// ```swift
/// let prefetcher = DataPrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// What is there already is skipped, of which no more is read than is noted with it. What is out of date counts as not
/// there, so that the server is asked whether it still holds. Few calls are under way at a time: a million URLs cost no
/// more than their list. What is asked for urgently meanwhile is promoted, and fetched once.
///
/// All calls may be made from any thread and return at once. Letting go of the prefetcher stops it.
public final class DataPrefetcher: Sendable {
    private let core: PrefetchCore<DataRequest>

    /// - Parameters:
    ///   - cache: the cache to fill.
    ///   - requests: what to fetch, in this order.
    ///   - maxOutstanding: the most calls that are under way at a time; how many of them fetch is for the slow lane to say.
    ///     Those that wait for the network, or to try again, do not count, up to 256 of them.
    public init(_ cache: DataCache = .shared, _ requests: [DataRequest], maxOutstanding: Int = 4) {
        core = PrefetchCore(
            requests, maxOutstanding: maxOutstanding,
            .init(
                run: cache.runOnReader,
                isCached: { cache.answers($0, under: $0.cacheKey) },
                call: { request, tell in
                    let task = cache.slowGetData(request.with(\.callbackQueue, .inPlace))
                    task.onFail { _, isFatal in if !isFatal { tell(.parked) } }
                    task.onRetry { tell(.resumed) }
                    task.onEnd { tell(.ended($0.error)) }
                    return { task.cancel() }
                }, queue: cache.defaults.queue))
    }

    /// The same for URLs, with the cache's defaults.
    public convenience init(_ cache: DataCache = .shared, urls: [URL], maxOutstanding: Int = 4) {
        self.init(cache, urls.map { DataRequest($0) }, maxOutstanding: maxOutstanding)
    }

    /// Begins. Without effect the second time.
    @discardableResult
    public func start() -> DataPrefetcher {
        core.start()
        return self
    }

    /// Adds requests behind those that wait.
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    @discardableResult
    public func add(_ requests: [DataRequest]) -> Bool { core.add(requests) }

    /// Starts no more calls. Those under way go on to their ends, which are near: there are few of them.
    public func pause() { core.pause() }

    /// Goes on after a pause.
    public func resume() { core.resume() }

    /// Whether it has been paused.
    public var isPaused: Bool { core.isPaused }

    /// Cancels the calls under way, unless others wait for the same, and starts no more. It ends at once; what was not done
    /// is told as `PrefetchResult.remaining`. What has arrived of broken off bodies is kept, to go on from there later.
    public func stop() { core.stop() }

    /// How far it has come.
    public var progress: PrefetchProgress { core.progress }

    /// Called at the start and as requests end, on the cache's callback queue; with the latest state where they end faster than that.
    @discardableResult
    public func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) -> DataPrefetcher {
        core.onProgress(body)
        return self
    }

    /// Called once, when all requests have ended or the prefetcher has been stopped, on the cache's callback queue. Nothing
    /// is told after that.
    @discardableResult
    public func onEnd(_ body: @escaping @Sendable (PrefetchResult<DataRequest>) -> Void) -> DataPrefetcher {
        core.onEnd(body)
        return self
    }

    /// Starts, and returns when all requests have ended or the prefetcher has been stopped, whether its closures have been
    /// called by then or not. Cancelling the Swift task that awaits it stops the prefetcher.
    public var value: PrefetchResult<DataRequest> {
        get async {
            core.start()
            return await core.value
        }
    }

    deinit { core.stop() }
}
