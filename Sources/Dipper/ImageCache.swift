import Foundation
import Logging
import Synchronization

/// A cache of pictures: decoded ones in memory, their files on disk, the rest from the network.
///
/// ``getImage(_:)-(URL)`` is for what someone is looking at: many run at once. ``slowGetImage(_:)-(URL)`` is for what
/// they may look at later: one runs at a time, and only while nothing urgent waits or runs. Whatever is made of it, the
/// bytes of a URL are fetched once, and equal pictures are decoded once. Pictures are decoded on threads of the cache's
/// own, urgent ones first.
///
/// All calls may be made from any thread, return at once unless they say otherwise, and end exactly once. Letting go of
/// the last reference ends the cache like ``shutdown()``, in the background.
public final class ImageCache: Sendable {
    /// The cache of the program, in ``Configuration/defaultDirectory``.
    public static let shared = ImageCache(Configuration(directory: Configuration.defaultDirectory))

    /// The files that the pictures are made of, any bytes, and who fetches them.
    public let data: DataCache
    let loader: ImageLoader
    let memory: ObjectTier
    let configuration: Configuration
    let defaults: ResolvedOptions
    private let pixelsFollowPressure: ChangeObservation
    private let ownsData: Bool
    private let isShutDown = Atomic(false)
    private let ending = Mutex<Task<Void, Never>?>(nil)

