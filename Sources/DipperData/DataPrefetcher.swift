import Foundation

/// A prefetcher of bytes that someone may look at later; see ``Prefetcher``.
public typealias DataPrefetcher = Prefetcher<DataRequest>

extension Prefetcher where Request == DataRequest {
    /// Creates a prefetcher for requests, whose calls are made in this order. ``start()`` starts it.
    ///
    /// At most `maxOutstanding` calls, by default 4, are made at a time. How many of them fetch is a limit of the cache,
    /// `maxConcurrent` of ``DataCache/slowQueue``; if you set `maxOutstanding` to more than that, the log says so. Calls
    /// that wait for the network or for their next attempt do not count, up to 256 of them.
    ///
    /// ```swift
    /// cache.slowQueue.maxConcurrent = 4       // by default one
    /// let requests = urls.map { DataRequest($0).with(\.diskExpiration, .days(30)) }
    /// let prefetcher = DataPrefetcher(cache, requests).start()
    /// ```
    public convenience init(_ cache: DataCache = .shared, _ requests: [DataRequest], maxOutstanding: Int? = nil) {
        self.init(
            requests, maxOutstanding: cache.outstanding(maxOutstanding), cache.callbackQueue, run: cache.runOnReader,
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
    public convenience init(_ cache: DataCache = .shared, urls: [URL], maxOutstanding: Int? = nil) {
        self.init(cache, urls.map { DataRequest($0) }, maxOutstanding: maxOutstanding)
    }

    /// Adds requests of URLs; see ``add(_:)``.
    public func add(urls: [URL]) { add(urls.map { DataRequest($0) }) }
    /// Takes requests of URLs out of the prefetcher; see ``remove(_:)``.
    public func remove(urls: [URL]) { remove(urls.map { DataRequest($0) }) }
}

extension DataCache {
    package var callbackQueue: CallbackQueue { defaults.callbackQueue }

    /// Runs work that may block for as long as the disk takes, on a reader's thread.
    package func runOnReader(_ work: @escaping @Sendable () -> Void) {
        store.runOnReader(.init(.slow, .normal), work)
    }

    /// Returns the number of calls that a prefetcher may make at a time.
    package func outstanding(_ asked: Int?) -> Int {
        guard let asked else { return 4 }
        runOnReader { [self] in
            let limit = slowQueue.maxConcurrent
            guard asked > limit, !hasToldOfOutstanding.exchange(true, ordering: .relaxed) else { return }
            configuration.logger.category("queues").warning(
                "slowQueue fetches less at a time than a prefetcher may call for",
                metadata: ["maxConcurrent": "\(limit)", "maxOutstanding": "\(asked)"])
        }
        return asked
    }

    package func holdPrefetches(_ work: () -> Void) {
        engine.post { [engine] in engine.reserve() }
        work()
        engine.post { [engine] in engine.release() }
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
        return info.mayBeShown(to: request.headers) && use(of: info, for: request, key) == .fresh && mayUse(info)
    }
}

extension Result where Failure == DipperError {
    package var error: DipperError? {
        if case .failure(let error) = self { error } else { nil }
    }
}
