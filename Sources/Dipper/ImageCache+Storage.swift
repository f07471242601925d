import Foundation

extension ImageCache {
    private func completed(_ request: ImageRequest) -> (ImageRequest, ResolvedOptions) {
        let options = request.resolved(defaults)
        return (completes(options) && !request.isKey ? complete(request, options) : request, options)
    }

    // MARK: Lookup

    /// Returns the decoded picture of a URL if memory has it. Cheap enough for the thread that draws: the cache does not
    /// look at the disk, decodes nothing and processes nothing.
    ///
    /// ```swift
    /// if let image = cache.imageInMemory(for: url) {
    ///     view.show(image)
    /// } else {
    ///     cache.getImage(url) { image in view.show(image) }       // from the disk or the network
    /// }
    /// ```
    public func imageInMemory(for url: URL) -> Image? {
        // Building a request takes as long as the rest of a hit.
        guard !completes(defaults), !defaults.hasTarget else { return imageInMemory(for: ImageRequest(url)) }
        guard let found = memory.product(for: defaults.inMemory(defaults.key(CacheKey(url)))) else { return nil }
        guard let product = found else { return imageInMemory(for: ImageRequest(url)) }
        return defaults.handOut(product.value())
    }
    /// Returns the picture of a request, decoded and processed, if memory has it; see ``imageInMemory(for:)-(URL)``.
    @_disfavoredOverload
    public func imageInMemory(for source: some ImageRequestConvertible) -> Image? {
        let (request, options) = completed(source.imageRequest)
        return imageInMemory(for: request, request.data.cacheKey, options)
    }
    /// Returns the decoded picture of a key if memory has it; see ``imageInMemory(for:)-(URL)``.
    public func imageInMemory(for key: CacheKey) -> Image? { imageInMemory(for: ImageRequest(key)) }

    @inline(__always)
    private func imageInMemory(
        for request: ImageRequest, _ key: CacheKey, _ options: ResolvedOptions
    ) -> Image? {
        guard let entry = entry(for: options.key(key), request.data, options),
            entry.info.mayBeShown(to: request.data.headers)
        else { return nil }
        return options.handOut(entry.product.value())
    }

    /// Returns the cached picture of a URL, its text or a request, from all tiers or from some of them; `nil` if they do
    /// not have it. If they have only the original, the cache applies the request's processors.
    ///
    /// The cache uses neither the network nor `DataCache.Configuration.tiers`. It reads, decodes and processes on
    /// background threads. What is read from `CacheTiers.disk` alone does not enter memory.
    ///
    /// ```swift
    /// if let old = await cache.image(for: url) { view.show(old) }     // however old it is
    /// ```
    @_disfavoredOverload
    public func image(for source: some ImageRequestConvertible, in tiers: CacheTiers = .all) async -> Image? {
        let (request, options) = completed(source.imageRequest)
        let key = request.data.cacheKey
        if tiers.contains(.memory), let image = imageInMemory(for: request, key, options) { return image }
        let found = await home(of: options).objects.find(origin(of: request, key, options), step(options), in: tiers)
        return found.map { options.handOut($0.value()) }
    }
    /// Returns the cached picture of a key, from all tiers or from some of them; see
    /// ``image(for:in:)-(ImageRequestConvertible,_)``.
    public func image(for key: CacheKey, in tiers: CacheTiers = .all) async -> Image? {
        await image(for: ImageRequest(key), in: tiers)
    }

