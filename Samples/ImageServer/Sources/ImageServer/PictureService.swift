import Dipper
import Foundation
import Hummingbird
import Metrics
import ServiceLifecycle
import Synchronization

/// Makes pictures and keeps their files, by an image cache. The cache does what a server of pictures must do: it fetches
/// each source once and makes each picture once, however many ask at the same time, and prefetches only while nobody
/// waits.
final class PictureService: Service {
    struct Picture: Sendable {
        let file: Data
        let format: ImageFormat
        let source: ResponseSource
        /// `Date.distantFuture` for a picture that never changes; `nil` for one that nobody may keep.
        let freshUntil: Date?
        /// For clients, if the source says something else to them than to servers in between.
        let clientsFreshUntil: Date?
    }

    /// The pictures that are being made now, each once.
    private struct Making {
        var callers: [CacheKey: Int] = [:]
        /// The number of pictures.
        var hosts: [String: Int] = [:]
    }

    private struct Prefetches {
        var prefetchers: [Int: (prefetcher: ImagePrefetcher, left: Int)] = [:]
        var last = 0
        var outstanding = 0
    }

    let cache: ImageCache
    private let mostMaking: Int
    private let mostPrefetches: Int
    private let making = Mutex(Making())
    private let prefetches = Mutex(Prefetches())

    init(_ configuration: ImageCache.Configuration, mostMaking: Int, mostPrefetches: Int) {
        cache = ImageCache(configuration)
        (self.mostMaking, self.mostPrefetches) = (mostMaking, mostPrefetches)
    }

    /// Runs until the HTTP server has ended, which comes before it, and then shuts the cache down.
    func run() async throws {
        try? await gracefulShutdown()
        for prefetcher in prefetchers { prefetcher.stop() }
        await cache.shutdown()
    }

    // MARK: Pictures

    func picture(_ path: KnownPaths.Path, as format: ImageFormat) async throws(Refusal) -> Picture {
        let query = path.query
        // The key of a picture is the key of its file.
        let key = path.key(format) { cache.imageKey(for: request(for: query, format)) }
        let old = await kept(key)
        if let old, old.isFresh { return Picture(old, format, old.source) }
        guard begin(key, query.host) else {
            guard let old, old.mayBeStale else { throw .busy }
            return Picture(old, format, old.source)
        }
        defer { end(key, query.host) }
        do {
            // If the client goes away the call goes on: the next client finds the picture.
            let response = try await cache.getImage(request(for: query, format)).response
            if let kept = await kept(key) { return Picture(kept, format, response.source) }
            // The server of the source lets nobody keep the picture, or the disk is full.
            let (image, options) = (response.image, EncodeOptions(quality: query.encodingQuality))
            let file = try await cache.read { _ in Result { try image.encoded(as: format, options) } }.get()
            return Picture(file: file, format: format, source: response.source, freshUntil: nil, clientsFreshUntil: nil)
        } catch {
            throw Refusal(error as? DipperError ?? .cancelled)
        }
    }

    /// Returns whether a picture may be made. Those who want one that is being made wait for it, however many they are, and
    /// no host takes all the room.
    private func begin(_ key: CacheKey, _ host: String) -> Bool {
        making.withLock { making in
            if making.callers[key] == nil {
                let count = making.hosts[host, default: 0]
                guard making.callers.count < mostMaking, count < max(1, mostMaking / 4) else { return false }
                making.hosts[host] = count + 1
            }
            making.callers[key, default: 0] += 1
            return true
        }
    }

    private func end(_ key: CacheKey, _ host: String) {
        making.withLock { making in
            guard let callers = making.callers[key], let count = making.hosts[host] else { return }
            making.callers[key] = callers == 1 ? nil : callers - 1
            if callers == 1 { making.hosts[host] = count == 1 ? nil : count - 1 }
        }
    }

    private func kept(_ key: CacheKey) async -> DataResponse? {
        // Memory answers at once. The disk is read on a thread of the cache.
        if cache.data.hasData(for: key, in: .memory) { return cache.data.readResponse(for: key) }
        return await cache.data.read { $0.readResponse(for: key) }
    }

    private func request(for query: PictureQuery, _ format: ImageFormat) -> ImageRequest {
        var processors: [any ImageProcessor] = []
        if let target = query.size {
            processors.append(.resize(to: target))
            if query.cuts { processors.append(.crop(width: target.size.width, height: target.size.height)) }
        }
        processors.append(FileKind(format: format, quality: query.quality))
        var request = ImageRequest(query.source)
        request.processors = processors
        request.serializer = .format(format, EncodeOptions(quality: query.encodingQuality))
        // The call ends when the file is there, so that it is made once for all who ask.
        request.waitsForDiskWrite = true
        return request
    }

