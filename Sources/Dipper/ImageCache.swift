import Foundation
import Logging
import Synchronization

/// A cache of pictures: decoded pictures in memory, their files on disk, everything else from the network.
///
/// ```swift
/// let cache = ImageCache.shared
/// let task = cache.getImage(url)
/// task.onProgress { progress in bar.set(progress.fraction) }
/// let image = try await task.value
/// ```
///
/// Use ``getImage(_:)-(URL)`` for pictures that the user is looking at: many of these calls run at once. Use
/// ``slowGetImage(_:)-(URL)`` for pictures that the user may look at later: these prefetches run one at a time, and
/// only while no urgent call waits or runs. The cache fetches the bytes of a URL once, whatever pictures are made from
/// them, and decodes equal pictures once. It decodes on threads of its own, urgent pictures first.
///
/// Every method may be called from any thread, and returns at once unless its description says otherwise. Every call
/// ends exactly once. When the last reference to the cache is released, the cache shuts down in the background, as by
/// ``shutdown()``.
public final class ImageCache: Sendable {
    /// The shared cache of the program, in ``Configuration/defaultDirectory``.
    ///
    /// ```swift
    /// let image = try await ImageCache.shared.getImage(url).value
    /// ```
    public static let shared = ImageCache(Configuration(directory: Configuration.defaultDirectory))

    /// The data cache that fetches and stores the files of the pictures, and any other bytes.
    ///
    /// ```swift
    /// let file = try await cache.data.getData(url).value          // the picture's file, byte for byte
    /// ```
    public let data: DataCache
    let loader: ImageLoader
    let memory: ObjectTier
    let configuration: Configuration
    let defaults: ResolvedOptions
    private let pixelsFollowPressure: ChangeObservation
    private let ownsData: Bool
    private let isShutDown = Atomic(false)
    private let ending = Mutex<Task<Void, Never>?>(nil)

    /// Creates a cache, opens its folder if it has one, and starts its threads.
    ///
    /// The initializer never fails. If the folder cannot be used, the cache works in memory only and writes a line to
    /// the log.
    ///
    /// ```swift
    /// let inMemory = ImageCache()
    /// let onDisk = ImageCache(.init(directory: folder))
    /// ```
    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        ownsData = configuration.originals == nil
        data = configuration.originals ?? DataCache(configuration.dataConfiguration)
        memory = data.makeObjectTier(limit: configuration.memoryLimit, count: configuration.memoryCountLimit)
        // Called last: other observers of the pressure release pictures, whose memory would otherwise be kept for later
        // pictures.
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

