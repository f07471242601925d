@_exported import DipperData
import Foundation
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
/// Use ``getImage(_:)`` for pictures that the user is looking at, and ``slowGetImage(_:)`` for those that the user may
/// look at later: prefetches run one at a time, and only while no urgent call waits or runs. The cache fetches the
/// bytes of a URL once, whatever pictures are made from them, and decodes equal pictures once, urgent ones first.
///
/// Every method may be called from any thread, and returns at once unless its description says otherwise. Every call
/// ends exactly once. When the last reference to the cache is released, calls under way go on; after their end the cache
/// shuts down in the background, as by ``shutdown()``.
public final class ImageCache: Sendable {
    /// The shared cache of the program: the one that the program has set, or else one in the folder
    /// ``Configuration/defaultDirectory``, which is made when the property is first read.
    ///
    /// Set it when the program starts. Bindings, prefetchers, lists and named requests use the shared cache as it is
    /// when they are made, unless they are given another one. A cache that is replaced shuts down when nobody
    /// refers to it any more and its calls have ended.
    ///
    /// Its ``data`` is a cache of its own, not `DataCache.shared`, unless ``Configuration/originals`` says so.
    ///
    /// ```swift
    /// var configuration = ImageCache.Configuration(directory: ImageCache.Configuration.defaultDirectory)
    /// configuration.memoryLimit = 200 << 20
    /// ImageCache.shared = ImageCache(configuration)
    /// ```
    public static var shared: ImageCache {
        get { current.value { ImageCache(Configuration(directory: Configuration.defaultDirectory)) } }
        set { current.set(newValue) }
    }
    private static let current = Shared<ImageCache>()

    /// The data cache that fetches and stores the files of the pictures, and any other bytes.
    public let data: DataCache
    let objects: ObjectCache
    let tools: ImageTools
    private let defaultStep: ImageStep
    let source: ObjectSource
    let memory: ObjectMemoryTier
    let configuration: Configuration
    let defaults: ResolvedOptions
    private let completesByDefault: Bool
    let pixels: PixelPressure
    private let pixelsFollowPressure: ChangeObservation
    let hidingObservers = Observers<@Sendable (Bool) -> Void>()
    private let ownsData: Bool
    private let isShutDown = Atomic(false)
    private let ending = OnceTask()

    /// Creates a cache, opens its folder if it has one, and starts its threads.
    ///
    /// Creating a cache never fails. If the folder cannot be used, the cache works in memory only and logs the reason.
    ///
    /// ```swift
    /// let inMemory = ImageCache()
    /// let onDisk = ImageCache(.init(directory: folder))
    /// ```
    public init(_ configuration: Configuration = Configuration()) {
        self.configuration = configuration
        ownsData = configuration.originals == nil
        data = configuration.originals ?? DataCache(configuration.dataConfiguration)
        memory = data.makeObjectMemoryTier(limit: configuration.memoryLimit, count: configuration.memoryCountLimit)
        pixels = PixelPressure(limit: configuration.memoryLimit)
        pixelsFollowPressure = data.observeMemoryPressure(pixels.follow)
        // `over` drops a video extractor, in case the options were copied from a request for a frame of a video.
        defaults = ResolvedOptions(ImageOptions().over(configuration.options), home: data.number)
        completesByDefault = (configuration.options.originals ?? data).completesRequests
        var logger = configuration.data.logger
        logger[metadataKey: "category"] = "images"
        source = data.objectSource()
        tools = ImageTools(
            codecs: configuration.codecs, limits: configuration.limits, threads: configuration.decodingThreads,
            isolation: configuration.isolation, decoderProgram: configuration.decoderProgram)
        defaultStep = ImageStep(defaults, configuration.options.targetCache?.tools ?? tools)
        objects = data.makeObjectCache(
            memory: memory,
            workers: Workers(
                name: JoinableThread.name(configuration.data.name, "decode"), threads: configuration.decodingThreads,
                budget: configuration.decodingMemory),
            waitingLimit: configuration.undecodedBytes
        ) { [logger, redaction = configuration.data.redaction] key, error in
            logger.info(
                "not kept",
                metadata: ["key": "\(redaction.text(key))", "error": "\(redaction.sentence("\(error)"))"])
        }
        data.isolateOthers(configuration.decodeOptions)
        let isApart = configuration.isolation != .automatic || configuration.codecs.isolatesFormats
        guard configuration.isolation != .off, isApart else { return }
        // The first picture finds a helper, and what is missing is said.
        _ = objects.workers.run { [logger] in
            let posture = configuration.isolationPosture
            if !posture.isComplete { logger.warning("isolation is incomplete", metadata: ["posture": "\(posture)"]) }
        }
    }

