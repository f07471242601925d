import DipperData

extension DataCache {
    /// Returns when nothing is left to do, as ``DipperData/DataCache/idle()``, and fails if that takes too long.
    ///
    /// ```swift
    /// try await cache.idle(within: .seconds(5))
    /// ```
    /// - Parameter limit: the time after which the wait fails, of the real clock.
    /// - Throws: `WaitTimeout`, with the numbers of fetches that run and wait.
    public func idle(within limit: Duration) async throws(WaitTimeout) {
        try await WaitTimeout.limit(limit, { await self.idle() }) { "the cache still has work: \(queueCounts)" }
    }
}

extension WaitTimeout {
    /// Runs an action until its end or until the time is over.
    static func limit(
        _ limit: Duration, _ action: @escaping @Sendable () async -> Void, orFail failure: () -> String
    ) async throws(WaitTimeout) {
        let isDone = WatchedState(false)
        Task.detached {
            await action()
            isDone.update { $0 = true }
        }
        do throws(WaitTimeout) {
            try await isDone.wait(within: limit, until: { $0 })
        } catch {
            throw WaitTimeout("\(failure()), after \(limit)")
        }
    }
}