    // MARK: Prefetching

    func prefetch(_ pictures: [(query: PictureQuery, format: ImageFormat)]) throws(Refusal) {
        guard !pictures.isEmpty else { return }
        let number = prefetches.withLock { prefetches -> Int? in
            guard prefetches.outstanding + pictures.count <= mostPrefetches else { return nil }
            prefetches.outstanding += pictures.count
            prefetches.last += 1
            return prefetches.last
        }
        guard let number else { throw .busy }
        // Each has its own, because a prefetcher keeps the results of all that it has done until its end.
        let prefetcher = ImagePrefetcher(
            cache, pictures.map { request(for: $0.query, $0.format) },
            maxOutstanding: cache.slowQueue.maxConcurrent)
        prefetches.withLock { $0.prefetchers[number] = (prefetcher, pictures.count) }
        prefetcher
            .onProgress { [self] progress in left(progress.total - progress.finished, of: number) }
            .onEnd { [self] _ in
                left(0, of: number)
                prefetches.withLock { $0.prefetchers[number] = nil }
            }
            .start()
    }

    private func left(_ left: Int, of number: Int) {
        prefetches.withLock { prefetches in
            guard let before = prefetches.prefetchers[number]?.left, left < before else { return }
            prefetches.prefetchers[number]?.left = left
            prefetches.outstanding -= before - left
        }
    }

    /// The prefetches that have not ended.
    var prefetchers: [ImagePrefetcher] { prefetches.withLock { $0.prefetchers.values.map(\.prefetcher) } }

    // MARK: Figures

    /// The present state, for the metrics.
    var gauges: [(name: String, value: Int)] {
        let queues = cache.queueCounts
        return [
            ("image_server_pictures_being_made", making.withLock { $0.callers.count }),
            ("image_server_prefetches_waiting", prefetches.withLock { $0.outstanding }),
            ("image_server_fast_queue_waiting", queues.fastWaiting),
            ("image_server_fast_queue_running", queues.fastRunning),
            ("image_server_slow_queue_waiting", queues.slowWaiting),
            ("image_server_slow_queue_running", queues.slowRunning),
            ("image_server_memory_bytes", cache.memorySize + cache.data.memorySize),
            ("image_server_disk_bytes", cache.diskSize),
            ("image_server_disk_entries", cache.diskCount),
        ]
    }
}

extension PictureService.Picture {
    fileprivate init(_ kept: DataResponse, _ format: ImageFormat, _ source: ResponseSource) {
        self.init(
            file: kept.data, format: format, source: source, freshUntil: kept.freshUntil ?? .distantFuture,
            clientsFreshUntil: kept.clientsFreshUntil)
    }
}

extension DataResponse {
    fileprivate var isFresh: Bool { freshUntil.map { $0 > Date() } ?? true }

    /// The directives of the source, with their arguments.
    private var directives: [String: Substring] {
        let list = (headers["Cache-Control"] ?? "").lowercased().split(separator: ",").map { directive in
            let parts = directive.filter { $0 != " " && $0 != "\"" }.split(separator: "=", maxSplits: 1)
            return (String(parts.first ?? ""), parts.dropFirst().first ?? "")
        }
        return Dictionary(list) { first, _ in first }
    }

    /// Whether the source lets a server in between use the picture when it is no longer fresh.
    fileprivate var mayBeStale: Bool {
        headers["CDN-Cache-Control"] == nil
            && directives.keys.allSatisfy {
                !["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage"].contains($0)
            }
    }

    /// `nil` if the source makes no difference between clients and servers in between.
    fileprivate var clientsFreshUntil: Date? {
        let directives = directives
        guard directives["s-maxage"] != nil || headers["CDN-Cache-Control"] != nil else { return nil }
        // Without a time of their own, clients ask again each time.
        guard directives["no-cache"] == nil, let seconds = directives["max-age"].flatMap({ Double($0) }) else {
            return .distantPast
        }
        return generated.addingTimeInterval(seconds)
    }
}

extension PictureQuery {
    fileprivate var encodingQuality: Double { Double(quality) / 100 }
    fileprivate var host: String { source.host()?.lowercased() ?? "" }
}

/// Changes nothing, but makes the format and the quality of the file part of the picture's key.
private struct FileKind: ImageProcessor {
    let format: ImageFormat
    let quality: Int
    var identifier: String { "file(\(format.rawValue),\(quality))" }

    func process(_ image: Image, _ context: ProcessingContext) -> Image {
        // Once for each picture that is made.
        Counter(label: "image_server_pictures_made").increment()
        return image
    }
}
