import Synchronization

/// The numbers of a cache's answers, failures, requests and bytes since the cache was created.
///
/// ```swift
/// print("\(cache.statistics.networkRequests) requests, \(cache.statistics.failures) failures")
/// ```
public struct CacheStatistics: Sendable, Hashable {
    /// Calls answered from memory.
    public var memoryHits = 0
    /// Calls answered from disk.
    public var diskHits = 0
    /// Calls answered from the tiers of ``DataCache/Configuration/tiers``.
    public var sharedHits = 0
    /// Calls answered by the network.
    public var networkAnswers = 0
    /// Calls answered from the cache after the server had confirmed that the entry still holds.
    public var revalidatedAnswers = 0
    /// Calls answered from the cache although the entry was out of date.
    public var staleAnswers = 0
    /// Calls that failed, including cancelled ones.
    public var failures = 0
    /// Requests sent over the network, including retries and requests that follow redirects.
    public var networkRequests = 0
    /// Bytes of the bodies of complete answers from the network, after content decoding.
    public var networkBytes = 0

    /// Creates statistics in which every count is zero.
    public init() {}
}

final class StatisticsCounters: Sendable {
    let memoryHits = Atomic<Int>(0)
    let diskHits = Atomic<Int>(0)
    let sharedHits = Atomic<Int>(0)
    let networkAnswers = Atomic<Int>(0)
    let revalidatedAnswers = Atomic<Int>(0)
    let staleAnswers = Atomic<Int>(0)
    let failures = Atomic<Int>(0)
    let networkRequests = Atomic<Int>(0)
    let networkBytes = Atomic<Int>(0)

    @inline(__always)
    func answered(_ source: ResponseSource) {
        switch source {
        case .memory: memoryHits.add(1, ordering: .relaxed)
        case .disk: diskHits.add(1, ordering: .relaxed)
        case .shared: sharedHits.add(1, ordering: .relaxed)
        case .network: networkAnswers.add(1, ordering: .relaxed)
        case .revalidated: revalidatedAnswers.add(1, ordering: .relaxed)
        case .stale: staleAnswers.add(1, ordering: .relaxed)
        }
    }

    var snapshot: CacheStatistics {
        var statistics = CacheStatistics()
        statistics.memoryHits = memoryHits.load(ordering: .relaxed)
        statistics.diskHits = diskHits.load(ordering: .relaxed)
        statistics.sharedHits = sharedHits.load(ordering: .relaxed)
        statistics.networkAnswers = networkAnswers.load(ordering: .relaxed)
        statistics.revalidatedAnswers = revalidatedAnswers.load(ordering: .relaxed)
        statistics.staleAnswers = staleAnswers.load(ordering: .relaxed)
        statistics.failures = failures.load(ordering: .relaxed)
        statistics.networkRequests = networkRequests.load(ordering: .relaxed)
        statistics.networkBytes = networkBytes.load(ordering: .relaxed)
        return statistics
    }
}
