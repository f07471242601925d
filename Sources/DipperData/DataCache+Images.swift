import Dispatch
import Foundation
import Synchronization

/// The interface that image loading uses. A derived entry is made from the bytes of another entry.
extension DataCache {
    /// The request that is made in place of this one now: one for the smaller source while the network is constrained
    /// and the tiers do not have the larger one. `nil` if the disk has to be asked first.
    ///
    /// The result has no ``DataRequest/lowDataSource``, so that a later fetch with it asks for the same source.
    /// - Parameter key: the key of the request; the result comes with its own.
    package func effective(_ request: DataRequest, _ key: CacheKey) -> (request: DataRequest, key: CacheKey)? {
        guard request.hasHooks, request.lowDataSource != nil else { return (request, key) }
        if !engine.network.conditions.isConstrained || store.memory.contains(key) {
            return (request.effective(isThere: true), key)
        }
        guard store.disk == nil else { return nil }
        let smaller = request.effective(isThere: false)
        return (smaller, smaller.cacheKey)
    }

    @inline(__always)
    package func complete(_ request: DataRequest) -> DataRequest {
        guard completesRequests else { return request }
        var request = request
        configuration.completeRequest?(&request)
        if let rule = configuration.keyRule, request.keyRule == nil { request.keyRule = rule }
        return request
    }

    /// Returns the keys by which the calls for a request are found: its own and, for the request of a URL alone, the
    /// plain key of the URL, which finds calls with other keys too.
    package func keys(of request: DataRequest) -> Set<CacheKey> {
        let own = request.cacheKey
        let key = completesRequests ? complete(request).cacheKey : own
        return request.plainKey(beside: own) == nil ? [key, own] : [key]
    }

    package func add(_ data: Data, _ key: CacheKey, forCompleted request: DataRequest) throws(DipperError) {
        try check(key)
        add(data, key, request)
    }

    /// Waits until the entry of a key is on disk, if the request wants that. Returns whether it is.
    package func isWritten(_ key: CacheKey, forCompleted request: DataRequest) async -> Bool {
        let call = Call(request, key: key, defaults: defaults)
        return await withCheckedContinuation { continuation in
            store.settle(key, call) { continuation.resume(returning: $0) }
        }
    }

    package func source(
        of key: CacheKey, forCompleted request: DataRequest, in tiers: CacheTiers, if mayUse: (EntryInfo) -> Bool
    ) -> ResponseSource? {
        store.tier(of: key, request.headers, in: tiers, if: mayUse)
    }

    /// Returns the success on disk, or the variant that a request chooses, if it may be used.
    package func readDisk(
        _ key: CacheKey, forCompleted request: DataRequest, if mayUse: (EntryInfo) -> Bool
    ) -> Data? {
        guard let found = store.find(key, request.headers, in: .disk)?.value,
            found.info.mayBeShown(to: request.headers), mayUse(found.info)
        else { return nil }
        return found.data
    }

    package var hasDisk: Bool { store.disk != nil }

    /// Returns the keys of some entries on disk that are derived from one. Reads the index.
    package func derivedKeysOnDisk(of key: CacheKey) -> [CacheKey] { store.disk?.derivedKeys(of: key) ?? [] }

    package func policy(of request: DataRequest) -> DataRequest.CachePolicy {
        request.policy(configuration.cachePolicy)
    }

    package func callbackQueue(of request: DataRequest) -> CallbackQueue {
        defaults.callbackQueue(of: request)
    }

    /// The queue of displays that are given none: that of the user interface's loop, if closures run in one.
    package var displayQueue: CallbackQueue {
        if let queue = configuration.callbackQueue, case .custom = queue.kind { queue } else { .main }
    }

    private static let markOfMainQueue = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()

    /// Logs, once for this cache, that nobody serves the main queue or one of a loop, and that a display of the main queue is
    /// used on another thread.
    package func watch(_ queue: CallbackQueue) {
        switch queue.kind {
        case .custom: ask(queue, "a custom callback queue", hasAskedCustomQueue)
        case .dispatch(let main) where main.label == DispatchQueue.main.label:
            // After `dispatchMain()` no thread is the main one.
            let isThere = DispatchQueue.getSpecific(key: Self.markOfMainQueue) != nil
            if !isThere, !hasToldOfThread.exchange(true, ordering: .relaxed) {
                configuration.logger.category("queues").warning(
                    "an ImageBinding of the main queue is used outside of it; see ImageBinding.init")
            }
            ask(queue, "the main queue", hasAskedMainQueue)
        case .dispatch, .inPlace: break
        }
    }

    private func ask(_ queue: CallbackQueue, _ name: String, _ hasAsked: borrowing Atomic<Bool>) {
        // A clock of a test may be past the second before the queue has had its turn.
        guard engine.time.isReal, !hasAsked.exchange(true, ordering: .relaxed) else { return }
        let (answer, logger) = (Cancellation(), configuration.logger.category("queues"))
        queue.perform { answer.set() }
        engine.post { [engine] in
            engine.timers.add(
                at: engine.time.now() + .seconds(1),
                .making { _ in
                    guard !answer.isSet else { return }
                    logger.warning(
                        """
                        nothing has run on \(name) for a second, so its displays stay empty: serve it (dispatchMain, \
                        RunLoop, the loop of the user interface), or give the binding a queue that is served
                        """)
                })
        }
    }

