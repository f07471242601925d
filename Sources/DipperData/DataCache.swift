import Foundation
import Logging
import Synchronization

/// A cache of bytes, in memory and on disk, that fetches what it does not have.
///
/// ``getData(_:)-(URL)`` is for what someone is looking at: many run at once. ``slowGetData(_:)-(URL)`` is for what they may look
/// at later: one runs at a time, and only while nothing urgent waits or runs. However many calls ask for a key, from
/// both queues, there is one fetch; an urgent call promotes a prefetch that waits or runs.
///
/// All calls may be made from any thread, return at once, and end exactly once. Letting go of the last reference ends
/// the cache like ``shutdown()``, in the background.
public final class DataCache: Sendable {
    /// The cache of the program, in ``Configuration/defaultDirectory``.
    public static let shared = DataCache(Configuration(directory: Configuration.defaultDirectory))

    /// Tells this cache from all others of the process, also from those that are gone.
    package let number = DataCache.count.add(1, ordering: .relaxed).newValue
    private static let count = Atomic<UInt64>(0)

    let engine: FetchEngine
    let store: DataStore
    let configuration: Configuration
    let defaults: Call.Defaults
    let pressure: PressureRelay
    /// Keeps the memory tier's limits in step with the memory there is.
    private let followsPressure: ChangeObservation
    let isShutDown = Atomic(false)
    private let ending = Mutex<Task<Void, Never>?>(nil)

    /// Opens the folder, if there is one, and starts the threads. Never fails: a folder that cannot be used means a cache
    /// in memory only, and a line in the log.
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

    /// Ends all tasks as cancelled, writes what is staged and joins the threads. Calls made afterwards end with
    /// ``DipperError/shutDown``.
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

    /// Asks for what someone is looking at: memory, disk, network, at once.
    @discardableResult
    public func getData(_ request: DataRequest) -> DataTask { get(request, .fast) }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func getData(_ url: URL) -> DataTask { get(DataRequest(url), .fast) }

    /// The same, with a closure for the bytes.
    @discardableResult
    public func getData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(request, .fast).then(body)
    }

    /// The same for a URL, with a closure for the bytes.
    @discardableResult
    public func getData(_ url: URL, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(DataRequest(url), .fast).then(body)
    }

    /// Asks for what someone may look at later, with what is left of the link.
    @discardableResult
    public func slowGetData(_ request: DataRequest) -> DataTask { get(request, .slow) }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func slowGetData(_ url: URL) -> DataTask { get(DataRequest(url), .slow) }

    /// The same, with a closure for the bytes.
    @discardableResult
    public func slowGetData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(request, .slow).then(body)
    }

    /// The same for a URL, with a closure for the bytes.
    @discardableResult
    public func slowGetData(_ url: URL, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        get(DataRequest(url), .slow).then(body)
    }

    /// Asks the network, urgently, whatever the cache holds; keeps what it says.
    @discardableResult
    public func getRemoteData(_ request: DataRequest) -> DataTask {
        get(request.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func getRemoteData(_ url: URL) -> DataTask { getRemoteData(DataRequest(url)) }

    /// The same, with a closure for the bytes.
    @discardableResult
    public func getRemoteData(_ request: DataRequest, _ body: @escaping @Sendable (Data) -> Void) -> DataTask {
        getRemoteData(request).then(body)
    }

    /// The same for a URL, with a closure for the bytes.
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
        // The disk is asked on a thread of its own; see `FetchEngine.lookedUp`.
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

    /// Ends the task with what memory has, if that will do.
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

    /// The call for the smaller source while the network is constrained; it is made unless the cache has the larger one.
    private func substitute(for request: DataRequest) -> Call? {
        guard let small = request.lowDataSource, configuration.networkMonitor.conditions.isConstrained else {
            return nil
        }
        let request = request.replacing(with: small)
        return Call(request, key: request.cacheKey, defaults: defaults)
    }

    // MARK: Changing one's mind

    /// Makes every urgent call for this URL a prefetch, in place. Without effect if there is none.
    public func moveTaskToSlowQueue(_ url: URL) { engine.demote(CacheKey(url)) }
    /// The same by a request's key.
    public func moveTaskToSlowQueue(_ request: DataRequest) { engine.demote(request.cacheKey) }
    /// The same by key.
    public func moveTaskToSlowQueue(key: CacheKey) { engine.demote(key) }

    /// Ends every call for this URL as cancelled.
    public func cancel(_ url: URL) { engine.cancel(CacheKey(url)) }
    /// The same by a request's key.
    public func cancel(_ request: DataRequest) { engine.cancel(request.cacheKey) }
    /// The same by key.
    public func cancel(key: CacheKey) { engine.cancel(key) }

    /// Ends every call as cancelled.
    public func cancelAll() { engine.cancelAll() }

    // MARK: Queues

    /// The rules of `fastQueue`; may be changed at any time.
    public var fastQueue: QueueConfiguration {
        get { engine.inspect { $0.queues[.fast].configuration } }
        set { engine.apply { $0.configure(.fast, newValue, into: &$1) } }
    }

    /// The rules of `slowQueue`; may be changed at any time.
    public var slowQueue: QueueConfiguration {
        get { engine.inspect { $0.queues[.slow].configuration } }
        set { engine.apply { $0.configure(.slow, newValue, into: &$1) } }
    }

    /// What the queues are doing now.
    public var queueCounts: QueueCounts { engine.inspect { $0.counts } }

    /// What the cache has done so far.
    public var statistics: CacheStatistics { engine.reporter.statistics.snapshot }
}

/// Passes the disk tier's word on to the engine, which is made after it, and which owns it.
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
