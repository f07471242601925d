import Dipper
import DipperData
import Foundation
import Synchronization

/// The names by which pages speak of entries, which hold no secret: the digests of keys that a page has been shown.
final class InspectorDesk: Sendable {
    private let keys = Mutex((latest: [String: CacheKey](), earlier: [String: CacheKey]()))
    private static let most = 20_000
    /// One list at a time is read, so that at most one of the connections to the index is not there for the program.
    let listing = DispatchSemaphore(value: 1)
    /// Two bodies at a time are in memory for pages.
    let reading = DispatchSemaphore(value: 2)

    /// A turn of a semaphore, until it is released.
    final class Turn: Sendable {
        private let semaphore: DispatchSemaphore

        init?(_ semaphore: DispatchSemaphore) {
            self.semaphore = semaphore
            if semaphore.wait(timeout: .now() + 20) == .timedOut { return nil }
        }

        deinit { semaphore.signal() }
    }

    func name(of key: CacheKey) -> String {
        let name = key.digest
        keys.withLock { keys in
            if keys.latest.count >= Self.most { keys = ([:], keys.latest) }
            keys.latest[name] = key
        }
        return name
    }

    func key(named name: String) -> CacheKey? { keys.withLock { $0.latest[name] ?? $0.earlier[name] } }
}

/// The answers to the requests of a page.
extension Inspector {
    typealias Answer = InspectorServer.Answer

    func answer(_ request: InspectorServer.Request, _ server: InspectorServer) -> Answer {
        switch (request.method, request.name) {
        case ("POST", let name) where options.isReadOnly && !name.isEmpty:
            .failure(status: 403, "The page can change nothing.")
        case ("POST", "control"): control(request.query)
        case ("POST", "entry"): change(request.query)
        case ("POST", _): .failure(status: 404, "There is nothing of this name.")
        case (_, ""): page()
        case (_, "icon.svg"): .bytes(Data(InspectorPage.icon.utf8), type: "image/svg+xml")
        case (_, "events"): .events { [self] connection in tell(connection, server) }
        case (_, "fetch"): fetch(request.query)
        case (_, "entries"): entries(request)
        case (_, "entry"): entry(request.query)
        case (_, "thumbnail"): withBody(request, upTo: 32 << 20) { _, data, _ in self.thumbnail(data) }
        case (_, "body") where options.isReadOnly: .failure(status: 403, "The page can open nothing.")
        case (_, "body"): withBody(request, upTo: 256 << 20) { self.body($0, $1, $2) }
        default: .failure(status: 404, "There is nothing of this name.")
        }
    }

    private func page() -> Answer {
        var generator = SystemRandomNumberGenerator()
        let nonce = (0..<2).map { _ in String(generator.next(), radix: 36) }.joined()
        let policy = """
            default-src 'none'; script-src 'nonce-\(nonce)'; style-src 'nonce-\(nonce)'; img-src 'self'; \
            connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
            """
        let page = InspectorPage.html(nonce: nonce, name: cacheName, isReadOnly: options.isReadOnly)
        return .bytes(
            Data(page.utf8), type: "text/html; charset=utf-8", fields: [("Content-Security-Policy", policy)])
    }

    private var cacheName: String { images == nil ? "data cache" : "image cache" }

    private func json(_ text: String) -> Answer { .bytes(Data(text.utf8), type: "application/json") }

    // MARK: Entries

    private static let busy = Answer.failure(status: 503, "The inspector is busy.")

