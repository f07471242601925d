import Metrics
import Synchronization

/// The numbers of a cache's answers, failures, requests and bytes since the cache was created.
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

/// The cache's metrics, reported by swift-metrics. Labels have few distinct values.
struct CacheMetrics: Sendable {
    private let label: String
    private let answers: [ResponseSource: Counter]
    private let requests: Counter
    private let bytes: Counter
    private let duration: Metrics.Timer
    private let firstByte: Metrics.Timer

    init(cache: String) {
        label = cache
        answers = Dictionary(
            uniqueKeysWithValues: ResponseSource.allCases.map {
                ($0, Counter(label: "dipper_answers", dimensions: [("cache", cache), ("source", $0.rawValue)]))
            })
        requests = Counter(label: "dipper_network_requests", dimensions: [("cache", cache)])
        bytes = Counter(label: "dipper_network_bytes", dimensions: [("cache", cache)])
        duration = Metrics.Timer(label: "dipper_transfer_duration", dimensions: [("cache", cache)])
        firstByte = Metrics.Timer(label: "dipper_transfer_first_byte", dimensions: [("cache", cache)])
    }

    func answered(_ source: ResponseSource) { answers[source]?.increment() }

    func failed(_ error: DipperError) {
        Counter(label: "dipper_failures", dimensions: [("cache", label), ("reason", error.shortDescription)])
            .increment()
    }

    func pressed(_ level: MemoryPressure) {
        Counter(label: "dipper_memory_pressure", dimensions: [("cache", label), ("level", level.rawValue)]).increment()
    }

    func requested() { requests.increment() }

    func transferred(_ metrics: TransferMetrics) {
        bytes.increment(by: metrics.bytesReceived)
        duration.recordNanoseconds(metrics.total.nanoseconds)
        firstByte.recordNanoseconds(metrics.firstByte.nanoseconds)
    }
}
