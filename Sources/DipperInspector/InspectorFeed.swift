import Dipper
import DipperData
import Foundation

/// The live part of a page: at most ten messages a second, each with all that has changed since the last one.
extension Inspector {
    private struct Cursor {
        var records = InspectorModel.Cursor()
        var ended: UInt64 = 0
        var events = -1
        var wasBusy = true
        var conditions = ContinuousClock.now - .seconds(10)
        var beat = ContinuousClock.now
        /// When the fetches under way were told last, and their names.
        var fetches = ContinuousClock.now - .seconds(10)
        var names: [CacheEvent.ID: JSONText] = [:]
    }

    private static let mostRows = 1_000

    /// Returns when the page has gone, or when the server stops.
    func tell(_ connection: InspectorServer.Connection, _ server: InspectorServer) {
        let run = pageOpened()
        defer { pageClosed(run) }
        var cursor = Cursor()
        repeat {
            if model.withState(\.isOver) {
                connection.tell("data: {\"over\":true}")
                return
            }
            let message = changes(&cursor)
            if !message.isEmpty {
                guard connection.tell("data: \(message)") else { return }
                cursor.beat = .now
            } else if .now - cursor.beat > .seconds(10) {
                guard connection.tell(": still here") else { return }
                cursor.beat = .now
            }
        } while !server.isStopped && connection.wait(100)
    }

    private func changes(_ cursor: inout Cursor) -> String {
        let isDue = .now - cursor.conditions >= .seconds(1)
        let (rows, ended, sums, events) = model.withState { state in
            // The first message is short, so that a page shows at once what goes on.
            let rows = cursor.events < 0 ? [] : state.changes(since: &cursor.records, limit: Self.mostRows)
            let ended = state.ended.suffix(100).filter { $0.number > cursor.ended }
            return (rows, ended, isDue ? state.sums : nil, state.sums.events)
        }
        cursor.ended = ended.last?.number ?? cursor.ended
        let isChanged = events != cursor.events
        guard isChanged || isDue || cursor.wasBusy || !rows.isEmpty else { return "" }
        // Rows may follow one another sooner than whole pictures of the queues.
        let isShort = .now - cursor.fetches < .milliseconds(190)
        let snapshot = cache.queueSnapshot(limit: isShort ? 0 : 50)
        var message = ["t": JSONText.milliseconds(snapshot.time)]
        if !isShort {
            cursor.fetches = .now
            cursor.events = events
            cursor.wasBusy = !snapshot.fetches.isEmpty
            message["now"] = now(snapshot, &cursor.names)
        }
        if !rows.isEmpty { message["rows"] = .array(rows.map(row)) }
        if !ended.isEmpty { message["ended"] = .array(ended.map(answer)) }
        if isDue {
            cursor.conditions = .now
            message["cache"] = conditions()
            if let sums { message["sums"] = self.sums(sums) }
        }
        return JSONText.object(message).text
    }

    private func shown(_ key: CacheKey) -> JSONText {
        let text = cache.redaction.text(key)
        return .text(text.utf8.count <= 400 ? text : "\(text.prefix(280))…\(text.suffix(80))")
    }

    private func now(_ snapshot: QueueSnapshot, _ names: inout [CacheEvent.ID: JSONText]) -> JSONText {
        let (counts, known) = (snapshot.counts, names)
        names = [:]
        let fetches = snapshot.fetches.map { fetch in
            let name = known[fetch.id] ?? shown(fetch.key)
            names[fetch.id] = name
            return JSONText.object([
                "i": .number(Int(fetch.id.number)), "k": name, "q": .text(fetch.queue.rawValue),
                "s": .text("\(fetch.state)"), "w": .text(fetch.wait?.description ?? ""), "c": .number(fetch.callers),
                "a": .number(fetch.attempts), "r": .number(fetch.progress?.received ?? 0),
                "x": fetch.progress?.expected.map(JSONText.number) ?? .null,
                "f": .text(fetch.failure?.shortDescription ?? ""), "p": .number(Int(fetch.priority.value * 100)),
            ])
        }
        return .object([
            "fetches": .array(fetches), "flight": .number(snapshot.bytesInFlight),
            "counts": .array(
                [counts.fastRunning, counts.fastWaiting, counts.slowRunning, counts.slowWaiting, counts.parked]
                    .map(JSONText.number)),
        ])
    }

    private func row(_ record: InspectorModel.Record) -> JSONText {
        let spans = record.row.spans.flatMap { span in
            [
                JSONText.number(TimelineChart.Phase.allCases.firstIndex(of: span.phase) ?? 0),
                .number(span.queue == .fast ? 0 : 1), .milliseconds(span.start),
            ]
        }
        return .object([
            "i": .number(Int(record.id.number)), "k": shown(record.row.key), "s": .array(spans),
            "e": record.row.isOpen ? .null : .milliseconds(record.row.end), "o": .text(record.source?.rawValue ?? ""),
            "f": .text(record.failure), "n": .number(record.bytes), "c": .number(record.calls),
            "l": .flag(record.isCut),
        ])
    }

    private func answer(_ ended: InspectorModel.Ended) -> JSONText {
        .array([
            .number(Int(ended.number)), shown(ended.key), .text(ended.queue?.rawValue ?? ""), .milliseconds(ended.time),
            ended.duration.map(JSONText.milliseconds) ?? .null, .text(ended.result), .flag(ended.isFailure),
        ])
    }

