import Foundation

/// The interface that image loading uses: cache policies, freshness, derived entries. A derived entry is made from the
/// bytes of another entry.
extension DataCache {
    /// Returns the request that is made in place of this one now: another one while the network is constrained and the
    /// tiers do not have the larger source. `nil` if the disk has to be asked first.
    ///
    /// The result has no ``DataRequest/lowDataSource``, so that a later fetch with it asks for the same source.
    package func effective(_ request: DataRequest) -> DataRequest? {
        guard request.hasHooks, request.lowDataSource != nil else { return request }
        guard configuration.networkMonitor.conditions.isConstrained else { return request.effective(isThere: true) }
        if store.memory.contains(request.cacheKey) { return request.effective(isThere: true) }
        return store.disk == nil ? request.effective(isThere: false) : nil
    }

    /// Returns a request as the cache makes it of the caller's; see ``Configuration/completeRequest``.
    @inline(__always)
    package func complete(_ request: DataRequest) -> DataRequest {
        guard completesRequests, let complete = configuration.completeRequest else { return request }
        var request = request
        complete(&request)
        return request
    }

    /// Returns the keys by which the calls for a request are found: its own and, for that of a URL alone, the plain key of
    /// the URL, by which calls with other keys are found as well.
    package func keys(of request: DataRequest) -> Set<CacheKey> {
        let key = complete(request).cacheKey
        return request.plainKey == nil ? [key, request.cacheKey] : [key]
    }

    /// Stores bytes under the key of a request that has been completed.
    package func add(_ data: Data, forCompleted request: DataRequest) throws(DipperError) {
        try check(request.cacheKey)
        add(data, request.cacheKey, request)
    }

    /// Waits until the entry under a key is on disk, as a completed request wants it. Returns whether it is.
    package func isWritten(_ key: CacheKey, forCompleted request: DataRequest) async -> Bool {
        await withCheckedContinuation { continuation in
            objectSource().settle(key, for: request) { continuation.resume(returning: $0) }
        }
    }

    /// Returns the tier that has an entry under a key for the header fields of a request that has been completed.
    package func source(of key: CacheKey, forCompleted request: DataRequest) -> ResponseSource? {
        store.tier(of: key, request.headers, in: .all)
    }

    /// Returns the cache policy that applies to a request.
    package func policy(of request: DataRequest) -> DataRequest.CachePolicy {
        request.policy(configuration.cachePolicy)
    }

    /// Returns the queue on which the closures of a request's call run.
    package func callbackQueue(of request: DataRequest) -> CallbackQueue {
        defaults.callbackQueue(of: request)
    }

