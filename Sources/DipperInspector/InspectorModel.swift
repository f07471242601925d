import DipperData
import Foundation
import Synchronization

/// The events of a cache as the inspector's pages show them: a value for each of the latest fetches, the latest answers,
/// and sums. Takes an event in constant time, and builds no text.
final class InspectorModel: EventSink {
    /// A part of a fetch's story: a look-up, an attempt, a decode, a step, a write.
    struct Piece {
        var name: String
        var start: Duration
        var end: Duration?
        var result = ""
        var metrics: [TransferMetrics] = []
    }

    struct Caller {
        let id: CacheEvent.ID
        let queue: FetchQueue
        let start: Duration
        var end: Duration?
        var result = ""
    }

    struct Record {
        let id: CacheEvent.ID
        var row: TimelineChart.Row
        /// The place of its latest change in the log of all changes.
        var version = 0
        var source: ResponseSource?
        var failure = ""
        var bytes = 0
        var callers: [Caller] = []
        var pieces: [Piece] = []
        var calls = 0
        /// The callers, pieces and spans that are not kept, because a fetch may have any number of them.
        var omitted = 0
        /// Whether the record ends before the fetch, because nobody listened.
        var isCut = false
    }

    /// How far a page has been told of the records.
    struct Cursor {
        fileprivate var place = -1
        /// The records that the page has still to be told, whether they change or not.
        fileprivate var rest = 0..<0
    }

    struct Ended {
        let number: UInt64
        let key: CacheKey
        /// `nil` for a call that began before events were recorded.
        let queue: FetchQueue?
        let time: Duration
        let duration: Duration?
        /// A source, or a failure.
        let result: String
        let isFailure: Bool
    }

    struct Sums {
        var stages: [String: Spread] = [:]
        var failures: [String: Int] = [:]
        var events = 0
        /// The decodes, processing steps and writes under way.
        var open: [String: Int] = [:]
    }

    /// The distribution of times, in buckets that are a twelfth apart, from a microsecond to an hour.
    struct Spread {
        private var counts = [Int](repeating: 0, count: 32 * 12)
        private(set) var count = 0

        mutating func add(_ time: Duration) {
            let microseconds = max(1, time / .microseconds(1))
            counts[min(counts.count - 1, Int(log2(microseconds) * 12))] += 1
            count += 1
        }

        /// In milliseconds.
        func quantile(_ part: Double) -> Double {
            var left = Int((Double(count) * part).rounded(.up))
            let index = counts.firstIndex { bucket in
                left -= bucket
                return left <= 0
            }
            return exp2((Double(index ?? 0) + 0.5) / 12) / 1_000
        }
    }

    struct State {
        fileprivate var records: [Record] = []
        /// Whether the cache has shut down.
        var isOver = false
        var ended: [Ended] = []
        var sums = Sums()
        /// The calls that the cache has answered without the network, of the latest keys.
        private var hits: (latest: [CacheKey: Int], earlier: [CacheKey: Int]) = ([:], [:])
        fileprivate var lastEnded: UInt64 = 0
        /// The number of the first of the records.
        fileprivate var first = 0
        /// The numbers of the records that have changed, in order, from the place `start` on.
        fileprivate var log: [Int] = []
        fileprivate var start = 0
        /// The fetches that have ended since ``InspectorModel/awaitFetches()``.
        fileprivate var lately: Set<CacheEvent.ID>?
        /// The fetches that were under way when recording began.
        fileprivate var reopened: [CacheKey: CacheEvent.ID] = [:]
        fileprivate var numbers: [CacheEvent.ID: Int] = [:]
        fileprivate var calls:
            [CacheEvent.ID: (key: CacheKey, queue: FetchQueue, start: Duration, fetch: CacheEvent.ID?)] = [:]
        fileprivate var pieces: [CacheEvent.ID: (fetch: CacheEvent.ID, index: Int, name: String, start: Duration)] = [:]
    }