    private func entries(_ request: InspectorServer.Request) -> Answer {
        // A page that has asked for something else meanwhile has closed the connection.
        guard let turn = InspectorDesk.Turn(desk.listing), request.isWanted else { return Self.busy }
        defer { withExtendedLifetime(turn) {} }
        let query = request.query
        var wanted = EntryQuery()
        wanted.text = String((query["search"] ?? "").prefix(200))
        wanted.order = query["order"].flatMap(EntryQuery.Order.init) ?? .used
        wanted.isAscending = query["up"] == "1"
        wanted.offset = min(max(0, query["offset"].flatMap { Int($0) } ?? 0), 1 << 40)
        wanted.limit = min(max(1, query["limit"].flatMap { Int($0) } ?? 50), 200)
        let (found, total) = cache.listEntries(wanted)
        let now = cache.present
        let hits = model.withState { state in found.map { state.hits(of: $0.entry.key) } }
        let rows = zip(found, hits).map { listed, hits in
            let (entry, answer) = (listed.entry, listed.answer)
            let address = entry.url.isEmpty ? cache.redaction.text(entry.key) : cache.redaction.text(entry.url)
            let tiers = (answer?.source == .memory ? 2 : 1) | (cache.hasData(for: entry.key, in: .memory) ? 2 : 0)
            return JSONText.object([
                "i": .text(desk.name(of: entry.key)), "u": .text(Self.shortened(address)), "n": .number(entry.size),
                "stored": .seconds(now.timeIntervalSince(entry.stored)),
                "used": .seconds(now.timeIntervalSince(entry.accessed)),
                "expires": entry.expires.map { .seconds($0.timeIntervalSince(now)) } ?? .null,
                "fresh": answer.map { freshness($0, now) } ?? .null,
                "type": .text(answer?.headers["Content-Type"] ?? ""),
                "status": .number(answer?.status ?? 0), "tiers": .number(tiers), "hits": .number(hits),
                "made": .flag(entry.key.isDerived), "plain": .flag(isPlain(entry)),
            ])
        }
        return json(JSONText.object(["total": .number(total), "rows": .array(rows)]).text)
    }

    private static func shortened(_ text: String) -> String {
        text.utf8.count <= 600 ? text : "\(text.prefix(400))…\(text.suffix(100))"
    }

    private func freshness(_ answer: DataResponse, _ now: Date) -> JSONText {
        guard let until = answer.freshUntil else { return .text("always") }
        return until == .distantPast ? .text("ask") : .seconds(until.timeIntervalSince(now))
    }

    /// Whether the URL alone names the entry, so that it can be asked for again.
    private func isPlain(_ entry: CachedEntry) -> Bool {
        URL(string: entry.key.string).map {
            ["http", "https"].contains($0.scheme?.lowercased()) && CacheKey($0) == entry.key
        } ?? false
    }

    private static let gone = Answer.failure(status: 404, "The entry is not there any more.")

    /// Reads an entry that is not too large, when few others are being read.
    private func withBody(
        _ request: InspectorServer.Request, upTo limit: Int, _ body: (CacheKey, Data, InspectorDesk.Turn) -> Answer
    ) -> Answer {
        guard let key = request.query["key"].flatMap(desk.key), let size = cache.summary(of: key)?.size else {
            return Self.gone
        }
        guard size <= limit else { return .failure(status: 413, "The entry is too large.") }
        guard let turn = InspectorDesk.Turn(desk.reading), request.isWanted else { return Self.busy }
        return cache.readResponse(for: key).map { body(key, $0.data, turn) } ?? Self.gone
    }

    private func entry(_ query: [String: String]) -> Answer {
        guard let key = query["key"].flatMap(desk.key), let found = cache.summary(of: key) else { return Self.gone }
        let fields = (found.answer?.headers.fields.prefix(100) ?? []).map { field in
            let isShown = ReadableFields.names.contains(field.name.lowercased())
            return JSONText.array([.text(field.name), .text(isShown ? Self.shortened(field.value) : Redaction.mark)])
        }
        return json(
            JSONText.object([
                "status": .number(found.answer?.status ?? 0), "bytes": .number(found.size), "fields": .array(fields),
                "fresh": found.answer.map { freshness($0, cache.present) } ?? .null,
            ]).text)
    }

