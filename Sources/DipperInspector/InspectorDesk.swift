import Dipper
import DipperData
import Foundation
import Synchronization

/// The names by which pages speak of entries, which hold no secret: the digests of keys that a page has been shown.
final class InspectorDesk: Sendable {
    private let keys = Mutex((latest: [String: CacheKey](), earlier: [String: CacheKey]()))
    private static let most = 20_000
    /// At most two pictures are decoded at a time for pages.
    let decoding = DispatchSemaphore(value: 2)

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
        case (_, "entries"): entries(request.query)
        case (_, "entry"): withEntry(request.query) { self.entry($0, $1) }
        case (_, "thumbnail"): withEntry(request.query) { self.thumbnail($1) }
        case (_, "body") where options.isReadOnly: .failure(status: 403, "The page can open nothing.")
        case (_, "body"): withEntry(request.query) { self.body($0, $1) }
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

    private func entries(_ query: [String: String]) -> Answer {
        var wanted = EntryQuery()
        wanted.text = String((query["search"] ?? "").prefix(200))
        wanted.order = query["order"].flatMap(EntryQuery.Order.init) ?? .used
        wanted.isAscending = query["up"] == "1"
        wanted.offset = min(max(0, query["offset"].flatMap { Int($0) } ?? 0), 1 << 40)
        wanted.limit = min(max(1, query["limit"].flatMap { Int($0) } ?? 50), 200)
        let (found, total) = cache.listEntries(wanted)
        let now = cache.present
        let rows = found.map { listed in
            let (entry, answer) = (listed.entry, listed.answer)
            let address = entry.url.isEmpty ? "\(entry.key)" : Redaction.standard.text(entry.url)
            let tiers = (answer?.source == .memory ? 2 : 1) | (cache.hasData(for: entry.key, in: .memory) ? 2 : 0)
            return JSONText.object([
                "i": .text(desk.name(of: entry.key)), "u": .text(Self.shortened(address)), "n": .number(entry.size),
                "stored": .seconds(now.timeIntervalSince(entry.stored)),
                "used": .seconds(now.timeIntervalSince(entry.accessed)),
                "expires": entry.expires.map { .seconds($0.timeIntervalSince(now)) } ?? .null,
                "fresh": answer.map { freshness($0, now) } ?? .null,
                "type": .text(answer?.headers["Content-Type"] ?? ""),
                "status": .number(answer?.status ?? 0), "tiers": .number(tiers),
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

    private func withEntry(
        _ query: [String: String], _ body: (CacheKey, DataResponse) -> Answer
    ) -> Answer {
        guard let key = query["key"].flatMap(desk.key), let found = cache.readResponse(for: key) else {
            return .failure(status: 404, "The entry is not there any more.")
        }
        return body(key, found)
    }

    private func entry(_ key: CacheKey, _ answer: DataResponse) -> Answer {
        let fields = answer.headers.fields.prefix(100).map { field in
            let isShown = ReadableFields.names.contains(field.name.lowercased())
            return JSONText.array([.text(field.name), .text(isShown ? Self.shortened(field.value) : Redaction.mark)])
        }
        let size = try? ImageInfo(answer.data).size
        return json(
            JSONText.object([
                "status": .number(answer.status), "bytes": .number(answer.data.count), "fields": .array(fields),
                "pixels": size.map { .text("\($0.width) × \($0.height)") } ?? .null,
                "fresh": freshness(answer, cache.present),
            ]).text)
    }

    /// A small picture that is made anew from the entry's pixels: no byte of the entry reaches the page.
    private func thumbnail(_ answer: DataResponse) -> Answer {
        desk.decoding.wait()
        defer { desk.decoding.signal() }
        guard answer.data.count <= 32 << 20 else { return .failure(status: 404, "The entry is too large.") }
        do throws(DipperError) {
            var wanted = DecodeOptions(target: TargetSize(PixelSize(width: 96, height: 96), .fit))
            wanted.firstFrameOnly = true
            let image = try CodecRegistry.standard.decode(answer.data, wanted)
            return .bytes(try image.encoded(as: .png), type: "image/png")
        } catch {
            return .failure(status: 404, "The entry is no picture.")
        }
    }

    private func body(_ key: CacheKey, _ answer: DataResponse) -> Answer {
        let last = URL(string: key.string)?.lastPathComponent ?? ""
        let name = last.filter { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }.suffix(80)
        let disposition = "attachment; filename=\"\(name.isEmpty || name.first == "." ? "entry-\(name)" : name)\""
        return .bytes(
            answer.data, type: "application/octet-stream", fields: [("Content-Disposition", disposition)])
    }

    private func change(_ query: [String: String]) -> Answer {
        guard let key = query["key"].flatMap(desk.key) else {
            return .failure(status: 404, "The entry is not there any more.")
        }
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
        let (value, number) = (query["value"] ?? "", query["value"].flatMap { Int($0) } ?? 0)
        let queue = query["queue"] == "slow" ? \DataCache.slowQueue : \DataCache.fastQueue
        switch query["do"] {
        case "suspend": cache[keyPath: queue].isSuspended = number == 1
        case "width": cache[keyPath: queue].maxConcurrent = min(max(1, number), 1_000)
        case "network": cache.simulatedNetwork = SimulatedNetwork(rawValue: value)
        case "pressure": cache.simulatedMemoryPressure = MemoryPressure(rawValue: value)
        case "clear":
            if let images { images.clear() } else { cache.clear() }
        case "clearMemory":
            if let images { images.clearMemory() } else { cache.clearMemory() }
        case "trim":
            cache.trimDisk(to: max(0, number))
        case "flush": cache.flush(olderThan: .seconds(max(0, number)))
        case "cancel": if let images { images.cancelAll() } else { cache.cancelAll() }
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
