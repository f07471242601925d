import Foundation

/// A prefetcher of bytes that someone may look at later; see ``Prefetcher``.
public typealias DataPrefetcher = Prefetcher<DataRequest>

extension Prefetcher where Request == DataRequest {
    /// Creates a prefetcher for requests. ``start()`` starts it.
    ///
    /// ```swift
    /// let requests = urls.map { DataRequest($0).with(\.diskExpiration, .days(30)) }
    /// let prefetcher = DataPrefetcher(cache, requests, maxOutstanding: 8).start()
    /// ```
    /// - Parameters:
    ///   - cache: the cache to fill.
    ///   - requests: the requests, in the order in which their calls are made.
    ///   - maxOutstanding: the largest number of calls under way at a time. `slowQueue` decides how many of them fetch.
    ///     Calls that wait for the network or for their next attempt do not count, up to 256 of them.
    public convenience init(_ cache: DataCache = .shared, _ requests: [DataRequest], maxOutstanding: Int = 4) {
        self.init(
            requests, maxOutstanding: maxOutstanding,
            .init(
                run: cache.runOnReader,
                isCached: { request in
                    let request = cache.complete(request)
                    return cache.answers(request, under: request.cacheKey)
                },
                callbackQueue: cache.defaults.callbackQueue
            ) { cache.slowGetData($0.withoutStandIns.with(\.callbackQueue, .inPlace)) })
    }

    /// Creates a prefetcher for URLs, with the cache's defaults. ``start()`` starts it.
    ///
    /// ```swift
    /// let result = await DataPrefetcher(cache, urls: urls).value
    /// print(result.completed.count, result.failed.count)
    /// ```
    public convenience init(_ cache: DataCache = .shared, urls: [URL], maxOutstanding: Int = 4) {
        self.init(cache, urls.map { DataRequest($0) }, maxOutstanding: maxOutstanding)
    }
}
