import Synchronization

/// The reads that run on callers' threads. They learn of removals that happen meanwhile.
final class Readers: Sendable {
    private let all = Mutex<[ObjectIdentifier: (key: CacheKey, removals: Removals)]>([:])

    /// Runs a read of the picture with a memory key.
    func read<Result>(for key: CacheKey, _ body: (Removals) -> Result) -> Result {
        let removals = Removals()
        let id = ObjectIdentifier(removals)
        all.withLock { $0[id] = (key, removals) }
        defer { _ = all.withLock { $0.removeValue(forKey: id) } }
        return body(removals)
    }

    func note(_ removed: Removed, where condition: (CacheKey) -> Bool) {
        let concerned = all.withLock { readers in readers.values.filter { condition($0.key) } }
        for (_, removals) in concerned { removals.add(removed) }
    }
}