    /// A small picture that is made anew from the entry's pixels: no byte of the entry reaches the page.
    private func thumbnail(_ data: Data) -> Answer {
        do throws(DipperError) {
            var wanted = cache.decodeOptions
            wanted.target = TargetSize(width: 96, height: 96)
            wanted.firstFrameOnly = true
            (wanted.limits.pixels, wanted.limits.bytes) = (1 << 26, 1 << 28)
            let image = try CodecRegistry.standard.decode(data, wanted)
            return .bytes(try image.encoded(as: .png), type: "image/png")
        } catch {
            return .failure(status: 404, "The entry is no picture.")
        }
    }

    private func body(_ key: CacheKey, _ data: Data, _ turn: InspectorDesk.Turn) -> Answer {
        // The lines after the first one hold digests of header fields and users.
        let address = String(decoding: key.string.utf8.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let last = URL(string: address)?.lastPathComponent ?? ""
        let name = last.filter { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }.suffix(80)
        let disposition = "attachment; filename=\"\(name.isEmpty || name.first == "." ? "entry-\(name)" : name)\""
        return .bytes(
            data, type: "application/octet-stream", fields: [("Content-Disposition", disposition)], turn: turn)
    }

    private func change(_ query: [String: String]) -> Answer {
        guard let key = query["key"].flatMap(desk.key) else { return Self.gone }
        switch query["do"] {
        case "remove":
            cache.removeData(for: key)
            cache.removeDerived(of: key)
            images?.removeImage(for: key)
        case "revalidate":
            guard let url = URL(string: key.string), CacheKey(url) == key else {
                return .failure(status: 409, "Only the program can ask for this entry again.")
            }
            cache.getData(DataRequest(url).with(\.headers, ["Cache-Control": "no-cache"]))
        default: return .failure(status: 404, "There is nothing of this name.")
        }
        return json("{}")
    }

    // MARK: Controls

    private func control(_ query: [String: String]) -> Answer {
        // What is missing or makes no sense changes nothing: 0 would remove everything.
        let value = query["value"]
        let number = value.flatMap { Int($0) }.flatMap { (0...1 << 50).contains($0) ? $0 : nil }
        let queues: [String: ReferenceWritableKeyPath<DataCache, QueueConfiguration>] = [
            "fast": \.fastQueue, "slow": \.slowQueue,
        ]
        let queue = query["queue"].flatMap { queues[$0] }
        let (network, pressure) = (value.flatMap(SimulatedNetwork.init), value.flatMap(MemoryPressure.init))
        switch (query["do"] ?? "", queue, number) {
        case ("suspend", let queue?, let number?) where number <= 1: cache[keyPath: queue].isSuspended = number == 1
        case ("width", let queue?, let number?) where (1...1_000).contains(number):
            cache[keyPath: queue].maxConcurrent = number
        case ("network", _, _) where network != nil || value == "": simulate(network: network)
        case ("pressure", _, _) where pressure != nil || value == "": simulate(pressure: pressure)
        case ("clear", _, _):
            if let images { images.clear() } else { cache.clear() }
        case ("clearMemory", _, _):
            if let images { images.clearMemory() } else { cache.clearMemory() }
        case ("trim", _, let number?): cache.trimDisk(to: number)
        case ("flush", _, let number?): cache.flush(olderThan: .seconds(number))
        case ("cancel", _, _): if let images { images.cancelAll() } else { cache.cancelAll() }
        case (let name, _, _) where ["suspend", "width", "network", "pressure", "trim", "flush"].contains(name):
            return .failure(status: 400, "The value is missing or makes no sense.")
        default: return .failure(status: 404, "There is nothing of this name.")
        }
        return json("{}")
    }
}

/// The header fields of answers that describe the body or how it may be kept. They hold no secrets.
package enum ReadableFields {
    package static func shown(_ name: String, _ value: String) -> String {
        names.contains(name.lowercased()) ? value : Redaction.mark
    }

    static let names: Set = [
        "accept-ranges", "age", "cache-control", "content-disposition", "content-encoding", "content-language",
        "content-length", "content-type", "date", "etag", "expires", "last-modified", "server", "vary", "via",
    ]
}
