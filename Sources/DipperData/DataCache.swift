import Foundation
import Logging
import Synchronization

/// A cache of bytes, in memory and on disk, that fetches what it does not have.
///
/// ```swift
/// let cache = DataCache.shared
/// let feed = try await cache.getData(url).value
/// cache.slowGetData(nextURL)
/// ```
///
/// ``getData(_:)`` fetches what someone is looking at: ``fastQueue`` runs many fetches at once. ``slowGetData(_:)``
/// prefetches what someone may look at later: ``slowQueue`` runs one fetch at a time, and only while no urgent fetch
/// waits or runs. All calls for a key share one fetch, whichever queue they are made in. An urgent call promotes a
/// prefetch that waits or runs.
///
/// Calls may be made from any thread. Each call returns at once, and its task ends exactly once. When the last
/// reference to the cache is released, calls under way go on; after their end the cache shuts down in the background,
/// as by ``shutdown()``.
public final class DataCache: Sendable {
    /// The cache that all parts of a program share: the one that the program has set, or else one in the folder
    /// ``Configuration/defaultDirectory``, which is made when the property is first read.
    ///
    /// Set it when the program starts. Prefetchers made before keep the cache that they were made with. A cache that is
    /// replaced shuts down when nobody refers to it any more and its calls have ended.
    ///
    /// `ImageCache.shared` is another cache, with a folder, queues and limits of its own. A program that shows pictures
    /// fetches other bytes with `ImageCache.shared.data`, so that these also hold prefetches of pictures back.
    public static var shared: DataCache {
        get { current.value { DataCache(Configuration(directory: Configuration.defaultDirectory)) } }
        set { current.set(newValue) }
    }
    private static let current = Shared<DataCache>()

    /// The version of this library, such as `0.2.0`.
    public static let libraryVersion = "0.2.0"

    /// The number of this cache, unique in the process and never reused.
    package let number = DataCache.count.add(1, ordering: .relaxed).newValue
    private static let count = Atomic<UInt64>(0)

    let engine: Engine
    let store: DataStore
    package let configuration: Configuration
    let defaults: Call.Defaults
    package let completesRequests: Bool
    let pressure: PressureRelay
    let simulatingMonitor: SimulatingMonitor
    /// A note of the library that makes objects of these bytes, for others that do so.
    package let note = Mutex<(any Sendable)?>(nil)
    let values = AtomicLazyReference<ObjectCache>()
    let valueSource: ObjectSource
    private let followsPressure: ChangeObservation
    let hasToldOfOutstanding = Atomic(false)
    let hasToldOfThread = Atomic(false)
    let hasAskedMainQueue = Atomic(false)
    let hasAskedCustomQueue = Atomic(false)
    private let ending = OnceTask()

