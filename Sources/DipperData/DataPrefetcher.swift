import Foundation

/// A prefetcher of bytes that someone may look at later; see ``Prefetcher``.
public typealias DataPrefetcher = Prefetcher<DataRequest>

extension Prefetcher where Request == DataRequest {
    /// Creates a prefetcher for requests, whose calls are made in this order. ``start()`` starts it.
    ///
    /// At most `maxOutstanding` calls are under way at a time; `slowQueue` decides how many of them fetch. Calls that
    /// wait for the network or for their next attempt do not count, up to 256 of them.
    ///
    /// ```swift
    /// let requests = urls.map { DataRequest($0).with(\.diskExpiration, .days(30)) }
    /// let prefetcher = DataPrefetcher(cache, requests, maxOutstanding: 8).start()
    /// ```
    public convenience init(_ cache: DataCache = .shared, _ requests: [DataRequest], maxOutstanding: Int = 4) {
        self.init(
            requests, maxOutstanding: maxOutstanding, cache.callbackQueue, run: cache.runOnReader,
            hold: cache.holdPrefetches
        ) { request in
            let request = cache.complete(request)
            return cache.answers(request, under: request.cacheKey)
        } call: { request in
            cache.slowGetData(request.withoutStandIns.with(\.callbackQueue, .inPlace))
        }
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

extension DataCache {
    package var callbackQueue: CallbackQueue { defaults.callbackQueue }

    /// Runs work that may block for as long as the disk takes, on a reader's thread.
    package func runOnReader(_ work: @escaping @Sendable () -> Void) {
        store.runOnReader(.init(.slow, .normal), work)
    }

    package func holdPrefetches(_ work: () -> Void) {
        engine.post { $0.reserve() }
        work()
        engine.post { $0.release() }
    }

    /// Returns whether the entry of a key is a fresh success that answers a request without the network. Reads no body.
    package func answers(
        _ request: DataRequest, under key: CacheKey, if mayUse: (EntryInfo) -> Bool = { _ in true }
    ) -> Bool {
        let policy = policy(of: request)
        guard policy != .ignoreCache, policy != .bypass else { return false }
        guard
            let info = store.memory.part(of: key, { $0.info }) ?? (policy.readsDisk ? store.disk?.info(of: key) : nil)
        else { return false }
        return info.mayBeShown(to: request.headers) && use(of: info, for: request) == .fresh && mayUse(info)
    }
}

extension Result where Failure == DipperError {
    package var error: DipperError? {
        if case .failure(let error) = self { error } else { nil }
    }
}
