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
    /// Calls answered by providers: files, text, memory and code of the program.
    public var providerAnswers = 0
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

/// The counts of ``CacheStatistics`` and of swift-metrics. Labels of metrics have few distinct values.
final class CacheCounts: Sendable {
    private final class Count: Sendable {
        private let total = Atomic<Int>(0)
        private let metric: Counter

        init(_ metric: Counter) { self.metric = metric }

        var value: Int { total.load(ordering: .relaxed) }

        func increment() {
            total.add(1, ordering: .relaxed)
            metric.increment()
        }
    }

    private let cache: String
    private let answers: [ResponseSource: Count]
    private let requests: Count
    private let failures = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let receivedBytes: Counter
    private let duration: Metrics.Timer
    private let firstByte: Metrics.Timer

    init(cache: String) {
        self.cache = cache
        answers = Dictionary(
            uniqueKeysWithValues: ResponseSource.allCases.map { source in
                let dimensions = [("cache", cache), ("source", source.rawValue)]
                return (source, Count(Counter(label: "dipper_answers", dimensions: dimensions)))
            })
        requests = Count(Counter(label: "dipper_network_requests", dimensions: [("cache", cache)]))
        receivedBytes = Counter(label: "dipper_network_bytes", dimensions: [("cache", cache)])
        duration = Metrics.Timer(label: "dipper_transfer_duration", dimensions: [("cache", cache)])
        firstByte = Metrics.Timer(label: "dipper_transfer_first_byte", dimensions: [("cache", cache)])
    }

    @inline(__always)
    func answered(_ source: ResponseSource) { answers[source]?.increment() }

    func failed(_ error: DipperError) {
        failures.add(1, ordering: .relaxed)
        Counter(label: "dipper_failures", dimensions: [("cache", cache), ("reason", error.shortDescription)])
            .increment()
    }

    func pressed(_ level: MemoryPressure) {
        Counter(label: "dipper_memory_pressure", dimensions: [("cache", cache), ("level", level.rawValue)]).increment()
    }

    func requested() { requests.increment() }

    func received(_ response: TransferResponse) {
        bodyBytes.add(response.body.count, ordering: .relaxed)
        receivedBytes.increment(by: response.metrics.bytesReceived)
        duration.recordNanoseconds(response.metrics.total.nanoseconds)
        firstByte.recordNanoseconds(response.metrics.firstByte.nanoseconds)
    }

    var statistics: CacheStatistics {
        var statistics = CacheStatistics()
        statistics.memoryHits = count(.memory)
        statistics.diskHits = count(.disk)
        statistics.sharedHits = count(.shared)
        statistics.networkAnswers = count(.network)
        statistics.providerAnswers = count(.provider)
        statistics.revalidatedAnswers = count(.revalidated)
        statistics.staleAnswers = count(.stale)
        statistics.failures = failures.load(ordering: .relaxed)
        statistics.networkRequests = requests.value
        statistics.networkBytes = bodyBytes.load(ordering: .relaxed)
        return statistics
    }

    private func count(_ source: ResponseSource) -> Int { answers[source]?.value ?? 0 }
}
