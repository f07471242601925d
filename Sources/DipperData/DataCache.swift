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
/// ``getData(_:)-(URL)`` fetches what someone is looking at: ``fastQueue`` runs many fetches at once.
/// ``slowGetData(_:)-(URL)`` prefetches what someone may look at later: ``slowQueue`` runs one fetch at a time, and
/// only while no urgent fetch waits or runs. All calls for a key share one fetch, whichever queue they are made in. An
/// urgent call promotes a prefetch that waits or runs.
///
/// Calls may be made from any thread. Each call returns at once, and its task ends exactly once. When the last
/// reference to the cache is released, the cache shuts down in the background, as by ``shutdown()``.
public final class DataCache: Sendable {
    /// The cache that all parts of a program share, in the folder ``Configuration/defaultDirectory``.
    public static let shared = DataCache(Configuration(directory: Configuration.defaultDirectory))

    /// The number of this cache, unique in the process and never reused.
    package let number = DataCache.count.add(1, ordering: .relaxed).newValue
    private static let count = Atomic<UInt64>(0)

    let engine: FetchEngine
    let store: DataStore
    let configuration: Configuration
    let defaults: Call.Defaults
    let pressure: PressureRelay
    /// The observation that adapts the memory tier's limits to the memory pressure.
    private let followsPressure: ChangeObservation
    let isShutDown = Atomic(false)
    private let ending = Mutex<Task<Void, Never>?>(nil)

