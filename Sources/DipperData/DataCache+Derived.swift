import CXXHash
import Foundation

/// What a cache of things made of the bytes asks of the cache of the bytes.
extension DataCache {
    /// The request that will be made in place of this one, now: another while the network is constrained; `nil` if the disk
    /// has to be asked first. Decided once: what is fetched again later is to be the same.
    package func effective(_ request: DataRequest) -> DataRequest? {
        guard request.hasHooks, request.lowDataSource != nil else { return request }
        guard configuration.networkMonitor.conditions.isConstrained else { return effective(request, isThere: true) }
        if store.memory.contains(request.cacheKey) { return effective(request, isThere: true) }
        return store.disk == nil ? effective(request, isThere: false) : nil
    }

    /// The request that will be made in place of this one while the network is constrained.
    /// - Parameter isThere: whether the tiers have what it asks for.
    package func effective(_ request: DataRequest, isThere: Bool) -> DataRequest {
        guard let small = request.lowDataSource, !isThere else { return request.with(\.lowDataSource, nil) }
        return request.replacing(with: small)
    }

    /// Whether the tiers have something under a key, asked on a thread that reads and in the order of urgency.
    /// - Returns: what takes the question back, so that it is never answered, or moves it; `nil` if it has been answered.
    package func hasEntry(
        _ key: CacheKey, _ place: LookUpQueue.Place, _ answer: @escaping @Sendable (Bool) -> Void
    ) -> LookUp? {
        store.hasEntry(key, place, answer)
    }

    /// The policy that holds for a request.
    package func policy(of request: DataRequest) -> DataRequest.CachePolicy {
        request.policy(configuration.cachePolicy)
    }

    /// Where the closures of a request's call run.
    package func callbackQueue(of request: DataRequest) -> CallbackQueue {
        request.callbackQueue ?? defaults.callbackQueue
    }