    /// Returns the cached picture of a URL, its text or a request. Blocks the calling thread while it reads the disk,
    /// decodes and processes. If the cache has only the original, it applies the request's processors.
    ///
    /// Meant for command-line tools and for threads of the program's own. On a thread that draws, use
    /// ``imageInMemory(for:)-(URL)``; in async code ``image(for:in:)-(ImageRequestConvertible,_)``.
    @_disfavoredOverload
    public func readImage(for source: some ImageRequestConvertible) -> Image? {
        let (request, options) = completed(source.imageRequest)
        let key = request.data.cacheKey
        if let image = imageInMemory(for: request, key, options) { return image }
        let found = home(of: options).objects.find(origin(of: request, key, options), step(options))
        return found.map { options.handOut($0.value()) }
    }
    /// Returns the cached picture of a key. Blocks the calling thread while it reads the disk and decodes.
    ///
    /// ```swift
    /// let key = CacheKey("cover of album 17")
    /// cache.getImage(ImageRequest(url).with(\.key, key)) { image in view.show(image) }
    /// let cover = cache.readImage(for: key)       // `nil` until the picture is there
    /// ```
    public func readImage(for key: CacheKey) -> Image? { readImage(for: ImageRequest(key)) }

    /// Returns whether the cache has a picture, or the bytes to make it from, in all tiers or in some of them. Decodes
    /// nothing and does not count as a use. Bytes count until the cache has found that they are no picture. See
    /// ``hasProcessedImage(for:)-(ImageRequestConvertible)``.
    ///
    /// The cache looks into the index on disk on the calling thread, unless memory has the picture or `tiers` is
    /// `.memory`.
    @_disfavoredOverload
    public func hasImage(for source: some ImageRequestConvertible, in tiers: CacheTiers = .all) -> Bool {
        self.source(of: source.imageRequest, in: tiers) != nil
    }
    /// Returns whether the cache has a picture of a key, or its bytes; see ``hasImage(for:in:)-(ImageRequestConvertible,_)``.
    public func hasImage(for key: CacheKey, in tiers: CacheTiers = .all) -> Bool {
        hasImage(for: ImageRequest(key), in: tiers)
    }

    /// Returns where a picture is, or the original to make it from: `memory` or `disk`; otherwise `nil`. Looks into the
    /// index on disk on the calling thread, unless memory has the picture.
    @_disfavoredOverload
    public func cachedSource(for source: some ImageRequestConvertible) -> ResponseSource? {
        self.source(of: source.imageRequest, in: .all)
    }
    /// Returns where a picture of a key is, or its bytes; see ``cachedSource(for:)-(ImageRequestConvertible)``.
    public func cachedSource(for key: CacheKey) -> ResponseSource? { source(of: ImageRequest(key), in: .all) }

    private func source(of request: ImageRequest, in tiers: CacheTiers) -> ResponseSource? {
        let (request, options) = completed(request)
        let home = home(of: options)
        let key = request.data.cacheKey
        if tiers.contains(.memory),
            home.memory.contains(options.inMemory(options.key(key)))
                || home.objects.hasAdded(origin(of: request, key, options), step(options))
        {
            return .memory
        }
        let mayUse = mayUse(key, options)
        return files(of: options).source(of: options.fileKey(key), forCompleted: request.data, in: tiers, if: mayUse)
            ?? originals(of: options).source(of: key, forCompleted: request.data, in: tiers, if: mayUse)
    }

    /// - Parameter key: the key of the bytes.
    func mayUse(_ key: CacheKey, _ options: ResolvedOptions) -> (EntryInfo) -> Bool {
        let (objects, key, step) = (home(of: options).objects, options.inMemory(key), step(options))
        return { objects.mayUse($0, for: key, step) }
    }

    /// Returns whether the cache has the picture of a request with its processors applied.
    /// ``hasImage(for:in:)-(ImageRequestConvertible,_)`` also counts the original. Reads the index on the calling thread.
    @_disfavoredOverload
    public func hasProcessedImage(for source: some ImageRequestConvertible) -> Bool {
        let (request, options) = completed(source.imageRequest)
        let key = request.data.cacheKey
        return home(of: options).memory.contains(options.inMemory(options.key(key)))
            || files(of: options).source(
                of: options.fileKey(key), forCompleted: request.data, in: .all, if: mayUse(key, options)) != nil
    }
    /// Returns whether the cache has the picture of a key; see ``hasProcessedImage(for:)-(ImageRequestConvertible)``.
    public func hasProcessedImage(for key: CacheKey) -> Bool { hasProcessedImage(for: ImageRequest(key)) }

    // MARK: Addition and removal

