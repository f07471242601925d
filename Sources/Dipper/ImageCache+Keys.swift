import Foundation

/// Pictures that are known by the key of their bytes alone, such as those that were added under one of the caller's own.
extension ImageCache {
    /// The picture if the cache has it: memory, then disk, where it is read and decoded on the caller's thread.
    public func image(for key: CacheKey) -> Image? { image(for: ImageRequest(key)) }

    /// Whether ``image(for:)-(CacheKey)`` would find something. Decodes nothing and does not count as a use.
    public func hasImage(for key: CacheKey) -> Bool { hasImage(for: ImageRequest(key)) }

    /// Keeps a picture of the caller's own, in memory at once and on disk in the background.
    /// - Parameters:
    ///   - image: the picture.
    ///   - bytes: the file it was made of; without it the picture is encoded (``ImageOptions/serializer``).
    ///   - key: what it will be asked for by.
    /// - Throws: `DipperError.emptyKey`.
    public func addImage(_ image: Image, bytes: Data? = nil, for key: CacheKey) throws(DipperError) {
        try addImage(image, bytes: bytes, for: ImageRequest(key))
    }

    /// Removes all pictures of a key, and its file, from both tiers, or from one of them.
    public func removeImage(for key: CacheKey, from tiers: CacheTiers = .all) {
        removeImages(for: ImageRequest(key), from: tiers)
    }
}

extension ImageRequest {
    fileprivate init(_ key: CacheKey) {
        // It is never fetched.
        self.init(string: "")
        self.key = key
    }
}
