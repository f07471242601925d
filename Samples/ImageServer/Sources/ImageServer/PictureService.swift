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
    }

    let cache: ImageCache
    let prefetcher: ImagePrefetcher
    private let mostMaking: Int
    private let mostPrefetches: Int
    private let making = Atomic(0)

    init(_ configuration: ImageCache.Configuration, mostMaking: Int, mostPrefetches: Int) {
        cache = ImageCache(configuration)
        prefetcher = ImagePrefetcher(
            cache, [ImageRequest](), maxOutstanding: configuration.data.slowQueue.maxConcurrent)
        prefetcher.start()
        (self.mostMaking, self.mostPrefetches) = (mostMaking, mostPrefetches)
    }

    /// Runs until the HTTP server has ended, which comes before it, and then shuts the cache down.
    func run() async throws {
        try? await gracefulShutdown()
        prefetcher.stop()
        await cache.shutdown()
    }

    // MARK: Pictures

    func picture(_ query: PictureQuery, as format: ImageFormat) async throws(Refusal) -> Picture {
        let request = request(for: query, format)
        // The key of a picture is the key of its file.
        let key = cache.imageKey(for: request)
        if let kept = await kept(key), kept.isFresh { return Picture(kept, format, kept.source) }
        guard making.add(1, ordering: .relaxed).newValue <= mostMaking else {
            making.subtract(1, ordering: .relaxed)
            throw .busy
        }
        defer { making.subtract(1, ordering: .relaxed) }
        do {
            // If the client goes away the call goes on: the next client finds the picture.
            let response = try await cache.getImage(request).response
            if let kept = await kept(key) { return Picture(kept, format, response.source) }
            // The server of the source lets nobody keep the picture, or the disk is full.
            let (image, options) = (response.image, EncodeOptions(quality: query.encodingQuality))
            let file = try await cache.read { _ in Result { try image.encoded(as: format, options) } }.get()
            return Picture(file: file, format: format, source: response.source, freshUntil: nil)
        } catch {
            throw Refusal(error as? DipperError ?? .cancelled)
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
        return ImageRequest(query.source)
            .with(\.processors, processors)
            .with(\.serializer, .format(format, EncodeOptions(quality: query.encodingQuality)))
            // The call ends when the file is there, so that it is made once for all who ask.
            .with(\.waitsForDiskWrite, true)
    }

    // MARK: Prefetching

    func prefetch(_ pictures: [(query: PictureQuery, format: ImageFormat)]) throws(Refusal) {
        let progress = prefetcher.progress
        guard progress.total - progress.finished + pictures.count <= mostPrefetches else { throw .busy }
        prefetcher.add(pictures.map { request(for: $0.query, $0.format) })
    }

    // MARK: Figures

    /// The present state, for the metrics.
    var gauges: [(name: String, value: Int)] {
        let (queues, progress) = (cache.queueCounts, prefetcher.progress)
        return [
            ("image_server_pictures_being_made", making.load(ordering: .relaxed)),
            ("image_server_prefetches_waiting", progress.total - progress.finished),
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
        self.init(file: kept.data, format: format, source: source, freshUntil: kept.freshUntil ?? .distantFuture)
    }
}

extension DataResponse {
    fileprivate var isFresh: Bool { freshUntil.map { $0 > Date() } ?? true }
}

extension PictureQuery {
    fileprivate var encodingQuality: Double { Double(quality) / 100 }
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