    /// Returns the error that every call with this request ends with; `nil` if calls can be made.
    package func defect(of request: DataRequest) -> DipperError? {
        engine.defect(of: request) ?? (engine.isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    /// The present time, which expirations are measured by.
    package var now: Date { configuration.now() }

    /// Returns the metadata of an entry that the caller adds.
    package func infoOfAdded(_ request: DataRequest) -> EntryInfo {
        EntryInfo(url: request.address, stored: now.timeIntervalSince1970)
    }

    /// Creates a memory tier for objects. The tier uses this cache's clock, respects its removals and follows its
    /// memory pressure.
    package func makeObjectTier(limit: Int, count: Int?) -> ObjectTier {
        ObjectTier(
            limit: limit, count: count, order: configuration.evictionOrder, history: store.history,
            now: configuration.now, expiries: store.expiries, pressure: pressure
        ) { [events = engine.events] in events.cleaned($0) }
    }

    /// Calls a closure with the present memory pressure, unless that is `normal`, and with each later one, until the
    /// observation is released.
    ///
    /// The closure is called from any thread, after the memory tier and all earlier observers have followed the change.
    /// One level may come twice.
    /// - Parameter last: whether the closure is called after all observers that have not asked for this.
    package func observeMemoryPressure(
        last: Bool = false, _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation { pressure.follow(last: last, onChange) }

    /// Returns how the request may use an object made from an answer.
    @inline(__always)
    package func use(of info: EntryInfo, for request: DataRequest) -> StoredUse {
        defaults.use(of: info, for: request, at: configuration.now)
    }

    /// Returns the object of a key in a memory tier that answers a request. A request with options of its own decides how
    /// long the tier keeps it.
    package func object(_ key: CacheKey, in memory: ObjectTier, for request: DataRequest) -> ObjectTier.Entry? {
        store.object(key, in: memory, for: request, defaults)
    }

    /// Counts a memory hit of a cache that is built on this one, and tells the call. This cache was not asked for it.
    package func noteMemoryHit(_ key: CacheKey, _ queue: FetchQueue) {
        engine.events.call(key, queue, .success(.memory))
    }

    /// Returns whether the answer of the network or of a provider to a request is kept on disk.
    package func keepsOnDisk(_ request: DataRequest) -> Bool {
        store.disk != nil && Call(request, key: request.cacheKey, defaults: defaults).keepsOnDisk
    }

    /// Returns whether a call with this request waits until its entry is on disk.
    package func waitsForDisk(_ request: DataRequest) -> Bool {
        request.waitsForDiskWrite && keepsOnDisk(request)
    }

    /// Returns the interface of this cache for objects that are made from its bytes.
    /// - Parameter forms: the data cache that keeps the stored forms; `nil` for this one.
    package func objectSource(formsIn forms: DataCache? = nil) -> ObjectSource {
        ObjectSource(engine, defaults, forms: forms?.store)
    }

    /// Creates a cache of objects that are made from bytes.
    package func makeObjectCache(memory: ObjectTier, workers: Workers, _ listener: ObjectCache.Listener) -> ObjectCache
    {
        ObjectCache(engine, memory: memory, workers: workers, listener)
    }

    /// Creates the right to keep what is made from the bytes of a key.
    package func claim(_ key: CacheKey) -> Claim { store.history.claim(key) }

    /// Returns a closure that fetches a newer version of what the tiers have, in `slowQueue` and with its validators.
    /// While such a fetch for a request is under way, further calls return its task. The closure does not keep this
    /// cache alive.
    package func renewal(of request: DataRequest) -> @Sendable () -> DataTask {
        { [engine, defaults] in
            // The server must confirm each use of a stored answer (RFC 9111, section 5.2.1.4).
            var headers = request.headers
            headers.append("Cache-Control", "no-cache")
            let request = request.withoutStandIns.with(\.headers, headers).with(\.key, request.cacheKey)
            let (task, isNew) = engine.revalidations.withLock {
                $0.task(for: Call(request, key: request.cacheKey, defaults: defaults))
            }
            if isNew { engine.start(task) }
            return task
        }
    }

    /// Creates a hold for a consumer of fetched bytes that cannot always take more.
    /// - Parameter queue: the fetches that are held back then: with `fast` all that have not begun, with `slow`
    ///   prefetches alone.
    package func makeHold(of queue: FetchQueue) -> FetchHold { FetchHold(engine, of: queue) }
}

extension DataRequest {
    /// Returns the request that is made in place of this one while the network is constrained.
    /// - Parameter isThere: whether the tiers have the bytes that the request asks for.
    package func effective(isThere: Bool) -> DataRequest {
        guard let small = lowDataSource, !isThere else { return with(\.lowDataSource, nil) }
        return replacing(with: small)
    }
}

extension EntryInfo {
    static let digestField = "Dipper-Made-Of"

    var storedDate: Date { Date(timeIntervalSince1970: stored) }

    /// The header fields of the server's answer, without the cache's own.
    package var serverHeaders: HTTPHeaders {
        headers[Self.digestField] == nil ? headers : headers.removing { $0 == Self.digestField.lowercased() }
    }

    /// The digest of the bytes that a derived entry was made from; `nil` for other entries.
    package var digestOfOriginal: UInt64? { headers[Self.digestField].flatMap { UInt64($0, radix: 16) } }
}
