import TestSupport
import Testing

/// The code of "Coming from Kingfisher".
enum KingfisherGuide {
    static func lines(
        _ cache: ImageCache, _ url: URL, _ mirror: URL, _ file: URL, _ token: String, _ binding: ImageBinding,
        _ banner: Stage
    ) async throws -> (ImageRequest, ImageRequest, ResponseSource?, Image?) {
        cache.getImage(url).onEnd { result in  // KingfisherManager.shared.retrieveImage(with: url) { … }
            if case .failure(let error) = result { banner.show(error) }
        }
        let image = try await cache.getImage(url).value  // try await … .retrieveImage(with: url).image
        let cached = await cache.image(for: url, in: .disk)  // ImageCache.default.retrieveImageInDiskCache(forKey:)
        let source = await cache.read { $0.cachedSource(for: url) }  // ImageCache.default.imageCachedType(forKey:)
        try cache.addImage(image, for: url)  // ImageCache.default.store(image, forKey:)
        cache.removeImage(for: url)  // ImageCache.default.removeImage(forKey:)
        try await cache.write { $0.clearDisk() }  // await ImageCache.default.clearDiskCache()
        cache.removeExpired()  // ImageCache.default.cleanExpiredDiskCache()
        print(cache.diskSize)  // try await ImageCache.default.diskStorageSize

        var request = ImageRequest(url).with(\.scale, 2)  // [.scaleFactor(2), …
            .processed(by: .downsample(width: 200, height: 150).points)  // DownsamplingImageProcessor(size:) |>
            .processed(by: .roundedCorners(radius: .points(8)))  // RoundCornerImageProcessor(radius: .point(8)))]
        request.headers = ["Authorization": token]  // AnyModifier { … setValue(token, forHTTPHeaderField:) }
        request.alternatives = [mirror]  // .alternativeSources([.network(mirror)])
        request.priority = 1  // .downloadPriority(1)
        request.key = "cover"  // KF.ImageResource(downloadURL: url, cacheKey: "cover")
        let avatar = ImageRequest(file).processed(by: .circle)  // LocalFileImageDataProvider(fileURL: file)
        binding.setImage(request, placeholder: .image(image))  // imageView.kf.setImage(with:placeholder:options:)
        binding.cancel()  // imageView.kf.cancelDownloadTask()
        return (request, avatar, source, cached)
    }

    final class Panel: ImageDisplay {
        var image: Image?

        func show(_ content: DisplayContent, _ transition: ImageTransition) { image = content.image }
    }

    static func display(
        _ panel: Panel, _ cache: ImageCache, _ url: URL, _ loop: Loop, _ banner: Stage
    ) -> ImageBinding {
        let binding = ImageBinding(panel, cache: cache, queue: .custom { work in loop.runWhenIdle(work) })
        binding.setImage(url, placeholder: .color(Color(hex: 0xe0e0e0))) { result in
            if case .failure(let error) = result { banner.show(error) }
        }
        return binding
    }

    static func retrieve(_ cache: ImageCache, _ url: URL) async throws -> ImageResponse {
        let response = try await cache.getImage(url).response
        print(response.source, response.image.size)
        return response
    }

    static func request(_ url: URL, _ mirror: URL, _ thumbnail: URL) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.cachePolicy, .ignoreCache)  // forceRefresh
            .with(\.retryPolicy, .fixed(.seconds(3), retries: 3))  // retryStrategy
            .with(\.alternatives, [mirror])  // alternativeSources
            .with(\.lowDataURL, thumbnail)  // lowDataMode
            .processed(by: .downsample(width: 400, height: 300))  // processor
        return request
    }

    static func options() -> DisplayOptions {
        let options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(300)))  // transition
            .with(\.keepsCurrentImage, true)  // keepCurrentImageWhileLoading
            .with(\.failure, .color(.black))  // onFailureImage
        return options
    }

    static func defaults(_ configuration: inout ImageCache.Configuration) {
        configuration.options.scale = 2  // defaultOptions = [.scaleFactor(2), …]
        configuration.data.retryPolicy = .fixed(.seconds(3), retries: 5)  // … .retryStrategy(strategy), …
        configuration.data.completeRequest = { request in
            request.waitsForDiskWrite = true  // … .waitForCache]
        }
    }

    static func checked(_ url: URL) -> ImageRequest {
        let isPicture = ResponseValidation { response in  // imageDownloader(_:didReceive:)
            response.headers["Content-Type"]?.hasPrefix("image/") == true ? nil : .rejected
        }
        let request = ImageRequest(url).with(\.validation, .success.and(isPicture))
        return request
    }

    static func patient(_ url: URL) -> ImageRequest {
        let patience = RetryPolicy.custom { context in  // RetryStrategy, RetryContext
            context.error.mayPass && context.failures <= 5 ? .seconds(3 * context.failures) : nil
        }
        let request = ImageRequest(url).with(\.retryPolicy, patience)
        return request
    }

    static func pictures(_ bytes: Data) throws -> Data {
        let image = try Image(data: bytes)  // KingfisherWrapper.image(data:options:)
        let round = try image.processed(by: .circle)  // image.kf.image(withRoundRadius:…)
        let file = try round.encoded(as: .png)  // kf.pngRepresentation()
        return file
    }

    static func signed(_ url: URL, _ token: String, _ account: String) -> ImageRequest {
        let modifier = RequestModifier(identity: account) { request in
            var request = request
            request.headers["Authorization"] = token
            return request
        }
        let request = ImageRequest(url).with(\.modifier, modifier)
        return request
    }

    static func prefetch(_ cache: ImageCache, _ urls: [URL], _ bar: Stage, _ banner: Stage) -> ImagePrefetcher {
        let prefetcher = ImagePrefetcher(cache, urls: urls)
            .onProgress { progress in bar.set(progress.fraction) }
            .onEnd { result in banner.show("\(result.failed.count) failed") }
        prefetcher.start()
        return prefetcher
    }

    static func limits(_ configuration: inout ImageCache.Configuration) {
        configuration.memoryLimit = 300 << 20  // memoryStorage.config.totalCostLimit
        configuration.memoryCountLimit = 500  // memoryStorage.config.countLimit
        configuration.data.diskLimit = 1 << 30  // diskStorage.config.sizeLimit
        configuration.data.diskExpiration = .days(30)  // diskStorage.config.expiration
    }
}