    /// Creates a cache, opens its folder, if it has one, and starts its threads.
    ///
    /// Creating a cache never fails. If the folder cannot be used, the cache works in memory only and logs the reason.
    ///
    /// ```swift
    /// let folder = URL(fileURLWithPath: "/var/cache/kiosk", isDirectory: true)
    /// let cache = DataCache(.init(directory: folder))
    /// let scratch = DataCache()       // in memory only
    /// ```
    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        defaults = Call.Defaults(configuration)
        let backlog = BacklogRelay()
        let time = TimeSource(configuration.clock)
        let reporter = FetchReporter(
            name: configuration.name, logger: configuration.logger, redaction: configuration.redaction, time: time,
            observer: configuration.observer)
        let history = StoreHistory()
        let onCleaned = configuration.observer == nil ? nil : reporter.cleaned
        let disk = configuration.directory.map { directory in
            DiskTier(
                .init(
                    folder: directory.path, sizeLimit: configuration.diskLimit,
                    stagingLimit: configuration.stagingLimit, partialLimit: configuration.partialLimit,
                    naming: configuration.fileNaming, compression: configuration.compression,
                    boot: configuration.boot, name: configuration.name),
                logger: configuration.logger.category("cache"), history: history, now: configuration.now,
                onBacklog: backlog.send, onCleaned: onCleaned)
        }
        store = DataStore(
            memory: MemoryTier(
                limits: .init(cost: configuration.memoryLimit, count: configuration.memoryCountLimit),
                history: history, now: configuration.now, onCleaned: reporter.cleaned),
            disk: disk, history: history, defaults: StoreDefaults(configuration), now: configuration.now)
        var scheduler = FetchEngine.Scheduler(fast: configuration.fastQueue, slow: configuration.slowQueue)
        scheduler.makesNotes = reporter.wantsNotes
        engine = FetchEngine(
            scheduler: scheduler, store: store,
            transport: configuration.transport ?? CurlTransport(configuration.network, name: configuration.name),
            network: configuration.networkMonitor, time: time, now: configuration.now,
            options: .init(
                progressInterval: configuration.progressInterval, maximumRedirects: configuration.maximumRedirects,
                inFlightLimit: configuration.inFlightLimit),
            reporter: reporter)
        backlog.connect(engine)
        pressure = PressureRelay(configuration.memoryPressure, onChange: reporter.pressed)
        followsPressure = pressure.follow { [weak memory = store.memory] in memory?.setPressure($0) }
    }

    deinit {
        guard !isShutDown.load(ordering: .acquiring) else { return }
        let engine = engine
        Task.detached { await engine.shutdown() }
    }

    /// Cancels all tasks, writes to disk what waits to be written, and ends the cache's threads.
    ///
    /// This method returns when the threads have ended. Calls made afterwards end with ``DipperError/shutDown``.
    ///
    /// ```swift
    /// await cache.shutdown()
    /// ```
    public func shutdown() async {
        isShutDown.store(true, ordering: .releasing)
        pressure.end()
        let ending = ending.withLock { [engine] ending in
            let task = ending ?? Task { await engine.shutdown() }
            ending = task
            return task
        }
        await ending.value
    }

    // MARK: Fetching

    /// Fetches the bytes of a request at once: from memory, from disk or from the network.
    ///
    /// The call is made in ``fastQueue``, for what someone is looking at. The request's ``DataRequest/cachePolicy``
    /// says which of the three may answer.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.headers, ["Accept": "application/json"])
    /// let data = try await cache.getData(request).value
    /// ```
    @discardableResult
    public func getData(_ request: DataRequest) -> DataTask { get(request, .fast) }

    /// Fetches the bytes of a URL at once, with the cache's defaults: from memory, from disk or from the network.
    ///
    /// The call is made in ``fastQueue``, for what someone is looking at.
    ///
    /// ```swift
    /// let data = try await cache.getData(url).value
    /// ```
    @discardableResult
    public func getData(_ url: URL) -> DataTask { get(DataRequest(url), .fast) }

    /// Fetches the bytes of a request at once and calls a closure with them; see ``getData(_:)-(DataRequest)``.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    @discardableResult
    public func getData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(request, .fast).then(body)
    }

    /// Fetches the bytes of a URL at once and calls a closure with them; see ``getData(_:)-(URL)``.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    ///
    /// ```swift
    /// cache.getData(url) { data in print(data.count) }
    ///     .onFail { error, isFatal in if isFatal { print(error) } }
    /// ```
    @discardableResult
    public func getData(_ url: URL, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(DataRequest(url), .fast).then(body)
    }

    /// Prefetches the bytes of a request, with what urgent work leaves of the link.
    ///
    /// The call is made in ``slowQueue``, for what someone may look at later.
    @discardableResult
    public func slowGetData(_ request: DataRequest) -> DataTask { get(request, .slow) }

    /// Prefetches the bytes of a URL, with the cache's defaults and with what urgent work leaves of the link.
    ///
    /// The call is made in ``slowQueue``, for what someone may look at later.
    ///
    /// ```swift
    /// cache.slowGetData(nextURL)      // the page after the one on screen
    /// ```
    @discardableResult
    public func slowGetData(_ url: URL) -> DataTask { get(DataRequest(url), .slow) }

    /// Prefetches the bytes of a request and calls a closure with them; see ``slowGetData(_:)-(DataRequest)``.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    @discardableResult
    public func slowGetData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(request, .slow).then(body)
    }

    /// Prefetches the bytes of a URL and calls a closure with them; see ``slowGetData(_:)-(URL)``.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    @discardableResult
    public func slowGetData(_ url: URL, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(DataRequest(url), .slow).then(body)
    }

    /// Fetches the bytes of a request from the network, even if the cache has them, and keeps the answer.
    ///
    /// The call is made in ``fastQueue``, with the policy ``DataRequest/CachePolicy/ignoreCache``.
    @discardableResult
    public func getRemoteData(_ request: DataRequest) -> DataTask {
        get(request.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// Fetches the bytes of a URL from the network, even if the cache has them, and keeps the answer.
    ///
    /// The call is made in ``fastQueue``, with the policy ``DataRequest/CachePolicy/ignoreCache`` and the cache's other
    /// defaults.
    ///
    /// ```swift
    /// let data = try await cache.getRemoteData(feedURL).value     // the user has asked for news
    /// ```
    @discardableResult
    public func getRemoteData(_ url: URL) -> DataTask { getRemoteData(DataRequest(url)) }

    /// Fetches the bytes of a request from the network, even if the cache has them, and calls a closure with them.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    @discardableResult
    public func getRemoteData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        getRemoteData(request).then(body)
    }

    /// Fetches the bytes of a URL from the network, even if the cache has them, and calls a closure with them.
    ///
    /// The closure is not called if the call fails; see ``DataTask/onFail(_:)``.
    @discardableResult
    public func getRemoteData(_ url: URL, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        getRemoteData(DataRequest(url)).then(body)
    }

    private func get(_ request: DataRequest, _ queue: FetchQueue) -> DataTask {
        let call = Call(request, key: request.cacheKey, defaults: defaults)
        let task = DataTask(call, queue: queue, orElse: request.hasHooks ? substitute(for: request) : nil)
        start(task)
        return task
    }

    @inline(__always)
    func start(_ task: DataTask) {
        // Where the disk may have the larger source, a reader's thread finds out; see `FetchEngine.lookedUp`.
        if task.isUndecided, !store.memory.contains(task.key), !task.call.readsDisk(of: store) {
            task.turnToSubstitute()
        }
        let call = task.call
        let policy = call.cachePolicy
        engine.reporter.asked(call.key, task.requestedQueue)
        if let defect = call.request.defect { return engine.finish(task, nil, .failure(defect)) }
        if isShutDown.load(ordering: .acquiring) { return engine.finish(task, nil, .failure(.shutDown)) }
        if policy != .ignoreCache, let value = store.kept(for: call.key, call), answer(task, with: value) { return }
        guard call.readsDisk(of: store) || call.mayFetch else { return engine.finish(task, nil, .failure(.notCached)) }
        engine.submit(task)
    }

    /// Ends the task with what memory has under its key.
    /// - Returns: false, and the task goes on, if that does not answer the call.
    @inline(__always)
    private func answer(_ task: DataTask, with value: StoredData) -> Bool {
        let isTimeless = value.info.freshness.until == .infinity && task.request.headers.isEmpty
        let now = isTimeless ? 0 : configuration.now().timeIntervalSince1970
        switch task.call.use(of: value, at: now) {
        case .fresh:
            if task.call.request.waitsForDiskWrite {
                engine.finish(
                    task, whenOnDisk: store.place(of: value, for: task.call),
                    .success(DataResponse(value, source: .memory)))
                return true
            }
            engine.forgetRevalidation(task)
            engine.reporter.memoryHit(task.key)
            _ = task.end(.success(DataResponse(value, source: .memory)))
            return true
        case .staleWhileRevalidating where task.call.mayFetch:
            engine.answerWhileRevalidating(task, with: value)
            return true
        case .staleWhileRevalidating, .stale, .revalidate:
            guard task.call.isAnswered(by: value, at: now) else { return false }
            let result = Result<DataResponse, DipperError>.success(DataResponse(value, source: .stale))
            if task.request.waitsForDiskWrite {
                engine.finish(task, whenOnDisk: store.place(of: value, for: task.call), result)
            } else {
                engine.finish(task, nil, result)
            }
            return true
        }
    }

    /// Returns the call for the request's smaller source; `nil` if there is none, or if the network is not constrained.
    /// The call takes the place of the request's own unless the cache has the larger source.
    private func substitute(for request: DataRequest) -> Call? {
        guard let small = request.lowDataSource, configuration.networkMonitor.conditions.isConstrained else {
            return nil
        }
        let request = request.replacing(with: small)
        return Call(request, key: request.cacheKey, defaults: defaults)
    }

    // MARK: Cancelling and moving

    /// Moves the urgent calls for a URL to ``slowQueue`` without starting their fetch anew. Does nothing if there are
    /// none.
    ///
    /// ```swift
    /// cache.getData(url)
    /// cache.moveTaskToSlowQueue(url)      // it has scrolled out of sight
    /// ```
    public func moveTaskToSlowQueue(_ url: URL) { engine.demote(CacheKey(url)) }
    /// Moves the urgent calls for a request's key to ``slowQueue`` without starting their fetch anew. Does nothing if
    /// there are none.
    public func moveTaskToSlowQueue(_ request: DataRequest) { engine.demote(request.cacheKey) }
    /// Moves the urgent calls for a key to ``slowQueue`` without starting their fetch anew. Does nothing if there are
    /// none.
    public func moveTaskToSlowQueue(key: CacheKey) { engine.demote(key) }

    /// Cancels every call for a URL: each ends with ``DipperError/cancelled``.
    ///
    /// ```swift
    /// cache.cancel(url)
    /// ```
    public func cancel(_ url: URL) { engine.cancel(CacheKey(url)) }
    /// Cancels every call for a request's key: each ends with ``DipperError/cancelled``.
    public func cancel(_ request: DataRequest) { engine.cancel(request.cacheKey) }
    /// Cancels every call for a key: each ends with ``DipperError/cancelled``.
    public func cancel(key: CacheKey) { engine.cancel(key) }

    /// Cancels all calls of this cache: each ends with ``DipperError/cancelled``.
    ///
    /// ```swift
    /// cache.cancelAll()       // the user has signed out
    /// cache.clear()
    /// ```
    public func cancelAll() { engine.cancelAll() }

    // MARK: Queues

    /// The limits and the order of `fastQueue`. They can be changed at any time.
    ///
    /// ```swift
    /// cache.fastQueue.maxConcurrent = 4
    /// ```
    public var fastQueue: QueueConfiguration {
        get { engine.inspect { $0.queues[.fast].configuration } }
        set { engine.apply { $0.configure(.fast, newValue, into: &$1) } }
    }

    /// The limits and the order of `slowQueue`. They can be changed at any time.
    ///
    /// ```swift
    /// cache.slowQueue.isSuspended = true      // no prefetching for now
    /// ```
    public var slowQueue: QueueConfiguration {
        get { engine.inspect { $0.queues[.slow].configuration } }
        set { engine.apply { $0.configure(.slow, newValue, into: &$1) } }
    }

    /// The numbers of jobs in the queues, by what the jobs are doing now.
    ///
    /// ```swift
    /// let counts = cache.queueCounts
    /// print("\(counts.fastRunning + counts.slowRunning) running, \(counts.parked) parked")
    /// ```
    public var queueCounts: QueueCounts { engine.inspect { $0.counts } }

    /// The counts of what the cache has done so far.
    ///
    /// ```swift
    /// let statistics = cache.statistics
    /// print("\(statistics.memoryHits + statistics.diskHits) hits, \(statistics.networkBytes) bytes fetched")
    /// ```
    public var statistics: CacheStatistics { engine.reporter.statistics.snapshot }
}

/// A relay that passes notices of the disk tier's backlog on to the engine. The engine owns the disk tier and is
/// created after it.
private final class BacklogRelay: Sendable {
    private struct Target {
        weak var engine: FetchEngine?
    }

    private let target = Mutex(Target())

    func connect(_ engine: FetchEngine) {
        target.withLock { $0.engine = engine }
    }

    func send(_ notice: BacklogNotice) {
        target.withLock { $0.engine }?.storageBacklogged(notice)
    }
}

extension Call.Defaults {
    fileprivate convenience init(_ configuration: DataCache.Configuration) {
        self.init(
            cachePolicy: configuration.cachePolicy, freshness: configuration.freshness,
            retryPolicy: configuration.retryPolicy, timeout: configuration.timeout,
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