    static let mostParts = 60
    static let mostSpans = 200
    private static let mostLogged = 1 << 15
    private static let mostEnded = 400
    fileprivate static let mostHit = 20_000
    private static let mostOpen = 100_000
    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = max(1, limit) }

    func withState<Result>(_ body: (inout State) -> Result) -> Result {
        state.withLock { state in body(&state) }
    }

    /// Forgets what belongs to work under way, because events may be missed from now on.
    func interrupt() {
        state.withLock { state in
            (state.calls, state.pieces, state.sums.open) = ([:], [:], [:])
            (state.lately, state.reopened) = (nil, [:])
            let time = state.records.reduce(.zero) { max($0, $1.row.end) }
            // By index, so that the records are not copied.
            for index in state.records.indices where state.records[index].row.isOpen {
                state.change(state.records[index].id) { record in
                    record.row.end(at: time)
                    record.isCut = true
                }
            }
        }
    }

    /// Prepares for ``reopen(_:)`` with a snapshot that is made after the first event.
    func awaitFetches() { state.withLock { $0.lately = [] } }

    /// Goes on with the fetches that were under way when recording began.
    func reopen(_ snapshot: QueueSnapshot) {
        state.withLock { state in
            let ended = state.lately.take() ?? []
            for fetch in snapshot.fetches where !ended.contains(fetch.id) { state.reopen(fetch, snapshot.time, limit) }
        }
    }

    func receive(_ event: CacheEvent) { state.withLock { $0.read(event, limit) } }

    func end() { state.withLock { $0.isOver = true } }
}

extension InspectorModel.State {
    typealias Record = InspectorModel.Record

    func record(of id: CacheEvent.ID) -> Record? { numbers[id].map { records[$0 - first] } }

    func hits(of key: CacheKey) -> Int { (hits.latest[key] ?? 0) + (hits.earlier[key] ?? 0) }

    private mutating func countHit(of key: CacheKey) {
        if hits.latest.count >= InspectorModel.mostHit { hits = ([:], hits.latest) }
        hits.latest[key, default: 0] += 1
    }

    fileprivate mutating func change(_ id: CacheEvent.ID?, _ body: (inout Record) -> Void) {
        guard let id, let number = numbers[id] else { return }
        body(&records[number - first])
        records[number - first].omitted += records[number - first].row.shorten(to: InspectorModel.mostSpans)
        note(number)
    }

    private mutating func note(_ number: Int) {
        if log.count >= InspectorModel.mostLogged {
            log.removeFirst(InspectorModel.mostLogged / 2)
            start += InspectorModel.mostLogged / 2
        }
        records[number - first].version = start + log.count
        log.append(number)
    }

    /// Returns some of the records that have changed since a page was told of them, in time by their number.
    func changes(since cursor: inout InspectorModel.Cursor, limit: Int) -> [Record] {
        let end = start + log.count
        if cursor.place < start { cursor = .init(place: end, rest: first..<first + records.count) }
        let rest = cursor.rest.clamped(to: first..<first + records.count).prefix(limit)
        var found = rest.map { records[$0 - first] }
        cursor.rest = max(cursor.rest.lowerBound, rest.endIndex)..<max(cursor.rest.upperBound, rest.endIndex)
        while found.count < limit, cursor.place < end {
            let number = log[cursor.place - start]
            // A record that has changed again comes later.
            if number >= first, records[number - first].version == cursor.place {
                found.append(records[number - first])
            }
            cursor.place += 1
        }
        return found
    }