    package func defect(of request: DataRequest) -> DipperError? {
        engine.options.defect(of: request) ?? (engine.isShutDown.load(ordering: .acquiring) ? .shutDown : nil)
    }

    package var now: Date { configuration.now() }

    package func infoOfAdded(_ request: DataRequest, asked: String? = nil) -> EntryInfo {
        EntryInfo(url: request.address, asked: asked, stored: now.timeIntervalSince1970)
    }

    /// Creates a memory tier for objects that has this cache's clock, and follows its removals and its memory pressure.
    package func makeObjectMemoryTier(limit: Int, count: Int?) -> ObjectMemoryTier {
        ObjectMemoryTier(
            limit: limit, count: count, order: configuration.evictionOrder, history: store.history,
            now: configuration.now, expiries: store.expiries, pressure: pressure
        ) { [events = engine.events] in events.cleaned($0) }
    }

    /// Follows the memory pressure, after the memory tier and all earlier observers; see ``PressureRelay/follow(_:)``.
    package func observeMemoryPressure(
        _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation { pressure.follow(onChange) }

    @inline(__always)
    package func use(of info: EntryInfo, for request: DataRequest, _ key: CacheKey) -> StoredUse {
        defaults.use(of: info, for: request, Call(request, key: key, defaults: defaults), at: configuration.now)
    }

    package func object(_ key: CacheKey, in memory: ObjectMemoryTier, for request: DataRequest) -> ObjectMemoryTier
        .Entry?
    {
        store.object(key, in: memory, for: request)
    }

    /// Counts an answer from the memory of a cache that is built on this one, and tells the call. This cache was not asked.
    package func noteMemoryHit(_ key: CacheKey, _ queue: FetchQueue, _ source: ResponseSource = .memory) {
        engine.events.call(key, queue, .success(source))
    }

    /// Tells of a call that is refused at once.
    package func noteRefusal(_ key: CacheKey, _ queue: FetchQueue, _ error: DipperError) {
        engine.events.call(key, queue, .failure(error))
    }

    package func keepsOnDisk(_ request: DataRequest) -> Bool {
        store.disk != nil && Call(request, key: request.cacheKey, defaults: defaults).keepsOnDisk
    }

    /// Returns the interface for objects made from this cache's bytes; `forms`, or this cache, keeps stored forms.
    package func objectSource(formsIn forms: DataCache? = nil) -> ObjectSource {
        ObjectSource(engine, defaults, forms: forms?.store, owner: self)
    }

    /// See ``ObjectCache/init(_:memory:workers:waitingLimit:notKept:)``.
    package func makeObjectCache(
        memory: ObjectMemoryTier, workers: Workers, waitingLimit: Int,
        notKept: @escaping @Sendable (CacheKey, DipperError) -> Void
    ) -> ObjectCache {
        ObjectCache(engine, memory: memory, workers: workers, waitingLimit: waitingLimit, notKept: notKept)
    }

    package func claim(_ key: CacheKey, of request: DataRequest) -> Claim {
        store.history.claim(key, of: request.plainKey(beside: key))
    }

    /// Returns a closure that fetches a newer version of the stored answer, in `slowQueue` and with its validators.
    /// While such a fetch is under way, further calls return its task. The closure does not keep this cache alive.
    package func renewal(of request: DataRequest, _ key: CacheKey) -> @Sendable () -> DataTask {
        // What the program adds or removes from now on is newer.
        let claim = claim(key, of: request)
        // The server must confirm each use of a stored answer (RFC 9111, section 5.2.1.4).
        var headers = request.headers
        headers.append("Cache-Control", "no-cache")
        let renewing = request.with(\.headers, headers).with(\.key, key)
        let call = Call(renewing, key: key, defaults: defaults).withoutStandIns
        return { [engine] in
            let (task, isNew) = engine.revalidations.withLock { $0.task(for: call) }
            if isNew { task.start(in: engine, claim) }
            return task
        }
    }
}

extension DataRequest {
    /// The request made in place of this one on a constrained network. `isThere`: the tiers have this one's bytes.
    package func effective(isThere: Bool) -> DataRequest {
        guard let small = lowDataSource, !isThere else { return with(\.lowDataSource, nil) }
        return replacing(with: small)
    }
}

extension EntryInfo {
    static let digestField = "Dipper-Made-Of"

    package var serverHeaders: HTTPHeaders {
        headers.has(Self.digestField) ? headers.removing { $0.isSameHeaderName(as: Self.digestField) } : headers
    }

    /// The digest of the bytes that a derived entry was made from; `nil` for other entries.
    package var digestOfOriginal: UInt64? { headers[Self.digestField].flatMap { UInt64($0, radix: 16) } }
}