    /// Creates a cache with a folder of its own for a name; see ``Configuration/init(name:)``.
    ///
    /// ```swift
    /// let avatars = ImageCache(name: "avatars")
    /// ```
    public convenience init(name: String) { self.init(Configuration(name: name)) }

    deinit {
        guard !isShutDown.load(ordering: .acquiring) else { return }
        let (objects, data) = (objects, data)
        Task.detached {
            await objects.becomeIdle()
            await Self.shutdown(objects, data, false)
        }
    }

    /// Ends all tasks with `DipperError.cancelled`, writes waiting entries to disk and ends the cache's threads.
    ///
    /// Calls made afterwards end with `DipperError.shutDown`. A data cache that was given to this cache
    /// (``Configuration/originals``) goes on.
    public func shutdown() async {
        isShutDown.store(true, ordering: .releasing)
        await ending.run { [objects, data, ownsData] in await Self.shutdown(objects, data, ownsData) }
    }

    private static func shutdown(_ objects: ObjectCache, _ data: DataCache, _ ownsData: Bool) async {
        // Processed pictures are written before the disk is closed.
        await objects.shutdown()
        if ownsData { await data.shutdown() }
    }

    // MARK: Requests

    /// Loads a picture urgently, from memory, the disk or the network.
    ///
    /// The call runs in `fastQueue`. A picture of a URL is loaded with the cache's default options: without a network the
    /// call waits for one, by default for up to an hour (`RetryPolicy.deadline`), and a picture of whose freshness the
    /// server says nothing is used for seven days without asking again (`FreshnessPolicy`).
    ///
    /// ```swift
    /// let image = try await cache.getImage(url).value
    /// let request = ImageRequest(url).processed(by: .downsample(width: 320, height: 240))
    /// let thumbnail = try await cache.getImage(request).value
    /// ```
    @inlinable
    @discardableResult
    public func getImage(_ source: some ImageRequestConvertible) -> ImageTask { get(source.imageRequest, .fast) }