    fileprivate mutating func reopen(_ fetch: FetchSnapshot, _ time: Duration, _ limit: Int) {
        let phase: TimelineChart.Phase =
            switch fetch.state {
            case .transferring: .transferring
            case .paused: .paused
            case .parked: .parked
            case .waiting, .decoding, .finished, .failed: fetch.wait == .lookUp ? .looking : .queued
            }
        if numbers[fetch.id] == nil { add(fetch.id, fetch.key, fetch.queue, time, limit) }
        reopened[fetch.key] = fetch.id
        change(fetch.id) { record in
            // Events since the snapshot know more than it.
            guard record.isCut || record.row.spans.count == 1 else { return }
            (record.row.isOpen, record.isCut) = (true, false)
            record.row.isPaused = phase == .paused
            record.row.enter(phase, fetch.queue, time)
        }
    }

    fileprivate mutating func read(_ event: CacheEvent, _ limit: Int) {
        sums.events += 1
        let (id, time) = (event.id, event.time)
        switch event.kind {
        case .callBegan(let queue):
            guard let id, calls.count < InspectorModel.mostOpen else { return }
            calls[id] = (event.key, queue, time, nil)
        case .callJoined(let fetch):
            guard let id else { return }
            calls[id]?.fetch = fetch
            guard let call = calls[id] else { return }
            change(fetch) { record in
                record.calls += 1
                guard record.callers.count < InspectorModel.mostParts else { return record.omitted += 1 }
                record.callers.append(.init(id: id, queue: call.queue, start: call.start))
            }
        case .callAnswered(let source): end(event, source.rawValue, isFailure: false, source)
        case .callFailed(let error):
            sums.failures[error.shortDescription, default: 0] += 1
            end(event, error.shortDescription, isFailure: true, nil)
        case .fetchBegan(let queue):
            if let id { add(id, event.key, queue, time, limit) }
        case .queued(let queue): change(id) { $0.row.enter(.queued, queue, time) }
        case .paused: change(id) { $0.row.setPaused(true, time) }
        case .resumed: change(id) { $0.row.setPaused(false, time) }
        case .parked: change(id) { $0.row.enter(.parked, $0.row.spans.last?.queue ?? .fast, time) }
        case .queueChanged(let queue):
            change(id) { record in
                guard let span = record.row.spans.last else { return }
                record.row.enter(span.phase, queue, time)
            }
        case .fetchEnded:
            change(id) { $0.row.end(at: time) }
            if let id { lately?.insert(id) }
        case .lookUpBegan(let queue):
            change(event.parent) { record in
                guard let phase = record.row.spans.last?.phase, phase == .queued else { return }
                record.row.enter(.looking, queue, time)
            }
            begin(event, "look-up", of: event.parent)
        case .lookUpEnded(let source): end(event, source?.rawValue ?? "not there")
        case .attemptBegan(let queue):
            change(event.parent) { $0.row.enter($0.row.isPaused ? .paused : .transferring, queue, time) }
            begin(event, "attempt", of: event.parent)
        case .requested: break
        case .received(let status, let bytes, let metrics): received(event, status, bytes, metrics)
        case .attemptEnded(.answered(let source)): end(event, source.rawValue)
        case .attemptEnded(.stopped): end(event, "stopped")
        case .attemptEnded(.failed(let error, let willRetry)):
            let text = error.shortDescription
            change(event.parent) { $0.failure = text }
            end(event, willRetry ? "\(text), tries again" : text)
        case .decodeBegan: begin(event, "decode", of: event.parent.flatMap { calls[$0]?.fetch })
        case .stepBegan(let name):
            begin(event, "step \(name.prefix(100))", of: event.parent.flatMap { calls[$0]?.fetch })
        case .decodeEnded(let error), .stepEnded(let error): end(event, error?.shortDescription ?? "done")
        case .writeBegan(let bytes):
            begin(event, "write of \(bytes) bytes", of: event.parent.flatMap { calls[$0]?.fetch } ?? event.parent)
        case .writeEnded(let isOnDisk): end(event, isOnDisk ? "on disk" : "not on disk")
        case .cleaned, .networkChanged, .memoryPressure, .missed: break
        }
    }

