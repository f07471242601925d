extension ImageRequest {
    /// For who has no use for what stands in for a call alone: it would not be kept.
    var withoutStandIns: ImageRequest {
        var copy = self
        copy.data = data.withoutStandIns
        return copy
    }
}

/// What a prefetcher asks of the cache.
extension ImageCache {
    /// Whether a picture is to be kept in memory once it is prefetched. What is not kept on disk has no other place.
    func keepsPrefetched(_ request: ImageRequest, _ byDefault: Bool) -> Bool {
        let options = request.resolved(defaults)
        return options.options.prefetchesToMemory
            ?? (byDefault || !loader.originals(of: options).keepsOnDisk(request.data))
    }

    /// Whether a request would be answered without the network as it is wanted, its processors applied. Decodes nothing.
    func answers(_ request: ImageRequest, keepsInMemory: Bool) -> Bool {
        let options = request.resolved(defaults)
        let originals = loader.originals(of: options)
        let key = request.data.cacheKey
        let policy = originals.policy(of: request.data)
        guard policy != .ignoreCache, policy != .bypass else { return false }
        if let entry = memory.entry(for: options.inMemory(options.key(key))),
            originals.mayShow(entry.info, request.data),
            originals.use(of: entry.info, for: request.data) == .fresh
        {
            return true
        }
        return !keepsPrefetched(request, keepsInMemory)
            && originals.answers(request.data, under: options.fileKey(key))
    }
}
