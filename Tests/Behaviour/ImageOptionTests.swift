import Dispatch
import TestSupport
import Testing

@Suite("Options of pictures, on requests and as defaults", .timeLimit(.minutes(2)))
struct ImageOptionTests {
    private let a = url("a.png")
    private let picture = Image.sample(64, 48)
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("options chain on a request, those of the bytes and those of the picture alike")
    func fluent() {
        let request = ImageRequest(a).with(\.priority, .high).with(\.headers, ["X": "1"]).with(\.scale, 2)
            .processed(by: Inverting("1")).processed(by: Inverting("2"))
        #expect(request.priority == .high && request.data.headers["X"] == "1" && request.scale == 2)
        #expect(request.processors?.map(\.identifier) == ["test.1", "test.2"])
        #expect(request.url == a && request.urlString == a.absoluteString)
        var changed = request
        changed.firstFrameOnly = true
        changed.data.priority = .low
        #expect(request.firstFrameOnly == nil && request.priority == .high && changed.priority == .low)
        #expect(a.imageRequest.cacheKey == CacheKey(a) && a.dataRequest.cacheKey == CacheKey(a))
    }

    @Test("the options that apply to a request are those of the request, the cache and the defaults")
    func applying() throws {
        let test = TestImageCache {
            $0.options.scale = 3
            $0.options.keepsOriginal = false
        }
        let plain = test.cache.options(of: a)
        #expect(plain.scale == 3 && plain.keepsOriginal == false && plain.processors?.isEmpty == true)
        #expect(plain.showsPreviews == false && plain.prefetchesToMemory == true && plain.originals === test.cache.data)
        let own = test.cache.options(of: ImageRequest(a).with(\.keepsOriginal, true).processed(by: .circle))
        #expect(own.keepsOriginal == true && own.processors?.count == 1 && own.scale == 3)
        let photo = ImageRequest(FileProvider(URL(fileURLWithPath: "/photo.png"))).processed(by: .circle)
        #expect(ImageCache().options(of: photo).keepsOriginal == false)
        #expect(ImageCache().options(of: a).keepsOriginal == true)
        let keeping = TestImageCache { $0.options.keepsOriginal = true }
        #expect(keeping.cache.options(of: photo).keepsOriginal == true)
    }

    @Test("defaults of the cache hold where a request says nothing")
    func defaults() async throws {
        let invert = Inverting()
        let test = TestImageCache {
            $0.options.processors = [invert]
            $0.options.scale = 3
        }
        try test.script(a, picture)
        let byDefault = try await test.cache.getImage(a).value
        #expect(try byDefault.scale == 3 && byDefault.pixels == picture.inverted)
        let plain = try await test.cache.getImage(ImageRequest(a).with(\.processors, []).with(\.scale, 1)).value
        #expect(plain.pixels == picture.pixels && plain.scale == 1 && invert.count.value == 1)
    }

    @Test("settings that nobody makes are those that the guides name")
    func guides() {
        let (configuration, mebibyte) = (ImageCache.Configuration(), 1 << 20)
        let (data, network, limits) = (configuration.data, configuration.data.network, configuration.limits)
        #expect(data.diskLimit == 512 * mebibyte && data.maximumRedirects == 10)
        #expect(data.fastQueue == QueueConfiguration(maxConcurrent: 10, maxPerHost: 8))
        var other = data.fastQueue
        other.maxConcurrent = 100
        #expect(other == QueueConfiguration(maxConcurrent: 100))
        #expect(data.slowQueue == QueueConfiguration(maxConcurrent: 1))
        #expect(network.lowSpeedLimit == 64 && network.lowSpeedTime == .seconds(30))
        #expect(network.minimumRate == 128 && network.minimumRateWindow == .seconds(120))
        #expect(network.transferTimeLimit == .seconds(3_600))
        #expect(limits.pixels == 268_435_456 && limits.frames == 10_000 && limits.bytes == 1_024 * mebibyte)
        #expect(AnimationOptions().bufferCount == 3)
        let memory = Int(ProcessInfo.processInfo.physicalMemory)
        #expect(configuration.memoryLimit <= min(768 * mebibyte, memory / 100 * 15) && configuration.memoryLimit > 0)
    }

    @Test("a file that ends too early is an error, or as much of the picture as there is, if a request wants that")
    func partial() async throws {
        let test = TestImageCache()
        let whole = try CodecRegistry.standard.decode(ProgressivePhoto.file)
        test.transport.script(a, [.body(ProgressivePhoto.file.prefix(ProgressivePhoto.previewLengths[0]))])
        #expect(await test.error(a) == .undecodable)
        let image = try await test.cache.getImage(ImageRequest(a).with(\.allowsPartial, true)).value
        #expect(image.size == whole.size && image.pixels != whole.pixels)
        #expect(test.cache.readImage(for: a) == nil, "it is another picture")
    }

    @Test("the scale is that of each request, and the modifier changes what is handed out, not what is kept")
    func modifier() async throws {
        try test.script(a, picture)
        let other = Image.sample(seed: 9)
        let modified = ImageRequest(a).modified { _ in other }
        #expect(try await test.cache.getImage(ImageRequest(a).with(\.scale, 2)).value.scale == 2)
        #expect(try await test.pixels(modified) == other.pixels)
        #expect(test.cache.readImage(for: modified)?.pixels == other.pixels)
        let plain = try await test.cache.getImage(a).value
        #expect(plain.pixels == picture.pixels && plain.scale == 1 && test.decoder.decodes == 1)
    }

