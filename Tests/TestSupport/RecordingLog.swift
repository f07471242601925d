package import Logging

extension Logger {
    /// A logger of every level that hands each event and the metadata of the logger to a closure.
    package static func recording(_ hear: @escaping @Sendable (LogEvent, Logger.Metadata) -> Void) -> Logger {
        Logger(label: "test") { _ in RecordingLog(hear: hear) }
    }

    /// A logger of every level that hands each event to a closure as one line: level, message and all metadata.
    package static func recording(lines hear: @escaping @Sendable (String) -> Void) -> Logger {
        recording { event, metadata in hear("\(event.level) \(event.message) \(metadata) \(event.metadata ?? [:])") }
    }
}

private struct RecordingLog: LogHandler {
    let hear: @Sendable (LogEvent, Logger.Metadata) -> Void
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    init(hear: @escaping @Sendable (LogEvent, Logger.Metadata) -> Void) {
        self.hear = hear
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { hear(event, metadata) }
}
