import Foundation

/// Reading and changing what the cache holds, without the network.
extension ImageCache {
    // MARK: Peeking

    /// The picture if the cache has it: memory, then disk, where it is read and decoded on the caller's thread.
    public func image(for url: URL) -> Image? { image(for: ImageRequest(url)) }

    /// The same for a request, whose processors are applied if only the original is there.
    public func image(for request: ImageRequest) -> Image? {
        let options = request.resolved(defaults)
        let originals = loader.originals(of: options)
        let key = request.data.cacheKey
        let imageKey = options.key(key)
        if let entry = memory.entry(for: options.inMemory(imageKey)), originals.mayShow(entry.info, request.data) {
            return options.handOut(entry.kept.image)
        }
        return loader.readers.read(for: options.inMemory(imageKey)) { removals in
            if let added = loader.added(key, options) {
                let context = ProcessingContext(limits: configuration.limits)
                guard let image = try? options.chain.process(added.image, context) else { return nil }
                return keep(image, added.digest, added.info, request, options, unless: removals)
            }
            if !options.chain.processors.isEmpty,
                let (stored, _) = originals.peekEntry(imageKey, for: request.data),
                originals.mayShow(stored.info, request.data),
                let image = try? loader.plain(stored.data, options.decodeOptions(configuration.limits) { false })
            {
                return keep(
                    image, stored.info.digestOfOriginal ?? 0, stored.info, request, options, unless: removals)
            }
            guard let (stored, _) = originals.peekEntry(key, for: request.data),
                originals.mayShow(stored.info, request.data)
            else { return nil }
            return make(stored.data, stored.info, request, options, unless: removals)
        }
    }

    /// Whether ``image(for:)-(URL)`` would find something. Decodes nothing and does not count as a use.
    public func hasImage(for url: URL) -> Bool { cachedTier(for: url) != nil }
    /// The same for a request.
    public func hasImage(for request: ImageRequest) -> Bool { cachedTier(for: request) != nil }

    /// Which tier would answer: `memory`, `disk`, or `nil` for none.
    public func cachedTier(for url: URL) -> ResponseSource? { cachedTier(for: ImageRequest(url)) }

    /// The same for a request. Where its processors are still to be applied, the original counts.
    public func cachedTier(for request: ImageRequest) -> ResponseSource? {
        let options = request.resolved(defaults)
        let originals = loader.originals(of: options)
        let key = request.data.cacheKey
        if memory.contains(options.inMemory(options.key(key))) || loader.added(key, options) != nil { return .memory }
        guard originals.hasData(for: options.fileKey(key)) || originals.hasData(for: key) else { return nil }
        return originals.hasDisk ? .disk : .memory
    }

    /// Whether the picture is there as the request wants it, its processors applied.
    public func hasProcessedImage(for request: ImageRequest) -> Bool {
        let options = request.resolved(defaults)
        let key = request.data.cacheKey
        return memory.contains(options.inMemory(options.key(key)))
            || loader.originals(of: options).hasData(for: options.fileKey(key))
    }

    // MARK: Adding and removing

