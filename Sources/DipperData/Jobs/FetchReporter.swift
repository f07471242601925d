import Logging

/// The reporter of the engine's work to logs, metrics, counters and the observer.
struct FetchReporter: Sendable {
    let statistics = StatisticsCounters()
    let metrics: CacheMetrics
    let requests: Logger
    let responses: Logger
    let queues: Logger
    let memory: Logger
    let redaction: Redaction
    let time: TimeSource
    let start: Duration
    let observer: (@Sendable (CacheEvent) -> Void)?

    init(
        name: String, logger: Logger, redaction: Redaction, time: TimeSource,
        observer: (@Sendable (CacheEvent) -> Void)?
    ) {
        metrics = CacheMetrics(cache: name)
        requests = logger.category("requests")
        responses = logger.category("responses")
        queues = logger.category("queues")
        memory = logger.category("memory")
        self.redaction = redaction
        self.time = time
        start = time.now()
        self.observer = observer
    }

    /// Whether the observer or a log hears of each step of a job.
    var wantsNotes: Bool { observer != nil || queues.logLevel <= .trace }

    func asked(_ key: CacheKey, _ queue: FetchQueue) {
        observe(key, .asked(queue))
    }

    func memoryHit(_ key: CacheKey) {
        statistics.memoryHits.add(1, ordering: .relaxed)
        metrics.answered(.memory)
        observe(key, .memoryHit)
    }

    func requested(_ key: CacheKey) {
        statistics.networkRequests.add(1, ordering: .relaxed)
        metrics.requested()
        requests.debug("request", metadata: ["key": "\(redaction.text(key))"])
    }

    func received(_ response: TransferResponse, _ key: CacheKey) {
        statistics.networkBytes.add(response.body.count, ordering: .relaxed)
        metrics.transferred(response.metrics)
        responses.debug(
            "response",
            metadata: [
                "key": "\(redaction.text(key))", "status": "\(response.status)", "bytes": "\(response.body.count)",
            ])
    }

    func failedAttempt(_ key: CacheKey, _ error: DipperError, willRetry: Bool) {
        responses.info(
            "attempt failed",
            metadata: [
                "key": "\(redaction.text(key))", "error": "\(redaction.sentence("\(error)"))",
                "retry": "\(willRetry)",
            ])
    }

    func ended(_ key: CacheKey, _ result: Result<DataResponse, DipperError>) {
        switch result {
        case .success(let response):
            switch response.source {
            case .memory: statistics.memoryHits.add(1, ordering: .relaxed)
            case .disk: statistics.diskHits.add(1, ordering: .relaxed)
            case .network: statistics.networkAnswers.add(1, ordering: .relaxed)
            case .revalidated: statistics.revalidatedAnswers.add(1, ordering: .relaxed)
            case .stale: statistics.staleAnswers.add(1, ordering: .relaxed)
            }
            metrics.answered(response.source)
            observe(key, .answered(response.source))
        case .failure(let error):
            statistics.failures.add(1, ordering: .relaxed)
            metrics.failed(error)
            observe(key, .failed(error))
        }
    }

    func note(_ key: CacheKey, _ note: JobNote) {
        queues.trace("\(note)", metadata: ["key": "\(redaction.text(key))"])
        let kind: CacheEvent.Kind =
            switch note {
            case .queued(let queue): .queued(queue)
            case .looking(let queue): .looking(queue)
            case .transferring(let queue): .transferring(queue)
            case .paused: .paused
            case .resumed: .resumed
            case .queueChanged(let queue): .queueChanged(queue)
            case .parked: .parked
            case .ended: .ended
            }
        observe(key, kind)
    }

    func cleaned(_ cleaning: CacheEvent.Cleaning) {
        if cleaning.reason == .memoryPressure {
            memory.info(
                "let go of memory", metadata: ["entries": "\(cleaning.entries)", "bytes": "\(cleaning.bytes)"])
        }
        guard observer != nil else { return }
        observe(CacheKey(""), .cleaned(cleaning))
    }

    func pressed(_ level: MemoryPressure) {
        metrics.pressed(level)
        memory.info("memory pressure", metadata: ["level": "\(level.rawValue)"])
    }

    private func observe(_ key: CacheKey, _ kind: CacheEvent.Kind) {
        observer?(CacheEvent(time: time.now() - start, key: key, kind: kind))
    }
}