    /// Opens the folder, if there is one, and starts the threads. Never fails: a folder that cannot be used means a cache
    /// in memory only, and a line in the log.
    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        ownsData = configuration.originals == nil
        data = configuration.originals ?? DataCache(configuration.dataConfiguration)
        memory = data.makeObjectTier(limit: configuration.memoryLimit, count: configuration.memoryCountLimit)
        // After displays have let go of pictures, whose memory would be kept for others.
        let pixels = PixelPressure()
        pixelsFollowPressure = data.observeMemoryPressure(last: true, pixels.follow)
        defaults = ResolvedOptions(configuration.options, home: data.number)
        var logger = configuration.data.logger
        logger[metadataKey: "category"] = "images"
        loader = ImageLoader(
            data: data, memory: memory,
            queue: DecodeQueue(
                name: configuration.data.name, threads: configuration.decodingThreads,
                budget: configuration.decodingMemory),
            codecs: configuration.codecs, limits: configuration.limits, undecodedBytes: configuration.undecodedBytes,
            logger: logger, redaction: configuration.data.redaction)
    }

    deinit {
        guard !isShutDown.load(ordering: .acquiring) else { return }
        let (loader, data, ownsData) = (loader, data, ownsData)
        Task.detached { await Self.shutdown(loader, data, ownsData) }
    }

    /// Ends all tasks as cancelled, writes what is staged and joins the threads. A data cache that was given to this one
    /// stays as it is.
    public func shutdown() async {
        isShutDown.store(true, ordering: .releasing)
        let ending = ending.withLock { [loader, data, ownsData] ending in
            let task = ending ?? Task { await Self.shutdown(loader, data, ownsData) }
            ending = task
            return task
        }
        await ending.value
    }

    private static func shutdown(_ loader: ImageLoader, _ data: DataCache, _ ownsData: Bool) async {
        for task in loader.live.all { task.cancel() }
        // What was processed is written before the disk is closed.
        await loader.queue.shutdown()
        if ownsData { await data.shutdown() }
    }

    // MARK: Fetching

    /// Asks for what someone is looking at: memory, disk, network, at once.
    @discardableResult
    public func getImage(_ request: ImageRequest) -> ImageTask { get(request, .fast) }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func getImage(_ url: URL) -> ImageTask { get(ImageRequest(url), .fast) }

    /// The same, with a closure for the picture.
    @discardableResult
    public func getImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(request, .fast).then(body)
    }

    /// The same for a URL, with a closure for the picture.
    @discardableResult
    public func getImage(_ url: URL, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(ImageRequest(url), .fast).then(body)
    }

    /// Asks for what someone may look at later, with what is left of the link.
    @discardableResult
    public func slowGetImage(_ request: ImageRequest) -> ImageTask { get(request, .slow) }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func slowGetImage(_ url: URL) -> ImageTask { get(ImageRequest(url), .slow) }

    /// The same, with a closure for the picture.
    @discardableResult
    public func slowGetImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(request, .slow).then(body)
    }

    /// The same for a URL, with a closure for the picture.
    @discardableResult
    public func slowGetImage(_ url: URL, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(ImageRequest(url), .slow).then(body)
    }

    /// Asks the network, urgently, whatever the cache holds; keeps what it says.
    @discardableResult
    public func getRemoteImage(_ request: ImageRequest) -> ImageTask {
        get(request.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// The same for a URL with the cache's defaults.
    @discardableResult
    public func getRemoteImage(_ url: URL) -> ImageTask { getRemoteImage(ImageRequest(url)) }

    /// The same, with a closure for the picture.
    @discardableResult
    public func getRemoteImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        getRemoteImage(request).then(body)
    }

    /// The same for a URL, with a closure for the picture.
    @discardableResult
    public func getRemoteImage(_ url: URL, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        getRemoteImage(ImageRequest(url)).then(body)
    }

    private func get(_ request: ImageRequest, _ queue: FetchQueue) -> ImageTask {
        let options = request.resolved(defaults)
        let originals = options.options.originals ?? data
        var request = request
        let askedKey = request.data.cacheKey
        var key = askedKey
        var isDecided = true
        if request.data.hasHooks, request.data.lowDataSource != nil {
            let isThere = memory.contains(options.inMemory(options.key(askedKey)))
            let effective =
                isThere ? originals.effective(request.data, isThere: true) : originals.effective(request.data)
            if let effective { request.data = effective } else { isDecided = false }
            key = request.data.cacheKey
        }
        let task = ImageTask(
            request, askedKey: askedKey, key: key, imageKey: options.key(key), options: options, queue: queue,
            callbackQueue: originals.callbackQueue(of: request.data))
        if let defect = originals.defect(of: request.data) {
            task.finish(.failure(isShutDown.load(ordering: .acquiring) ? .shutDown : defect))
            return task
        }
        if isShutDown.load(ordering: .acquiring) {
            task.finish(.failure(.shutDown))
            return task
        }
        if isDecided, loader.answer(task, originals) { return task }
        task.attach(loader)
        if isDecided { loader.start(task) } else { loader.decide(task) }
        return task
    }

    // MARK: Local pictures

    /// Loads a picture from the program's own files through the cache.
    ///
    /// The cache searches the folders of ``Configuration/resourceFolders``, on one of its threads, for a file with this
    /// name, or with this name and the extension of a readable format. Each name has its own key.
    ///
    /// ```swift
    /// let icon = try await cache.getImage(named: "icons/home").value
    /// ```
    /// - Parameter name: a file name, which may contain folders (`icons/home`) but not `..`. If there is no such file,
    ///   the task fails with `DipperError.unreadable`.
    @discardableResult
    public func getImage(named name: String) -> ImageTask { getImage(Self.request(named: name, self)) }

    /// The same at once: from memory, or from the file, which is read and decoded on the caller's thread.
    public func imageNamed(_ name: String) -> Image? {
        let request = Self.request(named: name, self)
        if let image = image(for: request) { return image }
        guard let provider = request.provider as? NamedProvider, let bytes = provider.read() else { return nil }
        return store(bytes, for: request)
    }

    private static func request(named name: String, _ cache: ImageCache) -> ImageRequest {
        ImageRequest(NamedProvider(name, files: cache.configuration.resources(named: name)))
    }

    // MARK: Changing one's mind

    /// Makes every urgent call for this URL a prefetch, in place. Without effect if there is none.
    public func moveTaskToSlowQueue(_ url: URL) { moveTaskToSlowQueue(key: CacheKey(url)) }
    /// The same by a request's key, whatever is made of the bytes.
    public func moveTaskToSlowQueue(_ request: ImageRequest) { moveTaskToSlowQueue(key: request.data.cacheKey) }
    /// The same by the key of the bytes.
    public func moveTaskToSlowQueue(key: CacheKey) {
        for task in loader.live[key] { task.moveToSlowQueue() }
    }

    /// Ends every call for this URL as cancelled.
    public func cancel(_ url: URL) { cancel(key: CacheKey(url)) }
    /// The same by a request's key, whatever is made of the bytes.
    public func cancel(_ request: ImageRequest) { cancel(key: request.data.cacheKey) }
    /// The same by the key of the bytes.
    public func cancel(key: CacheKey) {
        for task in loader.live[key] { task.cancel() }
    }

    /// Ends every call as cancelled.
    public func cancelAll() {
        for task in loader.live.all { task.cancel() }
    }
}
