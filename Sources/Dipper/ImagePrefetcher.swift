import Foundation

/// A prefetcher of pictures that the user may look at later.
///
/// ```swift
/// let prefetcher = ImagePrefetcher(cache, urls: urls)
///     .onProgress { print($0.fraction) }
///     .onEnd { print($0.failed.count) }
/// prefetcher.start()
/// ```
///
/// The prefetcher skips pictures that the cache already has in the requested form. Processed pictures that the
/// serializer does not write are never on disk, as with ``ImageSerializer/original``. Unless these pictures are in
/// memory, the cache processes them each time, without the network if it has the original. If the bytes are enough,
/// prefetch the request without processors.
public typealias ImagePrefetcher = Prefetcher<ImageRequest>

extension Prefetcher where Request == ImageRequest {
    /// Creates a prefetcher of requests, in this order. A request with processors is skipped only if the cache has the
    /// processed picture.
    ///
    /// At most `maxOutstanding` calls, by default 4, are in progress at a time. How many of them fetch is a limit of the
    /// cache, `maxConcurrent` of ``ImageCache/slowQueue``, by default one; if you set `maxOutstanding` to more than that,
    /// the log says so. Calls that wait for the network, or to try again, do not count, up to 256 of them.
    ///
    /// With `keepsInMemory`, pictures are kept in memory too, for requests that do not set
    /// ``ImageOptions/prefetchesToMemory``. Pictures that are only on disk are then decoded, not skipped.
    ///
    /// ```swift
    /// let thumbnails = urls.map { ImageRequest($0).processed(by: .downsample(width: 320, height: 240)) }
    /// let result = await ImagePrefetcher(cache, thumbnails, keepsInMemory: true).value
    /// for failure in result.failed { print(failure.request, failure.error) }
    /// ```
    public convenience init(
        _ cache: ImageCache = .shared, _ requests: [ImageRequest], maxOutstanding: Int? = nil,
        keepsInMemory: Bool = false
    ) {
        self.init(
            requests, maxOutstanding: cache.data.outstanding(maxOutstanding), cache.data.callbackQueue,
            run: cache.data.runOnReader,
            hold: cache.data.holdPrefetches
        ) { request in
            cache.answers(request, keepsInMemory: keepsInMemory)
        } call: { request in
            let keeps = cache.keepsPrefetched(cache.complete(request), keepsInMemory)
            return cache.slowGetImage(
                request.withoutStandIns.with(\.callbackQueue, .inPlace).with(\.prefetchesToMemory, keeps))
        }
    }

    /// Creates a prefetcher that brings only the files of pictures to disk, or to memory if there is no disk. Nothing
    /// is decoded or processed.
    ///
    /// ```swift
    /// let requests = urls.map { ImageRequest($0) }
    /// let prefetcher = ImagePrefetcher(cache, filesOf: requests).start()
    /// prefetcher.pause()                  // the user plays a film
    /// prefetcher.resume()
    /// ```
    public convenience init(
        _ cache: ImageCache = .shared, filesOf requests: [ImageRequest], maxOutstanding: Int? = nil
    ) {
        let source = { @Sendable (request: ImageRequest) in
            let options = request.resolved(cache.defaults)
            return (cache.originals(of: options), cache.bytes(of: request, options))
        }
        self.init(
            requests, maxOutstanding: cache.data.outstanding(maxOutstanding), cache.data.callbackQueue,
            run: cache.data.runOnReader,
            hold: cache.data.holdPrefetches
        ) { request in
            let (originals, asked) = source(request)
            let bytes = originals.complete(asked)
            return originals.answers(bytes, under: bytes.cacheKey)
        } call: { request in
            let (originals, bytes) = source(request)
            return originals.slowGetData(bytes.withoutStandIns.with(\.callbackQueue, .inPlace))
        }
    }

    /// Creates a prefetcher of URLs, with the cache's default options.
    public convenience init(
        _ cache: ImageCache = .shared, urls: [URL], maxOutstanding: Int? = nil, keepsInMemory: Bool = false
    ) {
        self.init(
            cache, urls.map { ImageRequest($0) }, maxOutstanding: maxOutstanding, keepsInMemory: keepsInMemory)
    }
}

extension ImagePrefetcher {
    /// Adds requests of URLs; see `add(_:)`.
    public func add(urls: [URL]) { add(urls.map { ImageRequest($0) }) }
    /// Takes requests of URLs out of the prefetcher; see `remove(_:)`.
    public func remove(urls: [URL]) { remove(urls.map { ImageRequest($0) }) }
}

extension ImageRequest {
    /// The request without alternatives whose bytes are not kept, such as a local provider: useless to a prefetch.
    var withoutStandIns: ImageRequest {
        var copy = self
        copy.data = data.withoutStandIns
        return copy
    }
}

extension ImageCache {
    func policy(of request: ImageRequest) -> DataRequest.CachePolicy {
        let options = request.resolved(defaults)
        return originals(of: options).policy(of: complete(request, options).data)
    }

    /// Returns whether a prefetched picture is kept in memory; without bytes on disk it has no other place.
    func keepsPrefetched(_ request: ImageRequest, _ byDefault: Bool) -> Bool {
        let options = request.resolved(defaults)
        return options.options.prefetchesToMemory
            ?? (byDefault || !originals(of: options).keepsOnDisk(request.data))
    }

    /// Returns whether the cache would answer a request without the network, with its processors applied.
    func answers(_ request: ImageRequest, keepsInMemory: Bool) -> Bool {
        let options = request.resolved(defaults)
        let originals = originals(of: options)
        let request = complete(request, options)
        let key = request.data.cacheKey
        let policy = originals.policy(of: request.data)
        guard policy != .ignoreCache, policy != .bypass else { return false }
        if let entry = home(of: options).memory.entry(for: options.inMemory(options.key(key))),
            entry.info.mayBeShown(to: request.data.headers),
            originals.use(of: entry.info, for: request.data, key) == .fresh
        {
            return true
        }
        return !keepsPrefetched(request, keepsInMemory)
            && files(of: options).answers(request.data, under: options.fileKey(key), if: mayUse(key, options))
    }
}