    /// Loads a picture urgently, and calls a closure with the picture when it is loaded. If the call fails, the closure
    /// is not called. A closure for the end, with the picture or the error, is added by `onEnd` of ``ImageTask``.
    ///
    /// ```swift
    /// cache.getImage(url) { image in view.show(image) }
    /// cache.getImage(nextURL).onEnd { result in
    ///     if case .failure(let error) = result { print(error) }
    /// }
    /// ```
    @discardableResult
    public func getImage(
        _ source: some ImageRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image) -> Void
    ) -> ImageTask {
        getImage(source).then(body)
    }

    /// Prefetches a picture, in `slowQueue`, while nothing urgent waits or runs.
    ///
    /// ```swift
    /// cache.slowGetImage(url)             // the row is below the screen
    /// cache.getImage(url)                 // the row comes into view: the same fetch, now urgent
    /// ```
    @discardableResult
    public func slowGetImage(_ source: some ImageRequestConvertible) -> ImageTask { get(source.imageRequest, .slow) }

    /// Prefetches a picture, and calls a closure with the picture when it is loaded. See `getImage`.
    @discardableResult
    public func slowGetImage(
        _ source: some ImageRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image) -> Void
    ) -> ImageTask {
        slowGetImage(source).then(body)
    }

    /// Loads a picture urgently from the network, whatever the cache has, and caches the answer.
    @discardableResult
    public func getRemoteImage(_ source: some ImageRequestConvertible) -> ImageTask {
        get(source.imageRequest.with(\.cachePolicy, .ignoreCache), .fast)
    }

    /// Loads a picture urgently from the network, and calls a closure with it. See ``getRemoteImage(_:)``.
    @discardableResult
    public func getRemoteImage(
        _ source: some ImageRequestConvertible,
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image) -> Void
    ) -> ImageTask {
        getRemoteImage(source).then(body)
    }

    // Not generic, so that the public call can be inlined, which makes memory hits faster.
    @usableFromInline
    func get(_ asked: ImageRequest, _ queue: FetchQueue) -> ImageTask {
        let options = asked.resolved(defaults)
        let originals = originals(of: options)
        var request = completes(options) ? complete(asked, options) : asked
        let askedKey = request.data.cacheKey
        var (key, isDecided) = (askedKey, true)
        if request.data.hasHooks, request.data.lowDataSource != nil {
            if home(of: options).memory.contains(options.inMemory(options.key(askedKey))) {
                request.data = request.data.effective(isThere: true)
            } else if let effective = originals.effective(request.data, askedKey) {
                (request.data, key) = effective
            } else {
                isDecided = false
            }
        }
        let imageKey = options.key(key)
        let answer: Result<ImageResponse, DipperError>? =
            if isShutDown.load(ordering: .acquiring) {
                .failure(.shutDown)
            } else if let defect = originals.defect(of: request.data) {
                .failure(defect)
            } else if isDecided, let response = inMemory(request, key, imageKey, options, originals, queue) {
                .success(response)
            } else {
                nil
            }
        let task = ImageTask(
            request, key: key, imageKey: imageKey, options: options, queue: queue,
            callbackQueue: originals.callbackQueue(of: request.data), answer: answer)
        if case .failure(let error)? = answer { originals.noteRefusal(key, queue, error) }
        if answer == nil {
            let origin = origin(of: request, key, options, askedKey: askedKey, isDecided: isDecided)
            let showsOther = options.options.showsOtherSizes == true && queue == .fast
            let other = showsOther ? otherSizeInMemory(of: asked) : nil
            if let other { task.show(inPlace: other) }
            ObjectCall.start(task, making(origin, options), options.calling)
            if showsOther, other == nil {
                readOtherSize(of: asked, for: task) { [weak task] in task?.show(inPlace: $0) }
            }
        }
        return task
    }

    private func making(_ origin: Origin, _ options: ResolvedOptions) -> Making {
        Making(home(of: options).objects, origin, step(options))
    }

    @inline(__always)
    private func inMemory(
        _ asked: ImageRequest, _ key: CacheKey, _ imageKey: CacheKey, _ options: ResolvedOptions,
        _ originals: DataCache, _ queue: FetchQueue
    ) -> ImageResponse? {
        let request = asked.data
        let policy = originals.policy(of: request)
        guard policy != .ignoreCache, policy != .bypass, let entry = entry(for: imageKey, request, options)
        else { return nil }
        // A picture in memory does not prove that its entry is on disk.
        if request.waitsForDiskWrite, !origin(of: asked, key, options).isWritten(step(options)) { return nil }
        var source = ResponseSource.stale
        var newer: ImageTask?
        switch originals.use(of: entry.info, for: request, key) {
        case .fresh: source = .memory
        case .stale: break
        case .staleWhileRevalidating:
            // The claim comes first, so that a removal from now on revokes it.
            let claim = originals.claim(key, of: request)
            let newest = origin(of: asked, key, options)
                .following(claim, originals.renewal(of: request.with(\.callbackQueue, .inPlace), key))
            newer = ImageTask.begin(
                making(newest, options), asked, options, originals.callbackQueue(of: request))
        case .revalidate: return nil
        }
        originals.noteMemoryHit(key, queue, source)
        return ImageResponse(
            options.handOut(entry.product.value()), source: source, info: entry.info, revalidation: newer)
    }

    func complete(_ request: ImageRequest, _ options: ResolvedOptions? = nil) -> ImageRequest {
        let options = options ?? request.resolved(defaults)
        return request.with(\.data, originals(of: options).complete(bytes(of: request, options)))
    }

    /// Returns the request for the bytes. Of several URLs, processors decide that may be those of the cache.
    func bytes(of request: ImageRequest, _ options: ResolvedOptions) -> DataRequest {
        guard options.options.sizes != nil else { return request.data }
        var request = request
        request.chooseURL(for: options.options.decodeTarget)
        return request.data
    }

    @inline(__always)
    func completes(_ options: ResolvedOptions) -> Bool {
        options === defaults
            ? completesByDefault : options.options.sizes != nil || originals(of: options).completesRequests
    }

    private func keys(of request: ImageRequest) -> Set<CacheKey> {
        let options = request.resolved(defaults)
        return originals(of: options).keys(of: bytes(of: request, options))
    }

    func originals(of options: ResolvedOptions) -> DataCache { options.options.originals ?? data }

    func home(of options: ResolvedOptions) -> ImageCache {
        options.hasTarget ? options.options.targetCache ?? self : self
    }

    func files(of options: ResolvedOptions) -> DataCache {
        options.isStored ? options.options.targetCache?.data ?? originals(of: options) : originals(of: options)
    }

    /// Returns the picture of a key in memory. A request with options of its own decides how long memory keeps it.
    @inline(__always)
    func entry(for key: CacheKey, _ request: DataRequest, _ options: ResolvedOptions) -> ObjectMemoryTier.Entry? {
        let key = options.inMemory(key)
        if !options.hasTarget, !request.decidesMemoryLifetime { return memory.entry(for: key) }
        return originals(of: options).object(key, in: home(of: options).memory, for: request)
    }

    func step(_ options: ResolvedOptions) -> ImageStep {
        options === defaults ? defaultStep : ImageStep(options, home(of: options).tools)
    }

    /// The origin of a picture, whose bytes have `key`. `askedKey` is the key that the caller has asked for, if a smaller
    /// source has taken its place. `isDecided` says whether it is known which source is asked for.
    func origin(
        of request: ImageRequest, _ key: CacheKey, _ options: ResolvedOptions, askedKey: CacheKey? = nil,
        isDecided: Bool = true, policy: DataRequest.CachePolicy? = nil
    ) -> Origin {
        let originals = originals(of: options)
        let source = options.options.targetCache.map { originals.objectSource(formsIn: $0.data) } ?? options.source
        return Origin(
            request.data, key, policy ?? originals.policy(of: request.data), source ?? self.source,
            prefix: options.prefix, askedKey: askedKey, isDecided: isDecided)
    }

    // MARK: Local pictures

    /// Loads a picture from the program's own files through the cache.
    ///
    /// The cache searches the ``Configuration/resourceFolders``, on one of its threads, for a file with this name, or
    /// with this name and the extension of a readable format. Each name has its own key.
    /// - Parameter name: a file name, which may contain folders but not `..`. If there is no such file, the task fails
    ///   with `DipperError.unreadable`.
    @discardableResult
    public func getImage(named name: String) -> ImageTask { getImage(ImageRequest(named: name, in: self)) }

    /// Returns a picture from memory or from the program's own files; `nil` if there is none or it cannot be decoded.
    /// Blocks the calling thread while it reads the file and decodes.
    ///
    /// The file is found as by ``getImage(named:)``. Memory keeps the picture.
    public func readImage(named name: String) -> Image? {
        let request = ImageRequest(named: name, in: self)
        if let image = readImage(for: request) { return image }
        guard let provider = request.provider as? NamedProvider, let bytes = provider.read() else { return nil }
        return store(bytes, for: request)
    }

    // MARK: Queues and cancellation

    /// Moves every urgent call for a URL, whatever its header fields and key, or those with the key of a request, to
    /// `slowQueue`, where it continues as a prefetch, whatever picture it makes from the bytes. A transfer in progress
    /// is not restarted.
    @_disfavoredOverload
    public func moveTaskToSlowQueue(_ source: some ImageRequestConvertible) {
        let home = home(of: source.imageRequest.resolved(defaults))
        for key in keys(of: source.imageRequest) { home.objects.demote(key, andOthers: source.isURL) }
    }
    /// Moves every urgent call for the bytes of a key to `slowQueue`, as of a request.
    public func moveTaskToSlowQueue(_ key: CacheKey) {
        for objects in makers { objects.demote(key, andOthers: false) }
    }

    /// Ends every call for a URL, whatever its header fields and key, or those with the key of a request, with
    /// `DipperError.cancelled`, whatever picture the call makes from the bytes.
    ///
    /// ```swift
    /// cache.getImage(url)
    /// cache.getImage(ImageRequest(url).processed(by: .circle))
    /// cache.cancel(url)                   // ends both calls
    /// ```
    @_disfavoredOverload
    public func cancel(_ source: some ImageRequestConvertible) {
        let home = home(of: source.imageRequest.resolved(defaults))
        for key in keys(of: source.imageRequest) { home.objects.cancel(key, andOthers: source.isURL) }
    }
    /// Ends every call for the bytes of a key with `DipperError.cancelled`.
    public func cancel(_ key: CacheKey) {
        for objects in makers { objects.cancel(key, andOthers: false) }
    }

    /// Ends all calls for pictures with `DipperError.cancelled`. Calls for bytes of ``data`` go on.
    public func cancelAll() {
        for objects in makers { objects.cancelAll() }
    }

    private var makers: [ObjectCache] { [objects, defaults.options.targetCache?.objects].compactMap(\.self) }
}

