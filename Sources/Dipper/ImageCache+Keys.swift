import Foundation

extension ImageCache {
    /// Returns the key of a picture: the key of its bytes and the processing. A call has it as ``ImageTask/imageKey``.
    public func imageKey(for source: some ImageRequestConvertible) -> CacheKey {
        let options = source.imageRequest.resolved(defaults)
        return options.key(complete(source.imageRequest, options).data.cacheKey)
    }

    /// Returns the cached picture of a key, or `nil` if the cache has none.
    ///
    /// The cache looks in memory, then on disk, where it reads and decodes on the caller's thread.
    ///
    /// ```swift
    /// let key = CacheKey("cover of album 17")
    /// cache.getImage(ImageRequest(url).with(\.key, key)) { image in view.show(image) }
    /// let cover = cache.image(for: key)   // `nil` until the picture is there
    /// ```
    public func image(for key: CacheKey) -> Image? { image(for: ImageRequest(key)) }

    /// Returns whether the cache has a picture of a key, which ``image(for:)-(CacheKey)`` would return. Decodes nothing
    /// and does not count as a use.
    public func hasImage(for key: CacheKey) -> Bool { hasImage(for: ImageRequest(key)) }

    /// Adds a picture to the cache under a key, like ``addImage(_:bytes:for:)-(Image,Data?,ImageRequest)``.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(_ image: Image, bytes: Data? = nil, for key: CacheKey) throws(DipperError) {
        try addImage(image, bytes: bytes, for: ImageRequest(key))
    }

    /// Removes all pictures of a key, and its file, from both tiers or from one of them.
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
}