    @Test("decoding, processing and closures run where the request wants them")
    func queues() async throws {
        let queue = DispatchQueue(label: "mine")
        let key = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: key, value: true)
        let found = Box<Bool?>(nil), calls = Box<[String]>([])
        try test.script(a, picture)
        let own = CallbackQueue.custom { work in
            calls.update { $0.append("queue") }
            work()
        }
        let place = ImageProcessors.Custom("where") { image, _ in
            found.update { $0 = DispatchQueue.getSpecific(key: key) }
            return image
        }
        let request = ImageRequest(a).processed(by: place)
            .with(\.processingQueue, .dispatch(queue)).with(\.callbackQueue, own)
        test.cache.getImage(request) { _ in calls.update { $0.append("closure") } }
        try await calls.wait { $0.last == "closure" }
        #expect(found.value == true && calls.value.first == "queue")
    }

    @Test("limits are checked from the header: too many pixels are refused before the decoder runs")
    func limits() async throws {
        let decoder = CountingDecoder(making: PixelSize(width: 64, height: 48))
        for (pixels, error) in [(64 * 48 - 1, DipperError.imageTooLarge), (64 * 48, nil)] {
            let test = TestImageCache(decoder: decoder) { $0.limits.pixels = pixels }
            try test.script(a, picture)
            test.transport.script(url("b"), [.body(Data("text".utf8))])
            #expect(await test.error(a) == error)
            if error != nil { #expect(decoder.decodes == 0) }
            // The decoder alone knows the size of what has no known header.
            #expect(await test.error(url("b")) == error)
        }
    }

    @Test("serializers: JPEG of a quality, PNG, one's own, and automatic by what is lost already")
    func serializers() async throws {
        func file(_ serializer: ImageSerializer?, _ original: ScriptedTransport.Step) async throws -> Data? {
            let address = url("\(test.transport.transfers.count)")
            test.transport.script(address, [original])
            let task = test.cache.getImage(ImageRequest(address).inverted.with(\.serializer, serializer))
            _ = try await task.value
            await test.cache.idle()
            return test.cache.data.readData(for: task.imageKey)
        }
        let photo = try ScriptedTransport.Step.image(picture, as: .jpeg)
        let drawing = try ScriptedTransport.Step.image(picture)
        let cases: [(ImageSerializer?, ScriptedTransport.Step, ImageFormat?)] = [
            (nil, photo, .jpeg), (.automatic, photo, .jpeg), (.automatic, drawing, .png),
            (.automatic, try .image(.sample(alpha: 9)), .png), (.png, photo, .png),
            (.jpeg(quality: 0.5), drawing, .jpeg), (.original, photo, nil), (.format(.heic), photo, nil),
        ]
        for (number, (serializer, original, format)) in cases.enumerated() {
            let made = try await file(serializer, original)
            #expect(made.flatMap { ImageFormat(sniffing: $0) } == format, "case \(number)")
        }
        let small = try await file(.jpeg(quality: 0.2), photo)?.count ?? 0
        let large = try await file(.jpeg(quality: 0.95), photo)?.count ?? 0
        #expect(small > 0 && small < large)
        let own = ImageSerializer { _, _, _ throws(DipperError) in Data("mine".utf8) }
        #expect(try await file(own, photo) == Data("mine".utf8))
    }

    @Test("what a prefetch decoded stays out of memory if that is wanted")
    func prefetchMemory() async throws {
        try test.script(a, picture)
        let request = ImageRequest(a).with(\.prefetchesToMemory, false)
        _ = try await test.cache.slowGetImage(request).value
        #expect(test.cache.memoryCount == 0 && test.cache.cachedSource(for: request) == .disk)
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.memoryCount == 1)
    }

    @Test("limits of memory: the least recently used picture goes first, and two warnings leave the limit as it was")
    func memoryLimit() throws {
        let cost = picture.byteCount + 400
        let cache = TestImageCache { $0.memoryLimit = cost * 20 }.cache
        for index in 0..<30 { try cache.addImage(.sample(64, 48, seed: UInt8(index)), for: url("\(index)")) }
        #expect(cache.memorySize <= cost * 20 && cache.memoryCount >= 19)
        #expect(cache.readImage(for: url("0")) == nil && cache.readImage(for: url("29")) != nil)
        for _ in 0..<2 { cache.trimMemory(to: cost) }
        #expect(cache.memoryCount <= 1)
        for index in 0..<15 { try cache.addImage(picture, for: url("\(index)")) }
        #expect(cache.memoryCount >= 15)
        cache.memoryLimit = cost * 20
        cache.memoryCountLimit = 5
        #expect(cache.memoryCount == 5)
        cache.clear()
        #expect(cache.memoryCount == 0 && cache.memorySize == 0)
    }

    @Test("a request for the first frame alone has the same file, and is removed with it")
    func firstFrame() async throws {
        let test = TestImageCache(folder: TemporaryFolder(), decoder: .init(making: PixelSize(width: 4, height: 3)))
        let body = DiskBytes.noise(50_000)
        test.transport.script(a, [.body(body)])
        let request = ImageRequest(a).with(\.firstFrameOnly, true)
        try await test.load(request)
        let file = try #require(test.cache.file(for: ImageRequest(a)))
        #expect(test.cache.file(for: request) == file)
        #expect(try Data(contentsOf: file).starts(with: body))
        test.cache.removeVariant(for: request)
        #expect(!test.cache.hasImage(for: request))
    }
}
