import CXXHash
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
        guard configuration.networkMonitor.conditions.isConstrained else { return effective(request, isThere: true) }
        if store.memory.contains(request.cacheKey) { return effective(request, isThere: true) }
        return store.disk == nil ? effective(request, isThere: false) : nil
    }

    /// Returns the request that is made in place of this one while the network is constrained.
    /// - Parameter isThere: whether the tiers have the bytes that the request asks for.
    package func effective(_ request: DataRequest, isThere: Bool) -> DataRequest {
        guard let small = request.lowDataSource, !isThere else { return request.with(\.lowDataSource, nil) }
        return request.replacing(with: small)
    }

    /// Finds out whether memory or disk has an entry for a key, on a reader's thread and in the order of urgency.
    /// - Returns: the look-up, which can be cancelled, so that it is never answered, or moved; `nil` if it has been
    ///   answered.
    package func hasEntry(
        _ key: CacheKey, _ place: LookUpQueue.Place, _ answer: @escaping @Sendable (Bool) -> Void
    ) -> LookUp? {
        store.hasEntry(key, place, answer)
    }

    /// Returns the cache policy that applies to a request.
    package func policy(of request: DataRequest) -> DataRequest.CachePolicy {
        request.policy(configuration.cachePolicy)
    }

    /// Returns the queue on which the closures of a request's call run.
    package func callbackQueue(of request: DataRequest) -> CallbackQueue {
        request.callbackQueue ?? defaults.callbackQueue
    }

    /// Returns the error that every call with this request ends with; `nil` if calls can be made.
    package func defect(of request: DataRequest) -> DipperError? {
        request.defect ?? (isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    /// The present time, which expirations are measured by.
    package var now: Date { configuration.now() }

    /// Returns whether an object made from an answer may be shown without asking the server, however old the answer is.
    package func mayShow(_ info: EntryInfo, _ request: DataRequest) -> Bool {
        (200...299).contains(info.status) && info.isChosen(by: request.headers)
    }

    /// Returns the metadata of an entry that the caller adds.
    package func infoOfAdded(_ request: DataRequest) -> EntryInfo {
        EntryInfo(url: request.address, stored: now.timeIntervalSince1970)
    }

    /// Creates a memory tier for objects. The tier uses this cache's clock, respects its removals and follows its
    /// memory pressure.
    package func makeObjectTier(limit: Int, count: Int?) -> ObjectTier {
        ObjectTier(
            limit: limit, count: count, history: store.history, now: configuration.now, pressure: pressure
        ) { [reporter = engine.reporter] in reporter.cleaned($0) }
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
        let isPlain = info.isPlain && request.headers.isEmpty && !request.hasHooks
        if isPlain, info.freshness.until == .infinity { return .fresh }
        let now = configuration.now().timeIntervalSince1970
        if isPlain, info.freshness.isFresh(at: now) { return .fresh }
        let call = Call(request, key: request.cacheKey, defaults: defaults)
        // A validation of the request's own needs the bytes.
        if call.hasOwnValidation { return .revalidate }
        let use = call.use(of: info, at: now)
        switch use {
        case .revalidate where call.cachePolicy == .cacheOnly && info.isChosen(by: request.headers):
            return StoredAnswer(info).mayServeDisconnected(for: request.headers) ? .stale : .revalidate
        case .staleWhileRevalidating where !call.mayFetch: return .stale
        default: return use
        }
    }

    /// Returns whether an object made from an answer may be kept.
    package func mayKeep(_ info: EntryInfo, for request: DataRequest) -> Bool {
        store.mayKeep(info, Call(request, key: request.cacheKey, defaults: defaults))
    }

    /// Returns how long an object made from a request's answer is kept in memory.
    ///
    /// The request or the cache decides (``DataRequest/memoryExpiration``), even if the bytes expire earlier on disk.
    /// If neither has an expiration, the object is kept as long as the bytes.
    package func memoryLifetime(of request: DataRequest, madeOf info: EntryInfo) -> Lifetime {
        store.memoryLifetime(Call(request, key: request.cacheKey, defaults: defaults), stored: info.storedDate)
    }

    /// Returns whether an object made from an entry's bytes may still be kept: not if the entry has been flushed since,
    /// or if everything was cleared after the entry was asked for. The tiers make this check themselves.
    package func mayStillKeep(_ info: EntryInfo) -> Bool { store.history.admits(info) }

    /// Counts a memory hit of a cache that is built on this one, and tells the observer. This cache was not asked for
    /// it.
    package func noteMemoryHit(_ key: CacheKey, _ queue: FetchQueue) {
        engine.reporter.asked(key, queue)
        engine.reporter.memoryHit(key)
    }

    /// Returns whether the answer of the network or of a provider to a request is kept on disk.
    package func keepsOnDisk(_ request: DataRequest) -> Bool {
        store.disk != nil && Call(request, key: request.cacheKey, defaults: defaults).keepsOnDisk
    }

    /// Returns whether a call with this request waits until its entry is on disk.
    package func waitsForDisk(_ request: DataRequest) -> Bool {
        request.waitsForDiskWrite && keepsOnDisk(request)
    }

    /// Creates a reservation that holds prefetches back until it is known whether an urgent call follows.
    package func reserveFast() -> FastReservation { FastReservation(engine) }

    /// Fetches a newer version of what the tiers have, in `slowQueue` and with its validators. While such a fetch for a
    /// request is under way, further calls return its task.
    package func revalidate(_ request: DataRequest) -> DataTask {
        // The server must confirm each use of a stored answer (RFC 9111, section 5.2.1.4).
        var headers = request.headers
        headers.append("Cache-Control", "no-cache")
        let request = request.withoutStandIns.with(\.headers, headers).with(\.key, request.cacheKey)
        let (task, isNew) = engine.revalidation(for: Call(request, key: request.cacheKey, defaults: defaults))
        if isNew { start(task) }
        return task
    }

    /// Whether the cache has a disk tier.
    package var hasDisk: Bool { store.disk != nil }

    /// Reads the entry of a key from memory or disk, on a reader's thread and in the order of urgency. Fetches nothing.
    /// - Returns: the look-up, which can be cancelled, so that it is never answered, or moved; `nil` if it has been
    ///   answered.
    @discardableResult
    package func readEntry(
        _ key: CacheKey, _ place: LookUpQueue.Place = .init(.fast, .normal),
        _ answer: @escaping @Sendable (StoredData?) -> Void
    ) -> LookUp? {
        store.read(key, place, answer)
    }

    /// Creates a hold for a consumer of fetched bytes that cannot always take more.
    /// - Parameter queue: the fetches that are held back then: with `fast` all that have not begun, with `slow`
    ///   prefetches alone.
    package func makeHold(of queue: FetchQueue) -> FetchHold { FetchHold(engine, of: queue) }

    /// Returns the entry of a key if it is for the request's header fields, or the variant of it that they choose.
    /// Reads memory and disk on the caller's thread.
    package func peekEntry(_ key: CacheKey, for request: DataRequest) -> (
        value: StoredData, source: ResponseSource
    )? {
        store.find(key, request.headers).flatMap {
            $0.value.info.isChosen(by: request.headers) ? ($0.value, $0.source) : nil
        }
    }

    /// Keeps what was made from an answer in memory and, unless the request is for this process alone, on disk, where
    /// it expires with the answer's bytes.
    /// - Parameters:
    ///   - info: the metadata of the answer.
    ///   - digest: the digest of the bytes that it was made from, which is kept with it.
    ///   - whenWritten: called once, with whether it is on disk.
    package func keepDerived(
        _ data: Data, for key: CacheKey, madeOf info: EntryInfo, digest: UInt64, _ request: DataRequest,
        whenWritten: (@Sendable (_ isOnDisk: Bool) -> Void)? = nil
    ) {
        let own: Set = ["content-type", "content-length", EntryInfo.digestField.lowercased()]
        var headers = Storing.fields(of: info.headers).removing(own.contains)
        headers.append(EntryInfo.digestField, String(digest, radix: 16))
        store.add(
            StoredData(data: data, info: info.with(headers, family: info.family)), for: key,
            Call(request, key: key, defaults: defaults), onDisk: !request.isForThisProcess, request.durability,
            stored: info.storedDate, whenWritten: whenWritten)
    }

    /// Returns a digest by which bytes are told apart. It is the same in every process.
    package static func digest(of data: Data) -> UInt64 {
        data.withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) }
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