    /// Adds a picture to the cache under a URL or a request, in memory at once and on disk in the background.
    ///
    /// If the request has processors, the picture counts as processed by them. The bytes are the file that the picture
    /// was made from; if they are `nil`, the cache encodes the picture (``ImageOptions/serializer``).
    ///
    /// ```swift
    /// let avatar = ImageRequest(url).processed(by: .circle)
    /// let round = try image.processed(by: .circle)
    /// try cache.addImage(round, for: avatar)
    /// ```
    /// - Throws: `DipperError.emptyKey`.
    @_disfavoredOverload
    public func addImage(
        _ image: Image, bytes: Data? = nil, for source: some ImageRequestConvertible
    ) throws(DipperError) {
        let (request, options) = completed(source.imageRequest)
        let key = request.data.cacheKey
        guard !key.isEmpty, !options.key(key).isEmpty else { throw .emptyKey }
        let info = originals(of: options).infoOfAdded(request.data)
        // The policy only says how a picture is looked for. An added picture goes to disk.
        let isInMemoryOnly = originals(of: options).policy(of: request.data) == .memoryOnly
        let origin = origin(of: request, key, options, policy: isInMemoryOnly ? .memoryOnly : .useCache)
        let product = Product(image, cost: image.footprint, weak: \.held)
        home(of: options).objects.add(product, info, form: bytes, for: origin, step(options))
    }

    /// Adds a picture like ``addImage(_:bytes:for:)-(_,_,ImageRequestConvertible)``; returns when it is written.
    /// - Throws: `DipperError.emptyKey`; `DipperError.notWritten` if the request wants a durable entry and the disk failed.
    @_disfavoredOverload
    public func addImageAndWait(
        _ image: Image, bytes: Data? = nil, for source: some ImageRequestConvertible
    ) async throws {
        try addImage(image, bytes: bytes, for: source)
        let (completed, options) = completed(source.imageRequest)
        await home(of: options).objects.finishWrites()
        let key = options.fileKey(completed.data.cacheKey)
        let isOnDisk = await files(of: options).isWritten(key, forCompleted: completed.data)
        if !isOnDisk, completed.durability == .durable { throw DipperError.notWritten }
    }

    /// Adds a picture under a key, like ``addImageAndWait(_:bytes:for:)-(_,_,ImageRequestConvertible)``.
    public func addImageAndWait(_ image: Image, bytes: Data? = nil, for key: CacheKey) async throws {
        try await addImageAndWait(image, bytes: bytes, for: ImageRequest(key))
    }

    /// Adds the file of a picture to the cache under the key of a URL or a request. The cache decodes the file when the
    /// picture is requested, and removes pictures that were made from the earlier file.
    /// - Throws: `DipperError.emptyKey`; `DipperError.shutDown`.
    @_disfavoredOverload
    public func addImage(bytes: Data, for source: some ImageRequestConvertible) throws(DipperError) {
        let (request, options) = completed(source.imageRequest)
        let objects = home(of: options).objects
        let key = request.data.cacheKey
        objects.remove(options.inMemory(key), from: .all)
        // A fetch in progress still answers its callers, but its bytes are not kept.
        removeFiles(key, options, from: .all)
        try originals(of: options).add(bytes, key, forCompleted: request.data)
        // Readers may have made pictures of the earlier file meanwhile.
        objects.remove(options.inMemory(key), from: .memory)
    }

    private func removeFiles(_ key: CacheKey, _ options: ResolvedOptions, from tiers: CacheTiers) {
        originals(of: options).removeDerived(of: key, from: tiers)
        options.options.targetCache?.data.removeDerived(of: key, from: tiers)
        // Last, because it takes the right to keep a picture from all who have read a file meanwhile.
        originals(of: options).removeData(for: key, from: tiers)
    }