    private func conditions() -> JSONText {
        let statistics = cache.statistics
        let (size, count) = (cache.diskSize, cache.diskCount)
        func queue(_ queue: QueueConfiguration) -> JSONText {
            .object([
                "width": .number(queue.maxConcurrent), "host": queue.maxPerHost.map(JSONText.number) ?? .null,
                "suspended": .flag(queue.isSuspended), "order": .text("\(queue.order)"),
            ])
        }
        func number(_ value: Int?) -> JSONText { value.map(JSONText.number) ?? .null }
        let network = cache.networkConditions
        return .object([
            "fast": queue(cache.fastQueue), "slow": queue(cache.slowQueue),
            "network": .text(cache.simulatedNetwork?.rawValue ?? ""), "constrained": .flag(network.isConstrained),
            "expensive": .flag(network.isExpensive),
            "pressure": .text(cache.memoryPressure.rawValue),
            "simulatedPressure": .text(cache.simulatedMemoryPressure?.rawValue ?? ""),
            "memory": .array([.number(cache.memorySize), .number(cache.memoryCount), .number(cache.memoryLimit)]),
            "pictures": images.map { .array([$0.memorySize, $0.memoryCount, $0.memoryLimit].map(JSONText.number)) }
                ?? .null,
            "disk": .array([.number(size), .number(count), number(cache.diskLimit)]),
            "flightLimit": .number(cache.inFlightLimit),
            "hits": .array(
                [
                    statistics.memoryHits, statistics.diskHits, statistics.sharedHits, statistics.revalidatedAnswers,
                    statistics.staleAnswers, statistics.networkAnswers, statistics.providerAnswers, statistics.failures,
                ].map(JSONText.number)),
            "requests": .number(statistics.networkRequests), "bytes": .number(statistics.networkBytes),
        ])
    }

    private func sums(_ sums: InspectorModel.Sums) -> JSONText {
        .object([
            "stages": .object(
                sums.stages.mapValues { spread in
                    .array([.number(spread.count)] + [0.5, 0.95, 0.99].map { .decimal(spread.quantile($0)) })
                }),
            "failures": .object(sums.failures.mapValues(JSONText.number)),
            "open": .object(sums.open.mapValues(JSONText.number)), "events": .number(sums.events),
        ])
    }

    /// The story of a fetch: its callers, and each piece of its work.
    func fetch(_ query: [String: String]) -> Answer {
        let id = query["id"].flatMap { UInt64($0) }.map(CacheEvent.ID.init)
        guard let record = id.flatMap({ id in model.withState { $0.record(of: id) } }) else {
            return .failure(status: 404, "The fetch is not among the latest ones any more.")
        }
        func end(_ end: Duration?) -> JSONText { end.map(JSONText.milliseconds) ?? .null }
        let callers = record.callers.map { caller in
            JSONText.object([
                "i": .number(Int(caller.id.number)), "q": .text(caller.queue.rawValue),
                "b": .milliseconds(caller.start),
                "e": end(caller.end), "r": .text(caller.result),
            ])
        }
        let pieces = record.pieces.map { piece in
            let metrics = piece.metrics.map { metrics in
                JSONText.object([
                    "dns": .milliseconds(metrics.nameLookup), "connect": .milliseconds(metrics.connect),
                    "tls": .milliseconds(metrics.tls), "first": .milliseconds(metrics.firstByte),
                    "total": .milliseconds(metrics.total), "bytes": .number(metrics.bytesReceived),
                    "version": .text(metrics.httpVersion), "reused": .flag(metrics.reusedConnection),
                ])
            }
            return JSONText.object([
                "n": .text(piece.name), "b": .milliseconds(piece.start), "e": end(piece.end), "r": .text(piece.result),
                "m": .array(metrics),
            ])
        }
        let answer = JSONText.object([
            "row": row(record), "callers": .array(callers), "pieces": .array(pieces),
            "omitted": .number(record.omitted),
            "key": .text(desk.name(of: record.row.key)),
        ])
        return .bytes(Data(answer.text.utf8), type: "application/json")
    }
}

/// A value of JSON (RFC 8259), with the characters escaped that end a script or a line.
enum JSONText {
    case null
    case flag(Bool)
    case number(Int)
    case decimal(Double)
    case text(String)
    case array([JSONText])
    case object([String: JSONText])

    /// With a tenth of a millisecond.
    static func milliseconds(_ time: Duration) -> JSONText { .decimal(time / .milliseconds(1)) }
    static func seconds(_ time: TimeInterval) -> JSONText { .decimal(time) }

    var text: String {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    private func append(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += "null".utf8
        case .flag(let flag): bytes += (flag ? "true" : "false").utf8
        case .number(let number): bytes += "\(number)".utf8
        case .decimal(let value):
            let tenths = value.isFinite ? Int(min(max(value * 10, -1e15), 1e15).rounded()) : 0
            bytes += "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10)".utf8
            if tenths % 10 != 0 { bytes += ".\(abs(tenths) % 10)".utf8 }
        case .text(let text): Self.append(text, to: &bytes)
        case .array(let values):
            bytes.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                value.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let fields):
            bytes.append(UInt8(ascii: "{"))
            for (index, field) in fields.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                Self.append(field.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                field.value.append(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0..<0x20, UInt8(ascii: "<"), UInt8(ascii: "&"), 0x7F:
                bytes += "\\u00\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
