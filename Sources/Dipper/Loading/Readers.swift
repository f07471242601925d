import Synchronization

/// Reads that run on threads of the caller's: they hear of what is removed meanwhile.
final class Readers: Sendable {
    private let all = Mutex<[ObjectIdentifier: (key: CacheKey, removals: Removals)]>([:])

    /// Runs a read of what is kept in memory under a key.
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
