import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

/// The code of "Coming from Nuke", and its tables.
enum NukeGuide {
    static func load(_ cache: ImageCache, _ url: URL, _ view: Stage, _ bar: Stage) async throws {
        let task = cache.getImage(url)  // pipeline.imageTask(with: url)
        task.onProgress { progress in bar.set(progress.fraction) }  // for await progress in task.progress
        let response = try await task.response  // task.response
        view.show(response.image)  // response.image
    }

    static func request(_ url: URL, _ key: CacheKey) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.priority, .high)  // priority: .high
            .with(\.cachePolicy, .ignoreCache)  // options: [.reloadIgnoringCachedData]
            .with(\.key, key)  // userInfo: [.imageIdKey: …]
            .with(\.scale, 2)  // userInfo: [.scaleKey: 2]
            .processed(by: .downsample(width: 400, height: 400))  // userInfo: [.thumbnailKey: …]
            .processed(by: .roundedCorners(radius: .points(8)))  // processors: [.roundedCorners(radius: 8)]
        return request
    }

    static func settings(_ folder: URL) -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.freshness = .immutable()  // .withDataCache
        configuration.data.diskLimit = 150 << 20  // DataCache.sizeLimit
        configuration.memoryLimit = 256 << 20  // ImageCache.costLimit
        configuration.data.memoryExpiration = .after(.seconds(120))  // ImageCache.ttl
        configuration.data.fastQueue.maxConcurrent = 6  // dataLoadingQueue
        configuration.options.serializer = .original  // dataCachePolicy = .storeOriginalData
        return configuration
    }

    static func prefetch(_ cache: ImageCache, _ thumbnails: [ImageRequest], _ banner: Stage) -> ImagePrefetcher {
        let prefetcher = ImagePrefetcher(cache, thumbnails, keepsInMemory: true)  // destination: .memoryCache
            .onEnd { result in banner.show("\(result.failed.count) failed") }  // didComplete
        prefetcher.start()  // startPrefetching(with: thumbnails)
        return prefetcher
    }

    struct FailureLog: EventSink {
        var topics: CacheEvent.Topics { .calls }

        func receive(_ event: CacheEvent) {
            if case .callFailed(let error) = event.kind { print(event.time, event.key, error) }
        }
    }

    static func events(_ configuration: inout ImageCache.Configuration) {
        configuration.data.eventSinks = [FailureLog()]
    }

    // MARK: Tables

    /// The options in the tables, but for those above.
    static func allOptions(_ url: URL, _ bytes: Data, _ data: DataCache) -> ImageRequest {
        var request = ImageRequest(CustomProvider(key: "name") { bytes })
        request = ImageRequest(string: url.absoluteString).modified { image in image }
        request.modifier = RequestModifier(identity: "form") { request in
            var request = request
            request.method = "POST"
            request.body = bytes
            return request
        }
        request.memoryExpiration = .expired
        request.cachePolicy = .fromMemoryOrRefresh
        request.cachePolicy = .memoryOnly
        request.cachePolicy = .cacheOnly
        request.memoryExpiration = .never
        request.diskExpiration = .expired
        request.showsPreviews = true
        request.keepsOriginal = false
        request.serializer = .jpeg(quality: 0.8)
        request.serializer = .format(.webp, EncodeOptions(quality: 0.8))
        request.originals = data
        request.validation = .anyStatus
        return request
    }

    /// The processors in the table.
    static func processors() -> [any ImageProcessor] {
        let sizes: [any ImageProcessor] = [
            .downsample(width: 400, height: 300, .fill), .resize(width: 400, height: 300, .fill), .resize(width: 400),
            .resize(height: 300), .crop(width: 40, height: 30), .fitting(width: 400, height: 300, .aspectFill),
        ]
        let shapes: [any ImageProcessor] = [
            .circle, .border(.white, width: .points(1), radius: .fractionOfWidth(0.5)), .monochrome,
            .roundedCorners(radius: .points(8)), .blur(8), .chain([.circle, .blur(8)]),
        ]
        return sizes + shapes + [ImageProcessors.Custom("mine") { image, _ in image }]
    }

    /// The calls in the tables.
    static func tables(
        _ cache: ImageCache, _ url: URL, _ request: ImageRequest, _ key: CacheKey, _ image: Image, _ bytes: Data
    ) async throws {
        let data = cache.data
        _ = (cache.getImage("\(url)"), cache.getImage(request), data.getData(request.data), cache.getRemoteImage(url))
        _ = (cache.image(for: url), cache.image(for: request), cache.cachedTier(for: request))
        try cache.addImage(image, for: request)
        try cache.addImage(bytes: bytes, for: url)
        try data.addData(bytes, for: key)
        try await data.addDataAndWait(bytes, for: key)
        _ = (data.data(for: key), data.hasData(for: key), data.file(for: key), data.diskCount, data.diskSize)
        _ = (cache.hasImage(for: request), cache.hasProcessedImage(for: request), cache.memorySize, cache.memoryCount)
        cache.removeVariant(for: request, from: .memory)
        data.removeData(for: request.data)
        data.diskLimit = 1 << 30
        cache.memoryLimit = 300 << 20
        cache.memoryCountLimit = 500
        cache.trimMemory(to: 50 << 20)
        data.trim(toDiskSize: 0)
        await cache.synchronize()
        cache.cancel(url)
        cache.clearMemory()
        cache.clear()
        _ = (ImageFormat(sniffing: bytes), CodecRegistry.standard.writable.contains(.webp), CodecRegistry().readable)
    }
}

@Suite("Coming from Nuke", .timeLimit(.minutes(2)))
struct NukeGuideTests {
    private let test = TestImageCache()
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("pictures are loaded and prefetched")
    func calls() async throws {
        let (view, banner) = (Stage(), Stage())
        let test = TestImageCache { NukeGuide.events(&$0) }
        test.transport.script(a, [try .image(picture)])
        try await NukeGuide.load(test.cache, a, view, Stage())
        #expect(view.images.map(\.pixels) == [picture.pixels])
        test.transport.script(url("gone"), [.status(404)])
        let prefetcher = NukeGuide.prefetch(test.cache, [ImageRequest(a), ImageRequest(url("gone"))], banner)
        try await banner.noted.wait { $0 == ["1 failed"] }
        #expect(prefetcher.progress.skipped == 1)
    }

    @Test("requests and settings have what they were given")
    func options() throws {
        let request = NukeGuide.request(a, "cover")
        #expect(request.priority == .high && request.cachePolicy == .ignoreCache && request.key == "cover")
        #expect(request.scale == 2 && request.processors?.count == 2)
        let all = NukeGuide.allOptions(a, Data(), test.cache.data)
        #expect(all.cachePolicy == .cacheOnly && all.diskExpiration == .expired && all.memoryExpiration == .never)
        let settings = NukeGuide.settings(URL(fileURLWithPath: "/nowhere"))
        #expect(settings.data.freshness == .immutable() && settings.data.fastQueue.maxConcurrent == 6)
        for processor in NukeGuide.processors() {
            #expect(try processor.process(Image.sample(800, 600), ProcessingContext()).width > 0)
        }
    }

    @Test("there is each of the calls in the tables")
    func tables() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        try await NukeGuide.tables(test.cache, a, ImageRequest(url("b")), "key", picture, picture.png)
        await test.cache.synchronize()
        #expect(test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
        await test.cache.shutdown()
    }
}