    private mutating func add(
        _ id: CacheEvent.ID, _ key: CacheKey, _ queue: FetchQueue, _ time: Duration, _ limit: Int
    ) {
        if records.count >= limit + limit / 8 + 1 {
            let leaving = records.count - limit
            for record in records[..<leaving] { numbers[record.id] = nil }
            records.removeFirst(leaving)
            first += leaving
        }
        let number = first + records.count
        numbers[id] = number
        let span = TimelineChart.Span(phase: .queued, queue: queue, start: time, end: time)
        let row = TimelineChart.Row(key: key, queue: queue, isOpen: true, spans: [span])
        records.append(Record(id: id, row: row))
        note(number)
    }

    private mutating func end(_ event: CacheEvent, _ result: String, isFailure: Bool, _ source: ResponseSource?) {
        let id = event.id
        let call = id.flatMap { calls.removeValue(forKey: $0) }
        // Of a call that began unheard, only the key tells the fetch.
        change(call == nil ? reopened[event.key] : call?.fetch) { record in
            if let source { record.source = source }
            if isFailure { record.failure = result }
            guard let index = record.callers.firstIndex(where: { $0.id == id }) else { return }
            (record.callers[index].end, record.callers[index].result) = (event.time, result)
        }
        if let source, source != .network, source != .provider { countHit(of: event.key) }
        let duration = call.map { event.time - $0.start }
        let stage = isFailure ? "failed call" : "call, \(result)"
        if let duration { sums.stages[stage, default: .init()].add(duration) }
        lastEnded += 1
        ended.append(
            .init(
                number: lastEnded, key: event.key, queue: call?.queue, time: event.time, duration: duration,
                result: result, isFailure: isFailure))
        if ended.count > 2 * InspectorModel.mostEnded { ended.removeFirst(InspectorModel.mostEnded) }
    }

    private mutating func begin(_ event: CacheEvent, _ name: String, of fetch: CacheEvent.ID?) {
        sums.open[Self.stage(name), default: 0] += 1
        guard let id = event.id, pieces.count < InspectorModel.mostOpen else { return }
        var index = -1
        change(fetch) { record in
            guard record.pieces.count < InspectorModel.mostParts else { return record.omitted += 1 }
            index = record.pieces.count
            record.pieces.append(.init(name: name, start: event.time))
        }
        pieces[id] = (fetch ?? id, index, Self.stage(name), event.time)
    }

    private mutating func end(_ event: CacheEvent, _ result: String) {
        guard let id = event.id, let piece = pieces.removeValue(forKey: id) else { return }
        sums.open[piece.name, default: 1] -= 1
        sums.stages[piece.name, default: .init()].add(event.time - piece.start)
        change(piece.fetch) { record in
            guard record.pieces.indices.contains(piece.index) else { return }
            (record.pieces[piece.index].end, record.pieces[piece.index].result) = (event.time, result)
        }
    }

    private mutating func received(_ event: CacheEvent, _ status: Int, _ bytes: Int, _ metrics: TransferMetrics) {
        let piece = event.id.flatMap { pieces[$0] }
        change(event.parent) { record in
            record.bytes = bytes
            guard let index = piece?.index, record.pieces.indices.contains(index) else { return }
            record.pieces[index].name = "attempt: status \(status), \(bytes) bytes"
            record.pieces[index].metrics.append(metrics)
        }
        // Times are since the begin of the request; zero for a stage that did not take place.
        let stages = [
            ("DNS", metrics.nameLookup), ("connect", metrics.connect - metrics.nameLookup),
            ("TLS", metrics.tls - metrics.connect),
            ("first byte", metrics.firstByte - max(metrics.nameLookup, metrics.connect, metrics.tls)),
            ("body", metrics.total - metrics.firstByte),
        ]
        for (name, time) in stages where time > .zero { sums.stages[name, default: .init()].add(time) }
    }

    private static func stage(_ name: String) -> String {
        String(name.prefix { $0 != " " && $0 != ":" })
    }
}
