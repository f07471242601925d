package import DipperData
package import DipperTesting
package import Logging

/// A record of a cache's events. It pairs the begins and ends of work.
package struct EventRecord: EventSink {
    package enum Work: String {
        case call, fetch, lookUp, attempt, decode, step, write
    }

    private let box = Box<[CacheEvent]>([])

    package init() {}

    package func receive(_ event: CacheEvent) { box.update { $0.append(event) } }

    package var events: [CacheEvent] { box.value }

    package func wait(until isRight: @escaping @Sendable ([CacheEvent]) -> Bool) async throws {
        try await box.wait { isRight($0) }
    }

    package var kinds: [CacheEvent.Kind] { events.map(\.kind) }

    /// Returns the kind of work that an event begins or ends, and which of the two; `nil` for other events.
    package static func edge(_ kind: CacheEvent.Kind) -> (work: Work, isBegin: Bool)? {
        switch kind {
        case .callBegan: (.call, true)
        case .callAnswered, .callFailed: (.call, false)
        case .fetchBegan: (.fetch, true)
        case .fetchEnded: (.fetch, false)
        case .lookUpBegan: (.lookUp, true)
        case .lookUpEnded: (.lookUp, false)
        case .attemptBegan: (.attempt, true)
        case .attemptEnded: (.attempt, false)
        case .decodeBegan: (.decode, true)
        case .decodeEnded: (.decode, false)
        case .stepBegan: (.step, true)
        case .stepEnded: (.step, false)
        case .writeBegan: (.write, true)
        case .writeEnded: (.write, false)
        case .callJoined, .queued, .paused, .resumed, .queueChanged, .parked, .requested, .received,
            .cleaned, .networkChanged, .memoryPressure, .missed:
            nil
        }
    }

    package func begins(_ work: Work) -> [CacheEvent] {
        events.filter { Self.edge($0.kind).map { $0.work == work && $0.isBegin } ?? false }
    }

    package func ends(_ work: Work) -> [CacheEvent.Kind] {
        kinds.filter { Self.edge($0).map { $0.work == work && !$0.isBegin } ?? false }
    }

    /// The work that did not begin once and then end once, with one key and one parent.
    package var unpaired: [String] {
        var open: [CacheEvent.ID: CacheEvent] = [:]
        var seen: Set<CacheEvent.ID> = []
        var problems: [String] = []
        for event in events {
            guard let edge = Self.edge(event.kind) else { continue }
            guard let id = event.id else {
                problems.append("no identifier: \(event)")
                continue
            }
            if edge.isBegin {
                if !seen.insert(id).inserted { problems.append("begins twice: \(event)") }
                open[id] = event
            } else if let begin = open.removeValue(forKey: id) {
                let isSame = begin.key == event.key && begin.parent == event.parent
                if Self.edge(begin.kind)?.work != edge.work || !isSame { problems.append("\(begin) ends as \(event)") }
            } else {
                problems.append("ends without a begin: \(event)")
            }
        }
        return problems + open.values.map { "does not end: \($0)" }
    }
}

extension [CacheEvent] {
    package var cleanings: [CacheEvent.Cleaning] {
        compactMap { if case .cleaned(let cleaning) = $0.kind { cleaning } else { nil } }
    }
}

package struct Observer: EventSink {
    package let topics: CacheEvent.Topics
    private let hear: @Sendable (CacheEvent) -> Void

    package init(_ topics: CacheEvent.Topics = .all, _ hear: @escaping @Sendable (CacheEvent) -> Void) {
        self.topics = topics
        self.hear = hear
    }

    package func receive(_ event: CacheEvent) { hear(event) }
}

extension DataCache.Configuration {
    package mutating func observe(_ hear: @escaping @Sendable (CacheEvent) -> Void) {
        eventSinks.append(Observer(.all, hear))
    }
}

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
