import Metrics

/// The cache's metrics, reported by swift-metrics. Labels have few distinct values.
struct CacheMetrics: Sendable {
    private let label: String
    private let answers: [ResponseSource: Counter]
    private let requests: Counter
    private let bytes: Counter
    private let duration: Metrics.Timer
    private let firstByte: Metrics.Timer

    /// - Parameter cache: the cache's name, a dimension of each metric.
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
