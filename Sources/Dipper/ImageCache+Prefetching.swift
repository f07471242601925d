extension ImageRequest {
    /// The request without alternatives whose bytes are not kept.
    ///
    /// A local provider among the alternatives stands in for a single call, so that a prefetch has no use for it.
    var withoutStandIns: ImageRequest {
        var copy = self
        copy.data = data.withoutStandIns
        return copy
    }
}

/// The part of the cache that a prefetcher uses.
extension ImageCache {
    /// Returns the policy that applies to a request.
    func policy(of request: ImageRequest) -> DataRequest.CachePolicy {
        let options = request.resolved(defaults)
        return originals(of: options).policy(of: complete(request, options).data)
    }

    /// Returns whether a prefetched picture is kept in memory.
    ///
    /// A picture whose bytes are not kept on disk has no other place.
    func keepsPrefetched(_ request: ImageRequest, _ byDefault: Bool) -> Bool {
        let options = request.resolved(defaults)
        return options.options.prefetchesToMemory
            ?? (byDefault || !originals(of: options).keepsOnDisk(request.data))
    }

    /// Returns whether the cache would answer a request without the network, with its processors applied. Decodes
    /// nothing.
    func answers(_ request: ImageRequest, keepsInMemory: Bool) -> Bool {
        let options = request.resolved(defaults)
        let originals = originals(of: options)
        let request = complete(request, options)
        let key = request.data.cacheKey
        let policy = originals.policy(of: request.data)
        guard policy != .ignoreCache, policy != .bypass else { return false }
        if let entry = home(of: options).memory.entry(for: options.inMemory(options.key(key))),
            entry.info.mayBeShown(to: request.data.headers),
            originals.use(of: entry.info, for: request.data) == .fresh
        {
            return true
        }
        return !keepsPrefetched(request, keepsInMemory)
            && files(of: options).answers(request.data, under: options.fileKey(key))
    }
}
