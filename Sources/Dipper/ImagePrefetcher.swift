import Foundation

/// Fetches pictures that someone may look at later.
///
/// ```swift
/// let prefetcher = ImagePrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// What is there already as it is wanted is skipped. What its serializer does not write is never there on disk:
/// processed pictures that move, by ``ImageSerializer/automatic``, and all that are processed, by
/// ``ImageSerializer/original``. Unless they are in memory, they are processed each time, without the network if the
/// original is there; prefetch the request without processors if the bytes are enough.
public typealias ImagePrefetcher = Prefetcher<ImageRequest>

extension Prefetcher where Request == ImageRequest {
    /// - Parameters:
    ///   - cache: the cache to fill.
    ///   - requests: what to fetch, in this order. A picture with processors is there if it is processed already.
    ///   - maxOutstanding: the most calls that are under way at a time; how many of them fetch is for `slowQueue` to say.
    ///     Those that wait for the network, or to try again, do not count, up to 256 of them.
    ///   - keepsInMemory: whether pictures are kept in memory too, for requests whose ``ImageOptions/prefetchesToMemory``
    ///     says nothing. Those that are on disk alone are then decoded, not skipped.
    public convenience init(
        _ cache: ImageCache = .shared, _ requests: [ImageRequest], maxOutstanding: Int = 4, keepsInMemory: Bool = false
    ) {
        let core = PrefetchCore(
            requests, maxOutstanding: maxOutstanding,
            .init(
                run: cache.data.runOnReader,
                isCached: { cache.answers($0, keepsInMemory: keepsInMemory) },
                call: { request, tell in
                    let keeps = cache.keepsPrefetched(request, keepsInMemory)
                    let task = cache.slowGetImage(
                        request.withoutStandIns.with(\.callbackQueue, .inPlace).with(\.prefetchesToMemory, keeps))
                    task.onFail { _, isFatal in if !isFatal { tell(.parked) } }
                    task.onRetry { tell(.resumed) }
                    task.onEnd { tell(.ended($0.error)) }
                    return { task.cancel() }
                }, callbackQueue: cache.data.callbackQueue))
        self.init(core)
    }

    /// The same for URLs, with the cache's defaults.
    public convenience init(
        _ cache: ImageCache = .shared, urls: [URL], maxOutstanding: Int = 4, keepsInMemory: Bool = false
    ) {
        self.init(
            cache, urls.map { ImageRequest($0) }, maxOutstanding: maxOutstanding, keepsInMemory: keepsInMemory)
    }
}