@Suite("Coming from Kingfisher", .timeLimit(.minutes(2)))
struct KingfisherGuideTests {
    private let test = TestImageCache()
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("a rule of the program's own retries five times")
    func retries() async throws {
        let failures = Array(repeating: ScriptedTransport.Step.status(503), count: 5)
        try test.transport.script(a, failures + [.image(picture)])
        let task = test.cache.getImage(KingfisherGuide.patient(a))
        for _ in failures {
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(15))
        }
        #expect(try await task.value.pixels == picture.pixels)
        #expect(test.transport.transfers.count == 6)
    }

    @Test("an answer is refused by its media type")
    func validation() async throws {
        let page = TransferResponse(headers: ["Content-Type": "text/html"], body: try picture.png)
        test.transport.script(a, [.response(page)])
        try test.transport.script(url("b.png"), [.image(picture)])
        let (refused, accepted) = (KingfisherGuide.checked(a), KingfisherGuide.checked(url("b.png")))
        await #expect(throws: DipperError.rejected) { try await test.cache.getImage(refused).value }
        #expect(try await test.cache.getImage(accepted).value.pixels == picture.pixels)
    }

    @Test("typical lines do what they say")
    func lines() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let (display, banner, folder) = (RecordingDisplay(), Stage(), TemporaryFolder())
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace)
        // The picture of the binding, whose call is cancelled, never comes.
        test.transport.script(a, [try .image(picture), .silence])
        let file = try folder.place(picture.png, at: "avatar.png")
        let (request, avatar, source, _) = try await KingfisherGuide.lines(
            test.cache, a, url("mirror"), file, "token", binding, banner)
        #expect(source == .memory && !test.cache.hasImage(for: a) && test.cache.diskCount == 0)
        #expect(request.data.headers["authorization"] == "token" && request.priority == 1 && request.key == "cover")
        let mirrors = request.data.alternatives.compactMap(\.url)
        #expect(mirrors == [url("mirror")] && request.processors?.count == 2)
        #expect(try await test.cache.getImage(avatar).value.isOpaque == false)
        await test.cache.idle()
    }

    @Test("the defaults of a cache are taken")
    func defaults() {
        var configuration = ImageCache.Configuration()
        KingfisherGuide.defaults(&configuration)
        var request = DataRequest(a)
        configuration.data.completeRequest?(&request)
        #expect(request.waitsForDiskWrite && configuration.options.scale == 2)
        #expect(configuration.data.retryPolicy.maxRetries == 5)
    }

    @Test("pictures are decoded, processed and encoded without a cache")
    func pictures() throws {
        let file = try KingfisherGuide.pictures(picture.png)
        #expect(try ImageInfo(file).format == .png)
        #expect(try Image(data: file)[0, 0].w == 0)
        for processor in try GuideTables.pixels(picture, picture.png) {
            #expect(try picture.processed(by: processor).pixels != picture.pixels)
        }
    }

    @Test("there is each of the members in the tables")
    func members() {
        let binding = ImageBinding(RecordingDisplay(), cache: test.cache, queue: .inPlace)
        let transitions = GuideTables.members(binding, AnimationPlayer(picture), .status(404))
        let second = Duration.seconds(1)
        #expect(transitions.map(\.duration) == [.zero, second, second, second, second])
    }
}
