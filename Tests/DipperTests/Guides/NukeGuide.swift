import TestSupport
import Testing

/// The code of "Coming from Nuke".
enum NukeGuide {
    static func lines(_ cache: ImageCache, _ url: URL, _ feedURL: URL, _ view: Stage, _ bar: Stage) async throws -> (
        Data, Data
    ) {
        let image = try await cache.getImage(url).value  // pipeline.image(for: url)
        let feed = try await cache.data.getData(feedURL).value  // pipeline.data(for: feedRequest)
        if let image = cache.imageInMemory(for: url) { view.show(image) }  // pipeline.cache[url]?.image
        try cache.addImage(image, for: url)  // pipeline.cache.storeCachedImage(container, for: request)
        cache.removeImage(for: url)  // pipeline.cache.removeCachedImage(for: request)
        cache.clear()  // pipeline.cache.removeAll()

        let task = cache.getImage(url)  // pipeline.imageTask(with: url)
        for await progress in task.progress { bar.set(progress.fraction) }  // for await progress in task.progress
        for await preview in task.previews { view.show(preview) }  // for await response in task.previews
        task.priority = 1  // task.priority = .veryHigh
        task.cancel()  // task.cancel()

        let small = try image.processed(by: .downsample(width: 320))  // .resize(width: 320).process(image)
        let file = try small.encoded(as: .jpeg(quality: 0.8))  // ImageEncoders.Default(compressionQuality: 0.8)
        return (feed, file)
    }

    static func request(_ url: URL, _ key: CacheKey, _ fields: [String: String]) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.priority, .high)  // priority: .high
            .with(\.cachePolicy, .ignoreCache)  // options: [.reloadIgnoringCachedData]
            .with(\.key, key)  // request.imageID = …
            .with(\.scale, 2)  // request.scale = 2
            .with(\.headers, fields)  // URLRequest.allHTTPHeaderFields = fields
            .processed(by: .downsample(width: 400, height: 300).points)  // .resize(size: …, contentMode: .aspectFit)
            .processed(by: .circle, .border(.white, width: .points(2), radius: .fractionOfWidth(0.5)))  // .circle
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

    struct MemoryTransport: Transport {  // DataLoading
        struct Answered: Transfer { func cancel() {} }  // Cancellable

        let bodies: [URL: Data]

        func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
            let body = bodies[request.url]
            let response = TransferResponse(status: body == nil ? 404 : 200, body: body ?? Data())
            receive(.finished(.success(response)))  // at any time, on any thread, but once
            return Answered()
        }

        func shutdown() async {}
    }

    static func loader(_ configuration: inout ImageCache.Configuration, _ bodies: [URL: Data]) {
        configuration.data.transport = MemoryTransport(bodies: bodies)  // configuration.dataLoader = …
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
}

@Suite("Coming from Nuke", .timeLimit(.minutes(2)))
struct NukeGuideTests {
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("pictures are loaded and prefetched")
    func calls() async throws {
        let (view, banner) = (Stage(), Stage())
        let test = TestImageCache { NukeGuide.events(&$0) }
        test.transport.script(a, [try .image(picture), try .image(picture)])
        test.transport.script(url("feed"), [.body(Data("feed".utf8))])
        let (feed, file) = try await NukeGuide.lines(test.cache, a, url("feed"), view, Stage())
        #expect(feed == Data("feed".utf8) && ImageFormat(sniffing: file) == .jpeg)
        #expect(view.images.map(\.pixels) == [picture.pixels] && test.transport.transfers(of: a).count == 2)
        test.transport.script(url("gone"), [.status(404)])
        let prefetcher = NukeGuide.prefetch(test.cache, [ImageRequest(a), ImageRequest(url("gone"))], banner)
        try await banner.noted.wait { $0 == ["1 failed"] }
        #expect(prefetcher.progress.skipped == 1)
    }

    @Test("a transport of a few lines answers, also a call that was a prefetch")
    func loader() async throws {
        var configuration = ImageCache.Configuration()
        configuration.data.networkMonitor = ManualNetwork()
        NukeGuide.loader(&configuration, [a: try picture.png])
        let cache = ImageCache(configuration)
        cache.slowGetImage(a)
        #expect(try await cache.getImage(a).value.pixels == picture.pixels)
        #expect(await cache.getImage(url("gone")).error == .status(404))
        await cache.shutdown()
    }

    @Test("requests and settings have what they were given")
    func options() {
        let request = NukeGuide.request(a, "cover", ["Accept": "image/webp"])
        #expect(request.priority == .high && request.cachePolicy == .ignoreCache && request.key == "cover")
        #expect(request.scale == 2 && request.processors?.count == 3)
        #expect(request.data.headers["Accept"] == "image/webp")
        let settings = NukeGuide.settings(URL(fileURLWithPath: "/nowhere"))
        #expect(settings.data.freshness == .immutable() && settings.data.fastQueue.maxConcurrent == 6)
    }
}