    /// Ends all tasks with `DipperError.cancelled`, writes staged entries to disk and joins the cache's threads.
    ///
    /// Calls made afterwards end with `DipperError.shutDown`. The method does not shut down a data cache that was given
    /// to this cache (``Configuration/originals``).
    ///
    /// ```swift
    /// try cache.addImage(image, for: url)
    /// await cache.shutdown()              // the picture has been written: the program may exit
    /// ```
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
        // Processed pictures are written before the disk is closed.
        await loader.queue.shutdown()
        // Other threads may be writing, such as those of a program's own queue.
        await loader.writes.finish()
        if ownsData { await data.shutdown() }
    }

    // MARK: Requests

    /// Loads the picture of a request urgently, from memory, the disk or the network.
    ///
    /// The call runs in `fastQueue`. Use it for pictures that the user is looking at.
    ///
    /// ```swift
    /// let request = ImageRequest(url).processed(by: .downsample(width: 320, height: 240))
    /// let thumbnail = try await cache.getImage(request).value
    /// ```
    @discardableResult
    public func getImage(_ request: ImageRequest) -> ImageTask { get(request, .fast) }

    /// Loads the picture of a URL urgently, with the cache's default options.
    ///
    /// ```swift
    /// let image = try await cache.getImage(url).value
    /// ```
    @discardableResult
    public func getImage(_ url: URL) -> ImageTask { get(ImageRequest(url), .fast) }

    /// Loads the picture of a request urgently, and calls a closure with the picture when it is loaded. See
    /// ``getImage(_:_:)-(URL,_)``.
    @discardableResult
    public func getImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(request, .fast).then(body)
    }

    /// Loads the picture of a URL urgently, and calls a closure with the picture when it is loaded.
    ///
    /// If the picture cannot be loaded, the closure is not called; ``ImageTask/onFail(_:)`` adds a closure for that
    /// case.
    ///
    /// ```swift
    /// cache.getImage(url) { image in view.show(image) }
    ///     .onFail { error, isFatal in if isFatal { print(error) } }
    /// ```
    @discardableResult
    public func getImage(_ url: URL, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(ImageRequest(url), .fast).then(body)
    }

    /// Prefetches the picture of a request, with the bandwidth that urgent calls leave.
    ///
    /// The call runs in `slowQueue`. Use it for pictures that the user may look at later.
    ///
    /// ```swift
    /// let thumbnail = ImageRequest(url).processed(by: .downsample(width: 320, height: 240))
    /// cache.slowGetImage(thumbnail)       // fetches the file, and makes and keeps the thumbnail
    /// ```
    @discardableResult
    public func slowGetImage(_ request: ImageRequest) -> ImageTask { get(request, .slow) }

    /// Prefetches the picture of a URL, with the cache's default options.
    ///
    /// ```swift
    /// cache.slowGetImage(url)             // the row is below the screen
    /// cache.getImage(url)                 // the row comes into view: the same fetch, now urgent
    /// ```
    @discardableResult
    public func slowGetImage(_ url: URL) -> ImageTask { get(ImageRequest(url), .slow) }

    /// Prefetches the picture of a request, and calls a closure with the picture when it is loaded. See
    /// ``getImage(_:_:)-(URL,_)``.
    @discardableResult
    public func slowGetImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(request, .slow).then(body)
    }

    /// Prefetches the picture of a URL, and calls a closure with the picture when it is loaded. See
    /// ``getImage(_:_:)-(URL,_)``.
    @discardableResult
    public func slowGetImage(_ url: URL, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        get(ImageRequest(url), .slow).then(body)
    }

    /// Loads the picture of a request urgently from the network, whatever the cache has, and caches the answer. See
    /// ``getRemoteImage(_:)-(URL)``.
    @discardableResult
    public func getRemoteImage(_ request: ImageRequest) -> ImageTask {
        get(request.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// Loads the picture of a URL urgently from the network, whatever the cache has, with the cache's default options.
    ///
    /// ```swift
    /// let image = try await cache.getRemoteImage(url).value           // the user has asked for a reload
    /// ```
    @discardableResult
    public func getRemoteImage(_ url: URL) -> ImageTask { getRemoteImage(ImageRequest(url)) }

    /// Loads the picture of a request urgently from the network, and calls a closure with the picture when it is
    /// loaded. See ``getRemoteImage(_:)-(URL)``.
    @discardableResult
    public func getRemoteImage(_ request: ImageRequest, _ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        getRemoteImage(request).then(body)
    }

    /// Loads the picture of a URL urgently from the network, and calls a closure with the picture when it is loaded.
    /// See ``getRemoteImage(_:)-(URL)``.
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

    /// Returns a picture from memory or from the program's own files.
    ///
    /// The cache looks for the file like ``getImage(named:)``, reads and decodes it on the caller's thread, and keeps
    /// the picture in memory.
    ///
    /// ```swift
    /// if let icon = cache.imageNamed("icons/home") { view.show(icon) }
    /// ```
    /// - Parameter name: a file name, as for ``getImage(named:)``.
    /// - Returns: the picture, or `nil` if there is no such file or it cannot be decoded.
    public func imageNamed(_ name: String) -> Image? {
        let request = Self.request(named: name, self)
        if let image = image(for: request) { return image }
        guard let provider = request.provider as? NamedProvider, let bytes = provider.read() else { return nil }
        return store(bytes, for: request)
    }

    private static func request(named name: String, _ cache: ImageCache) -> ImageRequest {
        ImageRequest(NamedProvider(name, files: cache.configuration.resources(named: name)))
    }

    // MARK: Queues and cancellation

    /// Moves every urgent call for a URL to `slowQueue`, where it continues as a prefetch.
    ///
    /// A transfer in progress is not restarted. The method has no effect if there is no such call.
    ///
    /// ```swift
    /// cache.getImage(url) { image in view.show(image) }
    /// cache.moveTaskToSlowQueue(url)      // the row has left the screen
    /// ```
    public func moveTaskToSlowQueue(_ url: URL) { moveTaskToSlowQueue(key: CacheKey(url)) }

    /// Moves every urgent call with the key of a request to `slowQueue`, whatever pictures the calls make from the
    /// bytes.
    ///
    /// ```swift
    /// let request = ImageRequest(url).with(\.headers, ["Accept": "image/webp"])
    /// cache.getImage(request)
    /// cache.moveTaskToSlowQueue(request)  // the URL alone is another key, because headers are part of the key
    /// ```
    public func moveTaskToSlowQueue(_ request: ImageRequest) { moveTaskToSlowQueue(key: request.data.cacheKey) }
    /// Moves every urgent call for the bytes of a key to `slowQueue`. See ``moveTaskToSlowQueue(_:)-(ImageRequest)``.
    public func moveTaskToSlowQueue(key: CacheKey) {
        for task in loader.live[key] { task.moveToSlowQueue() }
    }

    /// Ends every call for a URL with `DipperError.cancelled`.
    ///
    /// ```swift
    /// cache.getImage(url)
    /// cache.getImage(ImageRequest(url).processed(by: .circle))
    /// cache.cancel(url)                   // ends both calls
    /// ```
    public func cancel(_ url: URL) { cancel(key: CacheKey(url)) }
    /// Ends every call with the key of a request with `DipperError.cancelled`, whatever pictures the calls make from
    /// the bytes. See ``cancel(_:)-(URL)``.
    public func cancel(_ request: ImageRequest) { cancel(key: request.data.cacheKey) }
    /// Ends every call for the bytes of a key with `DipperError.cancelled`. See ``cancel(_:)-(URL)``.
    public func cancel(key: CacheKey) {
        for task in loader.live[key] { task.cancel() }
    }

    /// Ends all calls of the cache with `DipperError.cancelled`.
    ///
    /// ```swift
    /// cache.cancelAll()                   // the user has signed out: none of the pictures comes back
    /// cache.clear()
    /// ```
    public func cancelAll() {
        for task in loader.live.all { task.cancel() }
    }
}
