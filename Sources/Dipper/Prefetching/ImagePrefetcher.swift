import Foundation

/// Fetches many pictures that someone may look at later, in the slow lane, a few at a time.
///
/// ```swift
/// let prefetcher = ImagePrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// What is there already is skipped, of which no more is read than is noted with it. What is out of date counts as not
/// there, so that the server is asked whether it still holds. Few calls are under way at a time: a million URLs cost no
/// more than their list. What is asked for urgently meanwhile is promoted, and fetched once.
///
/// What its serializer does not write is never there on disk: processed pictures that move, by
/// ``ImageSerializer/automatic``, and all that are processed, by ``ImageSerializer/original``. Unless they are in memory,
/// they are processed each time, without the network if the original is there; prefetch the request without processors
/// if the bytes are enough.
///
/// All calls may be made from any thread and return at once. Letting go of the prefetcher stops it.
public final class ImagePrefetcher: Sendable {
    private let core: PrefetchCore<ImageRequest>

    /// - Parameters:
    ///   - cache: the cache to fill.
    ///   - requests: what to fetch, in this order. A picture with processors is there if it is processed already.
    ///   - maxOutstanding: the most calls that are under way at a time; how many of them fetch is for the slow lane to say.
    ///     Those that wait for the network, or to try again, do not count, up to 256 of them.
    ///   - keepsInMemory: whether pictures are kept in memory too, for requests whose ``ImageOptions/prefetchesToMemory``
    ///     says nothing. Those that are on disk alone are then decoded, not skipped.
    public init(
        _ cache: ImageCache = .shared, _ requests: [ImageRequest], maxOutstanding: Int = 4, keepsInMemory: Bool = false
    ) {
        core = PrefetchCore(
            requests, maxOutstanding: maxOutstanding,
            .init(
                run: cache.data.runOnReader,
                isCached: { cache.answers($0, keepsInMemory: keepsInMemory) },
                call: { request, tell in
                    let keeps = cache.keepsPrefetched(request, keepsInMemory)
                    let task = cache.slowGetImage(
                        request.with(\.callbackQueue, .inPlace).with(\.prefetchesToMemory, keeps))
                    task.onFail { _, isFatal in if !isFatal { tell(.parked) } }
                    task.onRetry { tell(.resumed) }
                    task.onEnd { tell(.ended($0.error)) }
                    return { task.cancel() }
                }, queue: cache.data.callbackQueue))
    }

    /// The same for URLs, with the cache's defaults.
    public convenience init(
        _ cache: ImageCache = .shared, urls: [URL], maxOutstanding: Int = 4, keepsInMemory: Bool = false
    ) {
        self.init(
            cache, urls.map { ImageRequest($0) }, maxOutstanding: maxOutstanding, keepsInMemory: keepsInMemory)
    }

    /// Begins. Without effect the second time.
    @discardableResult
    public func start() -> ImagePrefetcher {
        core.start()
        return self
    }

    /// Adds requests behind those that wait.
    /// - Returns: false, and nothing is added, if the prefetcher has ended.
    @discardableResult
    public func add(_ requests: [ImageRequest]) -> Bool { core.add(requests) }

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
    public func onProgress(_ body: @escaping @Sendable (PrefetchProgress) -> Void) -> ImagePrefetcher {
        core.onProgress(body)
        return self
    }

    /// Called once, when all requests have ended or the prefetcher has been stopped, on the cache's callback queue. Nothing
    /// is told after that.
    @discardableResult
    public func onEnd(_ body: @escaping @Sendable (PrefetchResult<ImageRequest>) -> Void) -> ImagePrefetcher {
        core.onEnd(body)
        return self
    }

    /// Starts, and returns when all requests have ended or the prefetcher has been stopped, whether its closures have been
    /// called by then or not. Cancelling the Swift task that awaits it stops the prefetcher.
    public var value: PrefetchResult<ImageRequest> {
        get async {
            core.start()
            return await core.value
        }
    }

    deinit { core.stop() }
}