    /// Why no call can be made with this request.
    package func defect(of request: DataRequest) -> DipperError? {
        request.defect ?? (isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    /// The time that expirations are measured by.
    package var now: Date { configuration.now() }

    /// Whether something made of an answer may be shown without asking the server, however old it is.
    package func mayShow(_ info: EntryInfo, _ request: DataRequest) -> Bool {
        (200...299).contains(info.status) && info.isChosen(by: request.headers)
    }

    /// What is known of something that the caller adds.
    package func infoOfAdded(_ request: DataRequest) -> EntryInfo {
        EntryInfo(url: request.address, stored: now.timeIntervalSince1970)
    }

    /// A memory tier with this cache's sense of time, which follows its memory pressure.
    package func makeObjectTier(limit: Int, count: Int?) -> ObjectTier {
        ObjectTier(
            limit: limit, count: count, history: store.history, now: configuration.now, pressure: pressure
        ) { [reporter = engine.reporter] in reporter.cleaned($0) }
    }

    /// Calls back with the level as it is now, unless that is `normal`, and with each one that follows, from any thread,
    /// after the memory tiers have followed it, until the observation is let go of. The same level may come twice.
    /// - Parameter last: to be called after all those that need not be.
    package func observeMemoryPressure(
        last: Bool = false, _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation { pressure.follow(last: last, onChange) }

    /// How the request may use something made of an answer.
    @inline(__always)
    package func use(of info: EntryInfo, for request: DataRequest) -> StoredUse {
        let isPlain = info.isPlain && request.headers.isEmpty && !request.hasHooks
        if isPlain, info.freshness.until == .infinity { return .fresh }
        let now = configuration.now().timeIntervalSince1970
        if isPlain, info.freshness.isFresh(at: now) { return .fresh }
        let call = Call(request, key: request.cacheKey, defaults: defaults)
        // Its bytes would have to be looked at.
        if call.hasOwnValidation { return .revalidate }
        let use = call.use(of: info, at: now)
        switch use {
        case .revalidate where call.cachePolicy == .cacheOnly && info.isChosen(by: request.headers):
            return StoredAnswer(info).mayServeDisconnected(for: request.headers) ? .stale : .revalidate
        case .staleWhileRevalidating where !call.mayFetch: return .stale
        default: return use
        }
    }

    /// Whether what is made of an answer may be kept.
    package func mayKeep(_ info: EntryInfo, for request: DataRequest) -> Bool {
        store.mayKeep(info, Call(request, key: request.cacheKey, defaults: defaults))
    }

    /// How long what is made of a request's answer is kept in memory: as long as the request or the cache says
    /// (``DataRequest/memoryExpiration``), also if the bytes expire before on disk; where neither says anything, as long
    /// as the bytes.
    package func memoryLifetime(of request: DataRequest, madeOf info: EntryInfo) -> Lifetime {
        store.memoryLifetime(Call(request, key: request.cacheKey, defaults: defaults), stored: info.storedDate)
    }

    /// Whether something made of the bytes of an entry may still be kept: not if the entry was flushed since, or if
    /// everything was cleared after the entry was asked for. The tiers ask this themselves.
    package func mayStillKeep(_ info: EntryInfo) -> Bool { store.history.admits(info) }

    /// Tells statistics and observers of an answer that this cache was not asked for.
    package func noteMemoryHit(_ key: CacheKey, _ queue: FetchQueue) {
        engine.reporter.asked(key, queue)
        engine.reporter.memoryHit(key)
    }

    /// Whether what the network, or a provider, brings for a request is kept on disk.
    package func keepsOnDisk(_ request: DataRequest) -> Bool {
        store.disk != nil && Call(request, key: request.cacheKey, defaults: defaults).keepsOnDisk
    }

    /// Whether a call with this request waits until its entry is on disk.
    package func waitsForDisk(_ request: DataRequest) -> Bool {
        request.waitsForDiskWrite && keepsOnDisk(request)
    }

    /// Holds prefetches up until it is known whether an urgent call follows.
    package func reserveFast() -> FastReservation { FastReservation(engine) }

    /// Fetches in `slowQueue` what is newer than what the tiers have, with its validators. While that is under way for
    /// a request, others get the task that there is.
    package func revalidate(_ request: DataRequest) -> DataTask {
        // Each use of what is stored has to be confirmed (RFC 9111, section 5.2.1.4).
        var headers = request.headers
        headers.append("Cache-Control", "no-cache")
        let request = request.withoutStandIns.with(\.headers, headers).with(\.key, request.cacheKey)
        let (task, isNew) = engine.revalidation(for: Call(request, key: request.cacheKey, defaults: defaults))
        if isNew { start(task) }
        return task
    }

    /// Whether there is a disk tier.
    package var hasDisk: Bool { store.disk != nil }

    /// Looks at what the tiers have under a key, on a thread that reads and in the order of urgency; nothing is fetched.
    /// - Returns: what takes the look back, so that it is never answered, or moves it; `nil` if it has been answered.
    @discardableResult
    package func readEntry(
        _ key: CacheKey, _ place: LookUpQueue.Place = .init(.fast, .normal),
        _ answer: @escaping @Sendable (StoredData?) -> Void
    ) -> LookUp? {
        store.read(key, place, answer)
    }

    /// For one who takes what is fetched, and cannot always take more.
    /// - Parameter queue: what is held back then: all that has not begun, or prefetches alone.
    package func makeHold(of queue: FetchQueue) -> FetchHold { FetchHold(engine, of: queue) }

    /// The same on the caller's thread.
    package func peekEntry(_ key: CacheKey, for request: DataRequest) -> (
        value: StoredData, source: ResponseSource
    )? {
        store.find(key, request.headers).flatMap {
            $0.value.info.isChosen(by: request.headers) ? ($0.value, $0.source) : nil
        }
    }

    /// Keeps on disk what was made of an answer, with a digest of the bytes it was made of, as long as those would be.
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

    /// Tells bytes from others; the same in every process.
    package static func digest(of data: Data) -> UInt64 {
        data.withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) }
    }
}

extension EntryInfo {
    static let digestField = "Dipper-Made-Of"

    var storedDate: Date { Date(timeIntervalSince1970: stored) }

    /// The fields of the server's answer.
    package var serverHeaders: HTTPHeaders {
        headers[Self.digestField] == nil ? headers : headers.removing { $0 == Self.digestField.lowercased() }
    }

    /// The digest of the bytes that a derived entry was made of.
    package var digestOfOriginal: UInt64? { headers[Self.digestField].flatMap { UInt64($0, radix: 16) } }
}