extension ImageOptions {
    /// The image cache that makes the picture and keeps it as one of its own, in memory and, if it is processed, on
    /// disk; by default the cache that is asked.
    ///
    /// The bytes are fetched and kept by ``originals``, which by default is the ``ImageCache/data`` of the cache that
    /// is asked. ``ImageCache/cancel(_:)-(ImageRequestConvertible)`` finds a call by a request with the same target.
    ///
    /// If ``ImageCache/Configuration/options`` have a target, ``ImageCache/cancelAll()``,
    /// ``ImageCache/cancel(_:)-(CacheKey)``, ``ImageCache/moveTaskToSlowQueue(_:)-(CacheKey)``,
    /// ``ImageCache/synchronize()`` and ``ImageCache/idle()`` act on all calls and writes of the target as well.
    /// For calls whose requests have a target of their own, use these methods of the target.
    /// ``ImageCache/shutdown()`` does not shut the target down.
    ///
    /// ```swift
    /// let avatar = ImageRequest(url).processed(by: .circle).with(\.targetCache, avatars)
    /// let image = try await cache.getImage(avatar).value          // then also avatars.readImage(for: …)
    /// ```
    public var targetCache: ImageCache? {
        get { target as? ImageCache }
        set { target = newValue }
    }
}

extension ImageRequest {
    /// Creates a request for a picture among the program's own files, which is found as by
    /// ``ImageCache/getImage(named:)`` in the folders of a cache.
    ///
    /// ```swift
    /// let logo = ImageRequest(named: "logo", in: cache).processed(by: .circle)
    /// cache.getImage(logo) { image in view.show(image) }
    /// ```
    public init(named name: String, in cache: ImageCache = .shared) {
        self.init(NamedProvider(name, files: cache.configuration.resources(named: name)))
    }

    /// Creates a request from text that is a URL, or else the name of a picture among the program's own files. Text that
    /// begins with a scheme and a colon, such as `https:`, is a URL.
    ///
    /// ```swift
    /// let icon = ImageRequest(urlOrName: "icons/home", in: cache)         // or "https://example.org/home.png"
    /// ```
    public init(urlOrName text: String, in cache: ImageCache = .shared) {
        if URL(text: text)?.scheme != nil { self.init(string: text) } else { self.init(named: text, in: cache) }
    }
}
