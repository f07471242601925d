import Dipper

extension ImageCache {
    /// Returns when nothing is left to do, as ``Dipper/ImageCache/idle()``, and fails if that takes too long.
    ///
    /// ```swift
    /// try await cache.idle(within: .seconds(5))
    /// ```
    /// - Parameter limit: the time after which the wait fails, of the real clock.
    /// - Throws: `WaitTimeout`, with the numbers of fetches that run and wait.
    public func idle(within limit: Duration) async throws(WaitTimeout) {
        try await WaitTimeout.limit(limit, { await self.idle() }) { "the cache still has work: \(data.queueCounts)" }
    }
}