    /// Removes all files of a URL, whatever header fields, account or key they were fetched with, or the file of one
    /// request, and all pictures made of them, from all tiers or from some of them.
    ///
    /// A file is of the URL that the request had, and of the one that answered, after a redirect or as an alternative.
    /// What a low-data source brings is of that source's own URL alone.
    ///
    /// Calls whose pictures are being fetched, decoded or written still receive them. The cache does not keep these
    /// pictures in the tiers that they were removed from.
    ///
    /// ```swift
    /// let thumbnail = ImageRequest(url).processed(by: .downsample(width: 320, height: 240))
    /// cache.removeVariant(for: thumbnail)                 // the original and other sizes stay
    /// cache.removeImage(for: thumbnail)                   // the original and all sizes are gone
    /// cache.removeImage(for: url)                         // also what was fetched with header fields
    /// ```
    @_disfavoredOverload
    public func removeImage(for source: some ImageRequestConvertible, from tiers: CacheTiers = .all) {
        let (request, options) = completed(source.imageRequest)
        let address = source.isURL && !request.data.address.isEmpty ? request.data.address : nil
        let (key, objects) = (request.data.cacheKey, home(of: options).objects)
        let forget = { (tiers: CacheTiers) in
            objects.remove(options.inMemory(key), from: tiers)
            if let address { objects.removeAll(of: address, from: tiers) }
        }
        forget(tiers)
        if let address {
            originals(of: options).removeAll(of: address, from: tiers)
            options.options.targetCache?.data.removeAll(of: address, from: tiers)
        }
        removeFiles(key, options, from: tiers)
        // A reader may have read a file before it was removed.
        forget(tiers.intersection(.memory))
        // No other size is left to be shown in its place.
        for other in completed(source.imageRequest).0.inOtherSizes(for: nil) { removeImage(for: other, from: tiers) }
    }

    /// Removes the pictures that a request which changes a resource has made out of date, and their files: all of its
    /// URL, and of `Location` and `Content-Location` in the same origin. See `DataCache.invalidate(_:after:)`.
    public func invalidate(_ url: URL, after headers: HTTPHeaders = [:]) {
        for url in Redirect.changed(by: url, headers) { removeImage(for: url) }
    }

    /// Removes the one picture that a request makes, from all tiers or from some of them. Without processors in the
    /// request, this is the original file and the picture decoded from it. See ``removeImage(for:from:)-(ImageRequestConvertible,_)``.
    @_disfavoredOverload
    public func removeVariant(for source: some ImageRequestConvertible, from tiers: CacheTiers = .all) {
        let (request, options) = completed(source.imageRequest)
        let (key, objects) = (request.data.cacheKey, home(of: options).objects)
        objects.remove(options.inMemory(key), step(options), from: tiers)
        files(of: options).removeData(for: options.fileKey(key), from: tiers)
        objects.remove(options.inMemory(key), step(options), from: tiers.intersection(.memory))
    }

    /// Removes the picture that was added or loaded under a key, like
    /// ``removeVariant(for:from:)-(ImageRequestConvertible,_)``.
    public func removeVariant(for key: CacheKey, from tiers: CacheTiers = .all) {
        removeVariant(for: ImageRequest(key), from: tiers)
    }

    // MARK: Limits and sizes

    /// Removes pictures and files that were stored longer ago than a given age, and those that have expired. Readers no
    /// longer see them when this method returns; the files are deleted in the background.
    public func flush(olderThan age: Duration) {
        let limit = data.now.timeIntervalSince1970 - (age / .seconds(1))
        // Calls that make pictures from such bytes still receive them, but the pictures are not kept.
        objects.removeAll(storedBefore: limit)
        data.flush(olderThan: age)
        memory.removeExpired(storedBefore: limit)
    }

    /// Removes expired pictures and files now; readers do not see them in any case. The cache also removes them by
    /// itself, about a minute after they have expired. Returns at once; the files are deleted in the background.
    public func removeExpired() { data.removeExpired() }

    /// Removes all pictures and files.
    ///
    /// Readers no longer see them when this method returns; the files are deleted in the background. The method also
    /// clears a data cache that was given to this cache (``Configuration/originals``), even if others use it. Calls in
    /// progress still receive their pictures, which are not kept; ``cancelAll()`` ends these calls.
    public func clear() {
        objects.removeAll()
        data.clear()
        memory.removeAll()
    }