    /// Creates a cache, opens its folder, if it has one, and starts its threads.
    ///
    /// If the folder cannot be used, the cache works in memory only and logs the reason.
    ///
    /// ```swift
    /// let folder = URL(fileURLWithPath: "/var/cache/kiosk", isDirectory: true)
    /// let cache = DataCache(.init(directory: folder))
    /// let scratch = DataCache()       // in memory only
    /// ```
    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        completesRequests = configuration.completeRequest != nil || configuration.keyRule != nil
        let relay = EngineRelay()
        defaults = Call.Defaults(configuration, relay)
        let expiries = ExpiryWatch { expires in relay.post { $0.expires(at: expires) } }
        let time = TimeSource(configuration.clock)
        let log = LogSink(configuration.logger, configuration.redaction)
        let events = EventHub(name: configuration.name, time: time, sinks: [log] + configuration.eventSinks)
        let history = RemovalHistory()
        let network = SimulatingMonitor(configuration.networkMonitor)
        simulatingMonitor = network
        let disk = configuration.directory.map { directory in
            DiskTier(
                DiskTier.Options(configuration, folder: directory),
                logger: configuration.logger.category("cache"), history: history, now: configuration.now,
                expiries: expiries, onBacklog: { relay.post { $0.storageBacklogChanged() } }, events: events
            )
        }
        store = DataStore(
            memory: MemoryTier(
                limits: .init(cost: configuration.memoryLimit, count: configuration.memoryCountLimit),
                order: configuration.evictionOrder, history: history, now: configuration.now,
                expiries: expiries, onCleaned: events.cleaned),
            disk: disk, remnants: MemoryTier(remnantsOf: configuration, hasDisk: disk != nil, history, expiries),
            tiers: SharedTiers(configuration, history, time), history: history, expiries: expiries,
            defaults: StoreDefaults(configuration), now: configuration.now)
        engine = Engine(
            fast: configuration.fastQueue, slow: configuration.slowQueue, store: store,
            transport: configuration.transport ?? CurlTransport(configuration.network),
            network: network, time: time, now: configuration.now,
            options: .init(
                progressInterval: configuration.progressInterval, maximumRedirects: configuration.maximumRedirects,
                readsFileURLs: configuration.readsFileURLs,
                inFlightLimit: configuration.inFlightLimit, answerTLSChallenge: configuration.answerTLSChallenge,
                proxyCredentials: configuration.proxyCredentials, leases: configuration.leases),
            events: events)
        valueSource = ObjectSource(engine, defaults, watchesBytes: true)
        relay.connect(engine)
        expiries.tell()
        pressure = PressureRelay(configuration.memoryPressure, onChange: events.pressed)
        followsPressure = pressure.follow { [weak store = store] in store?.setPressure($0) }
    }

    /// Creates a cache with a folder of its own for a name; see ``Configuration/init(name:)``.
    ///
    /// ```swift
    /// let feeds = DataCache(name: "feeds")
    /// ```
    public convenience init(name: String) { self.init(Configuration(name: name)) }

    deinit {
        guard !engine.isShutDown.load(ordering: .acquiring) else { return }
        let (engine, values) = (engine, values.load())
        Task.detached {
            await engine.becomeIdle()
            await Self.end(engine, values)
        }
    }

    /// Cancels all tasks and the program's hooks, writes pending entries to disk, and returns when the cache's threads
    /// have ended, and the hooks as well, unless they take longer than a second. Calls made afterwards end with
    /// ``DipperError/shutDown``.
    public func shutdown() async {
        engine.isShutDown.store(true, ordering: .releasing)
        pressure.end()
        let values = values.load()
        await ending.run { [engine] in await Self.end(engine, values) }
    }

    private static func end(_ engine: Engine, _ values: ObjectCache?) async {
        await values?.shutdown()
        await engine.shutdown()
        engine.events.end()
    }

    // MARK: Fetching

    /// Fetches bytes at once, in ``fastQueue``: from memory, from disk or from the network, as the
    /// ``DataRequest/cachePolicy`` of a request says.
    ///
    /// Without a network the call waits for one, by default for up to an hour (``RetryPolicy/deadline``). An answer of
    /// whose freshness the server says nothing is used for seven days without asking again (``FreshnessPolicy``).
    ///
    /// ```swift
    /// let page = try await cache.getData(url).value
    /// let request = DataRequest(url).with(\.headers, ["Accept": "application/json"])
    /// let feed = try await cache.getData(request).value
    /// ```
    @inlinable
    @discardableResult
    public func getData(_ source: some DataRequestConvertible) -> DataTask { get(source.dataRequest, .fast) }

    /// Fetches bytes at once and calls a closure with them; see ``getData(_:)``. If the call fails, the closure is not
    /// called. A closure for the end, with the bytes or the error, is added by ``FetchTask/onEnd(_:)``.
    ///
    /// ```swift
    /// cache.getData(url) { data in print(data.count) }
    /// cache.getData(nextURL).onEnd { result in
    ///     if case .failure(let error) = result { print(error) }
    /// }
    /// ```
    @discardableResult
    public func getData(
        _ source: some DataRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Data) -> Void
    ) -> DataTask {
        getData(source).then(body)
    }

    /// Prefetches bytes, in ``slowQueue``, while no urgent fetch needs the link.
    @discardableResult
    public func slowGetData(_ source: some DataRequestConvertible) -> DataTask { get(source.dataRequest, .slow) }

    /// Prefetches bytes and calls a closure with them; see ``slowGetData(_:)`` and ``FetchTask/onEnd(_:)``.
    @discardableResult
    public func slowGetData(
        _ source: some DataRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Data) -> Void
    ) -> DataTask {
        slowGetData(source).then(body)
    }

    /// Fetches bytes at once from the network, even if the cache has them (``DataRequest/CachePolicy/ignoreCache``).
    @discardableResult
    public func getRemoteData(_ source: some DataRequestConvertible) -> DataTask {
        get(source.dataRequest.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// Fetches bytes from the network and calls a closure with them; see ``getRemoteData(_:)``.
    @discardableResult
    public func getRemoteData(
        _ source: some DataRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Data) -> Void
    ) -> DataTask {
        getRemoteData(source).then(body)
    }

    // Not generic, so that the public call can be inlined, which makes memory hits faster.
    @usableFromInline
    func get(_ request: DataRequest, _ queue: FetchQueue) -> DataTask {
        let request = complete(request)
        let call = Call(request, key: request.cacheKey, defaults: defaults)
        let task = DataTask(call, queue: queue, orElse: request.hasHooks ? substitute(for: request) : nil)
        task.start(in: engine)
        return task
    }

    /// Returns the call for the request's smaller source, which takes the place of the request's own unless the cache
    /// has the larger source; `nil` if there is none, or if the network is not constrained.
    private func substitute(for request: DataRequest) -> Call? {
        guard let small = request.lowDataSource, engine.network.conditions.isConstrained else {
            return nil
        }
        let request = request.replacing(with: small)
        return Call(request, key: request.cacheKey, defaults: defaults)
    }

    // MARK: Cancelling and moving

    /// Moves the urgent calls for a URL, whatever their header fields and keys, or those with the key of a request, to
    /// ``slowQueue`` without restarting their fetch.
    ///
    /// ```swift
    /// cache.getData(url)
    /// cache.moveTaskToSlowQueue(url)      // it has scrolled out of sight
    /// ```
    @_disfavoredOverload
    public func moveTaskToSlowQueue(_ source: some DataRequestConvertible) {
        for key in keys(of: source.dataRequest) { demote(key, andOthers: source.isURL) }
    }
    /// Moves the urgent calls for a key to ``slowQueue`` without restarting their fetch.
    public func moveTaskToSlowQueue(_ key: CacheKey) { demote(key, andOthers: false) }

    private func demote(_ key: CacheKey, andOthers: Bool) {
        engine.post { [engine] in engine.demote(key, andOthers: andOthers) }
        values.load()?.demote(key, andOthers: andOthers)
    }

    /// Cancels every call for a URL, whatever its header fields and key, or every one with the key of a request.
    @_disfavoredOverload
    public func cancel(_ source: some DataRequestConvertible) {
        for key in keys(of: source.dataRequest) { cancel(key, andOthers: source.isURL) }
    }
    /// Cancels every call for a key: each ends with ``DipperError/cancelled``.
    public func cancel(_ key: CacheKey) { cancel(key, andOthers: false) }

    private func cancel(_ key: CacheKey, andOthers: Bool) {
        engine.post { [engine] in engine.cancel(key, andOthers: andOthers) }
        values.load()?.cancel(key, andOthers: andOthers)
    }

    /// Cancels all calls of this cache: each ends with ``DipperError/cancelled``.
    public func cancelAll() {
        engine.post { [engine] in engine.cancelAll() }
        values.load()?.cancelAll()
    }

    // MARK: Queues

    /// The limits and the order of `fastQueue`.
    public var fastQueue: QueueConfiguration {
        get { engine.ask { $0.queues.configuration(of: .fast) } ?? configuration.fastQueue }
        set { engine.post { [engine] in engine.configure(.fast, newValue) } }
    }

    /// The limits and the order of `slowQueue`.
    public var slowQueue: QueueConfiguration {
        get { engine.ask { $0.queues.configuration(of: .slow) } ?? configuration.slowQueue }
        set { engine.post { [engine] in engine.configure(.slow, newValue) } }
    }

    /// The numbers of fetches in the queues, by what the fetches are doing now.
    public var queueCounts: QueueCounts { engine.ask { $0.queues.counts } ?? QueueCounts() }

    /// The number of parked fetches, without those about which a retry rule is being asked.
    package var waitingFetches: Int { engine.ask { $0.waitingFetches } ?? 0 }

    /// The statistics of the cache so far.
    public var statistics: CacheStatistics { engine.events.counts.statistics }
}

extension Call.Defaults {
    fileprivate convenience init(_ configuration: DataCache.Configuration, _ relay: EngineRelay) {
        self.init(
            relay, cachePolicy: configuration.cachePolicy, freshness: configuration.freshness,
            retryPolicy: configuration.retryPolicy, timeout: configuration.timeout,
            staleIfError: configuration.staleIfError, failureLifetime: configuration.failureLifetime,
            callbackQueue: configuration.callbackQueue ?? .serial(label: "dipper.\(configuration.name)"))
    }
}

extension StoreDefaults {
    fileprivate init(_ configuration: DataCache.Configuration) {
        self.init(
            memoryExpiration: configuration.memoryExpiration, diskExpiration: configuration.diskExpiration,
            memoryAccessExtension: configuration.memoryAccessExtension,
            diskAccessExtension: configuration.diskAccessExtension)
    }
}
