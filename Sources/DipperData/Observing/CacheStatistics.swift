import Synchronization

/// What a cache has done since it was made.
public struct CacheStatistics: Sendable, Hashable {
    /// Calls that ended, by what answered them.
    public var memoryHits = 0
    /// Calls answered from disk.
    public var diskHits = 0
    /// Calls answered by the network.
    public var networkAnswers = 0
    /// Calls answered from the cache after the server had said that it still holds.
    public var revalidatedAnswers = 0
    /// Calls answered from the cache although it was out of date.
    public var staleAnswers = 0
    /// Calls that failed, cancelled ones included.
    public var failures = 0
    /// Attempts made on the network, and bytes of bodies received.
    public var networkRequests = 0
    /// Bytes of bodies received.
    public var networkBytes = 0

    /// Nothing done yet.
    public init() {}
}

/// The counters behind ``CacheStatistics``.
final class StatisticsCounters: Sendable {
    let memoryHits = Atomic<Int>(0)
    let diskHits = Atomic<Int>(0)
    let networkAnswers = Atomic<Int>(0)
    let revalidatedAnswers = Atomic<Int>(0)
    let staleAnswers = Atomic<Int>(0)
    let failures = Atomic<Int>(0)
    let networkRequests = Atomic<Int>(0)
    let networkBytes = Atomic<Int>(0)

    var snapshot: CacheStatistics {
        var statistics = CacheStatistics()
        statistics.memoryHits = memoryHits.load(ordering: .relaxed)
        statistics.diskHits = diskHits.load(ordering: .relaxed)
        statistics.networkAnswers = networkAnswers.load(ordering: .relaxed)
        statistics.revalidatedAnswers = revalidatedAnswers.load(ordering: .relaxed)
        statistics.staleAnswers = staleAnswers.load(ordering: .relaxed)
        statistics.failures = failures.load(ordering: .relaxed)
        statistics.networkRequests = networkRequests.load(ordering: .relaxed)
        statistics.networkBytes = networkBytes.load(ordering: .relaxed)
        return statistics
    }
}