    /// Removes everything from memory, also memory kept for the pixels of later pictures. The disk keeps its files.
    public func clearMemory() {
        memory.removeAll()
        data.clearMemory()
        PixelMemory.trim()
    }

    /// Removes all files from disk. Memory keeps its pictures. Results of calls in progress are not kept on disk.
    public func clearDisk() { data.clearDisk() }

    /// Removes pictures, in the order of eviction, until memory holds no more than a number of bytes. Memory that is
    /// kept for the pixels of later pictures is released too. The memory limit does not change.
    public func trimMemory(to size: Int) {
        memory.trim(to: size)
        PixelMemory.trim()
    }

    /// The memory pressure that the data cache reports. While it is moderate, the cache keeps at most half of its memory
    /// limit; while it is severe, the cache keeps nothing in memory.
    public var memoryPressure: MemoryPressure { data.memoryPressure }

    /// Calls a closure from any thread, after the tiers of this cache have adapted, with the present memory pressure,
    /// unless it is `normal`, and with each later one, until the observation is released. One level may come twice.
    package func observeMemoryPressure(
        _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation { data.observeMemoryPressure(onChange) }

    /// Whether the user sees none of the program's windows at present, as the program has said; `false` by default.
    ///
    /// While it is `true`, the cache keeps at most half of its memory limit, and none of the memory for the pixels of later
    /// pictures; moving pictures of displays that are off screen (``ImageBinding/didDisappear()``) let go of the frames
    /// that were decoded ahead. Displays keep what they show, so that it is there at once when the windows come back.
    ///
    /// ```swift
    /// ImageCache.shared.isHidden = true           // the window has been minimized
    /// ```
    public var isHidden: Bool {
        get { memory.keepsLess }
        set {
            memory.keepsLess = newValue
            if newValue { PixelMemory.trim() }
            for tell in hidingObservers.all { tell(newValue) }
        }
    }

    /// Calls a closure from any thread with each new value of ``isHidden``, and at once if that is `true`, until the
    /// observation is released.
    func observeHiding(_ onChange: @escaping @Sendable (Bool) -> Void) -> ChangeObservation {
        let observation = hidingObservers.observe(onChange)
        if isHidden { onChange(true) }
        return observation
    }

    /// The limit of decoded pictures in memory, in bytes. A lower limit removes pictures at once.
    public var memoryLimit: Int {
        get { memory.costLimit }
        set {
            memory.costLimit = newValue
            PixelMemory.changeLimit(of: ObjectIdentifier(pixels), to: newValue)
        }
    }
    /// The limit of the number of decoded pictures in memory; `nil` for none. A lower limit removes pictures at once.
    public var memoryCountLimit: Int? {
        get { memory.countLimit }
        set { memory.countLimit = newValue }
    }

    /// The memory that decoded pictures take in the cache, in bytes.
    public var memorySize: Int { memory.totalCost }
    /// The number of decoded pictures in memory.
    public var memoryCount: Int { memory.count }

    /// Returns the file on disk with the bytes of a request's picture, or `nil` if there is none.
    ///
    /// If the request has processors, this is the file of the processed picture. Small entries have no file of their
    /// own, and the files of compressed or encoded entries are not returned. The file belongs to the cache and must not
    /// be changed. Reads the index on the calling thread. See `DataCache.file(for:)`.
    @_disfavoredOverload
    public func file(for source: some ImageRequestConvertible) -> URL? {
        let (request, options) = completed(source.imageRequest)
        return files(of: options).file(for: options.fileKey(request.data.cacheKey))
    }
    /// Returns the file on disk with the bytes of a key's picture; see ``file(for:)-(ImageRequestConvertible)``.
    public func file(for key: CacheKey) -> URL? { file(for: ImageRequest(key)) }

    /// Returns when the disk has carried out all earlier changes.
    ///
    /// ```swift
    /// try cache.addImage(image, for: url)
    /// await cache.synchronize()           // the picture is on disk, and other processes find it
    /// ```
    public func synchronize() async {
        await defaults.options.targetCache?.synchronize()
        await objects.finishWrites()
        await data.synchronize()
    }

    /// Returns when the disk has carried out all earlier removals: the entries and their files are gone. See
    /// `DataCache.finishRemovals()`.
    ///
    /// - Throws: `DipperError.notRemoved` if something is still on disk.
    public func finishRemovals() async throws {
        try await defaults.options.targetCache?.finishRemovals()
        await objects.finishWrites()
        try await data.finishRemovals()
    }

    /// Returns when nothing is left to do: all calls have ended, also those of ``data``, their closures have been
    /// called, and what they keep is on disk.
    ///
    /// A call that waits for the network, for a retry or for room in a suspended queue has not ended. Calls made
    /// meanwhile, for example by closures, are waited for as well. Closures of an actor have been handed to the actor, which
    /// may not have run them yet.
    public func idle() async {
        let target = defaults.options.targetCache?.data
        repeat {
            // First, because its calls fetch and store with this cache.
            await target?.idle()
            await data.idle()
        } while target?.isIdle == false
    }

    // MARK: Off the caller's thread

    /// Calls a closure on one of the threads that decode, and returns its result: the form for async code of the methods
    /// that read the disk, or decode, on the caller's thread.
    ///
    /// ```swift
    /// let isThere = await cache.read { $0.hasImage(for: url) }
    /// ```
    public func read<Value: Sendable>(_ body: @escaping @Sendable (ImageCache) -> Value) async -> Value {
        await fromThread { answer in if !objects.workers.run({ answer(body(self)) }) { answer(nil) } } ?? body(self)
    }

    /// Calls a closure like ``read(_:)``, and returns like ``finishRemovals()`` when its changes have been carried out.
    ///
    /// ```swift
    /// try await cache.write { $0.removeImage(for: url, from: .disk) }
    /// ```
    /// - Throws: the error of the closure; `DipperError.notRemoved` if something is still on disk.
    public func write<Value: Sendable>(
        _ body: @escaping @Sendable (ImageCache) throws -> Value
    ) async throws -> Value {
        let result = await read { cache in Result { try body(cache) } }
        let value = try result.get()
        try await finishRemovals()
        return value
    }

    // MARK: Synchronous decoding

    func store(_ bytes: Data, for request: ImageRequest) -> Image? {
        let (request, options) = completed(request)
        let info = originals(of: options).infoOfAdded(request.data)
        let origin = origin(of: request, request.data.cacheKey, options)
        return home(of: options).objects.make(bytes, info, for: origin, step(options)).map {
            options.handOut($0.value())
        }
    }

    /// Returns the key of a picture: the key of its bytes and the processing. A call has it as ``ImageTask/imageKey``.
    public func imageKey(for source: some ImageRequestConvertible) -> CacheKey {
        let options = source.imageRequest.resolved(defaults)
        return options.key(complete(source.imageRequest, options).data.cacheKey)
    }

    /// Adds the file of a picture to the cache under a key, like ``addImage(bytes:for:)-(_,ImageRequestConvertible)``.
    public func addImage(bytes: Data, for key: CacheKey) throws(DipperError) {
        try addImage(bytes: bytes, for: ImageRequest(key))
    }

    /// Adds a picture to the cache under a key, like ``addImage(_:bytes:for:)-(_,_,ImageRequestConvertible)``.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(_ image: Image, bytes: Data? = nil, for key: CacheKey) throws(DipperError) {
        try addImage(image, bytes: bytes, for: ImageRequest(key))
    }

    /// Removes all pictures of a key, and its file, from all tiers or from some of them.
    public func removeImage(for key: CacheKey, from tiers: CacheTiers = .all) {
        removeImage(for: ImageRequest(key), from: tiers)
    }
}

extension ImageRequest {
    fileprivate init(_ key: CacheKey) {
        // A request made from a key is never fetched.
        self.init(string: "")
        self.key = key
    }

    fileprivate var isKey: Bool { data.key != nil && data.urlString.isEmpty && data.provider == nil }
}