    /// Keeps a picture of the caller's own, in memory at once and on disk in the background.
    /// - Parameters:
    ///   - image: the picture.
    ///   - bytes: the file it was made of; without it the picture is encoded (``ImageOptions/serializer``).
    ///   - url: what it will be asked for by.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(_ image: Image, bytes: Data? = nil, for url: URL) throws(DipperError) {
        try addImage(image, bytes: bytes, for: ImageRequest(url))
    }

    /// The same for a request: with processors, the picture counts as processed by them.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(_ image: Image, bytes: Data? = nil, for request: ImageRequest) throws(DipperError) {
        let options = request.resolved(defaults)
        let originals = loader.originals(of: options)
        let imageKey = options.key(request.data.cacheKey)
        guard !imageKey.isEmpty, !request.data.cacheKey.isEmpty else { throw .emptyKey }
        let info = originals.infoOfAdded(request.data)
        // What is being made of other bytes is not to take its place, nor is what is being fetched.
        let key = request.data.cacheKey
        let (own, origin) = (options.inMemory(imageKey), options.inMemory(key))
        let fileKey = options.fileKey(key)
        let isOriginal = options.chain.processors.isEmpty
        loader.revoke(.replaced, of: key) { $0 == own || (isOriginal && ($0 == origin || $0.isDerived(of: origin))) }
        if isOriginal { loader.forgetDerived(of: key, options) }
        let keepsOnDisk = originals.hasDisk && originals.policy(of: request.data) != .memoryOnly
        // The bytes it replaces are not to be read while it waits to be written. Those given here follow at once.
        originals.removeData(for: fileKey)
        let digest = bytes.map(DataCache.digest) ?? 0
        _ = keep(image, digest, isAdded: true, info, request, options)
        guard keepsOnDisk else { return }
        let (loader, data) = (loader, request.data.with(\.key, fileKey))
        let write: @Sendable (Removals) -> Bool = { removals in
            let serializer = options.options.serializer ?? .automatic
            do {
                let bytes = try bytes ?? serializer.data(for: image, madeOf: nil, loader.codecs)
                // It is not to take the place of what was added meanwhile.
                guard !removals.tiers(for: info).contains(.disk) else { return false }
                try originals.addData(bytes, for: data)
                return true
            } catch {
                loader.logNotKept(fileKey, error)
                return false
            }
        }
        loader.writes.add(
            .init(
                write: write, undo: { originals.removeData(for: fileKey, from: $0) }, dropped: {}, info: info,
                added: AddedPicture(image: image, digest: digest, info: info)),
            for: options.inMemory(fileKey), atOnce: false)
    }

    /// Keeps a picture's file, which is decoded when it is asked for. What was made of the one before is removed.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(bytes: Data, for url: URL) throws(DipperError) {
        let originals = loader.originals(of: defaults)
        let key = CacheKey(url)
        let origin = defaults.inMemory(key)
        loader.revoke(.replaced, of: key) { $0 == origin || $0.isDerived(of: origin) }
        // What is being fetched goes to those who asked for it alone.
        originals.removeData(for: key)
        try originals.addData(bytes, for: url)
        memory.remove(origin)
        loader.forgetDerived(of: key, defaults)
    }

    /// Removes all pictures of a URL, and its file, from both tiers or from one of them. Calls that are being fetched,
    /// decoded or written still receive their pictures, which are not kept in these tiers.
    public func removeImage(for url: URL, from tiers: CacheTiers = .all) {
        removeImages(for: ImageRequest(url), from: tiers)
    }

    /// Removes one picture from both tiers, or from one of them: the one that is made by the request's processors, or the
    /// file itself and the picture that is made of it as it is.
    public func removeImage(for request: ImageRequest, from tiers: CacheTiers = .all) {
        let options = request.resolved(defaults)
        let key = request.data.cacheKey
        let fileKey = options.fileKey(key)
        let (own, file) = (options.inMemory(options.key(key)), options.inMemory(fileKey))
        loader.revoke(Removed(tiers: tiers), of: key) { $0 == own || $0 == file }
        loader.originals(of: options).removeData(for: fileKey, from: tiers)
        if tiers.contains(.memory) { memory.remove(own) }
    }

    /// Removes the request's file and all pictures made of it, from both tiers, or from one of them.
    public func removeImages(for request: ImageRequest, from tiers: CacheTiers = .all) {
        let options = request.resolved(defaults)
        let originals = loader.originals(of: options)
        let key = request.data.cacheKey
        let origin = options.inMemory(key)
        loader.revoke(Removed(tiers: tiers), of: key) { $0 == origin || $0.isDerived(of: origin) }
        originals.removeData(for: key, from: tiers)
        originals.removeDerived(of: key, from: tiers)
        guard tiers.contains(.memory) else { return }
        memory.remove(origin)
        memory.removeDerived(of: origin)
    }

    // MARK: Keeping small

    /// Removes what was stored longer ago than this, and what has expired. Returns at once; the disk follows in the
    /// background.
    public func flush(olderThan age: Duration) {
        let limit = data.now.timeIntervalSince1970 - (age / .seconds(1))
        // What is being read or made of such bytes is handed out, and not kept.
        loader.revoke(Removed(flushedBefore: limit), of: nil)
        data.flush(olderThan: age)
        memory.removeExpired(storedBefore: limit)
    }

    /// Removes everything, at once for readers; the files follow in the background. So it does in a data cache that was
    /// given to this one (``Configuration/originals``), whoever else uses it.
    public func clear() {
        loader.revoke(Removed(tiers: .all), of: nil)
        data.clear()
        memory.removeAll()
    }

    /// Removes everything from memory, memory kept for the next pictures included; the disk keeps what it has.
    public func clearMemory() {
        memory.removeAll()
        data.clearMemory()
        PixelMemory.trim()
    }

    /// Removes the least recently used pictures until memory holds no more than this, in bytes. The limit stays.
    public func trimMemory(to size: Int) {
        memory.trim(to: size)
        PixelMemory.trim()
    }

    /// How short memory is, as the data cache's `memoryPressure` tells. While it is moderate half as much is kept in memory
    /// as otherwise, while it is severe nothing.
    public var memoryPressure: MemoryPressure { data.memoryPressure }

    /// Calls back with the level as it is now, unless that is `normal`, and with each one that follows, from any thread,
    /// after the tiers of this cache have followed it, until the observation is let go of. The same level may come twice.
    package func observeMemoryPressure(
        _ onChange: @escaping @Sendable (MemoryPressure) -> Void
    ) -> ChangeObservation { data.observeMemoryPressure(onChange) }

    /// Changes the limits of decoded pictures in memory, in bytes and in pictures; what is too much goes at once. While
    /// memory is short half of them hold, or none; afterwards all.
    public func setMemoryLimit(_ bytes: Int, count: Int? = nil) { memory.setLimits(bytes: bytes, count: count) }

    /// Bytes of decoded pictures in memory.
    public var memorySize: Int { memory.totalCost }
    /// Decoded pictures in memory.
    public var memoryCount: Int { memory.count }
    /// Bytes on disk, those still to be written not included.
    public var diskSize: Int { data.diskSize }

    /// The file that holds the picture's bytes on disk, those of the processed picture if the request has processors;
    /// `nil` for small ones, which have no file of their own, and if they are kept compressed.
    public func file(for request: ImageRequest) -> URL? {
        let options = request.resolved(defaults)
        return loader.originals(of: options).file(for: options.key(request.data.cacheKey))
    }

    /// Returns when the disk has carried out all that was asked of it before.
    public func synchronize() async {
        await loader.writes.finish()
        await data.synchronize()
    }

    // MARK: On the caller's thread

    /// Decodes a file of the caller's and keeps the picture in memory.
    func store(_ bytes: Data, for request: ImageRequest) -> Image? {
        let options = request.resolved(defaults)
        let info = loader.originals(of: options).infoOfAdded(request.data)
        return loader.readers.read(for: options.inMemory(options.key(request.data.cacheKey))) { removals in
            make(bytes, info, request, options, unless: removals)
        }
    }

    private func make(
        _ bytes: Data, _ info: EntryInfo, _ request: ImageRequest, _ options: ResolvedOptions, unless removals: Removals
    ) -> Image? {
        let decode = options.decodeOptions(configuration.limits) { false }
        guard let plain = try? loader.codecs.decode(bytes, decode),
            let image = try? options.chain.process(plain, ProcessingContext(limits: configuration.limits))
        else { return nil }
        return keep(image, DataCache.digest(of: bytes), info, request, options, unless: removals)
    }

    private func keep(
        _ image: Image, _ digest: UInt64, isAdded: Bool = false, _ info: EntryInfo, _ request: ImageRequest,
        _ options: ResolvedOptions, unless removals: Removals? = nil
    ) -> Image {
        loader.keep(
            image, digest: digest, isAdded: isAdded, info, for: options.inMemory(options.key(request.data.cacheKey)),
            loader.originals(of: options).memoryLifetime(of: request.data, madeOf: info), unless: removals)
        return options.handOut(image)
    }
}
