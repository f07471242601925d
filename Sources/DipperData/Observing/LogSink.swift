import Logging

/// Each message in the log has its topic as `category` in the metadata.
struct LogSink: EventSink {
    let topics: CacheEvent.Topics
    private let logger: Logger
    private let redaction: Redaction

    init(_ logger: Logger, _ redaction: Redaction) {
        topics = Self.topics(logger.logLevel)
        self.logger = logger
        self.redaction = redaction
    }

    private static func topics(_ level: Logger.Level) -> CacheEvent.Topics {
        var topics: CacheEvent.Topics = []
        if level <= .info { topics.formUnion([.failures, .conditions]) }
        if level <= .debug { topics.formUnion(.requests) }
        if level <= .trace { topics.formUnion([.fetches, .lookUps, .attempts]) }
        return topics
    }

    func receive(_ event: CacheEvent) {
        // mutant SecretsIn: `{ "\(redaction.text(event.key))" }` => `{ "\(event.key.string)" }`
        let key: () -> Logger.MetadataValue = { "\(redaction.text(event.key))" }
        switch event.kind {
        case .requested:
            logger.category("requests").debug("request", metadata: ["key": key()])
        case .received(let status, let bytes, _):
            logger.category("responses").debug(
                "response", metadata: ["key": key(), "status": "\(status)", "bytes": "\(bytes)"])
        case .attemptEnded(.failed(let error, let willRetry)):
            logger.category("responses").info(
                "attempt failed", metadata: ["key": key(), "error": text(error), "retry": "\(willRetry)"])
        case .decodeEnded(let error?) where error.isOfBytes:
            logger.category("decoding").info("undecodable", metadata: ["key": key(), "error": text(error)])
        case .memoryPressure(let level):
            logger.category("memory").info("memory pressure", metadata: ["level": "\(level.rawValue)"])
        case .cleaned(let cleaning) where cleaning.reason == .memoryPressure:
            logger.category("memory").info(
                "let go of memory", metadata: ["entries": "\(cleaning.entries)", "bytes": "\(cleaning.bytes)"])
        case .fetchBegan, .queued, .paused, .resumed, .queueChanged, .parked, .fetchEnded, .lookUpBegan, .attemptBegan:
            logger.category("queues").trace("\(event.kind)", metadata: ["key": key()])
        case .callBegan, .callJoined, .callAnswered, .callFailed, .lookUpEnded, .attemptEnded, .decodeBegan,
            .decodeEnded, .stepBegan, .stepEnded, .writeBegan, .writeEnded, .cleaned, .networkChanged, .missed:
            break
        }
    }

    private func text(_ error: DipperError) -> Logger.MetadataValue { "\(redaction.sentence("\(error)"))" }
}
