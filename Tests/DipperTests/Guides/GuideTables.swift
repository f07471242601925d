import Dipper
import Foundation

/// The members that the tables of the guides name that begin with "Coming from".
enum GuideTables {
    /// The requests and options, but for those in the code of the guides.
    static func options(_ url: URL, _ bytes: Data, _ data: DataCache, _ queue: CallbackQueue) -> ImageRequest {
        _ = (ImageRequest(MemoryProvider(bytes, key: "form")), ImageRequest(CustomProvider(key: "name") { bytes }))
        var request = ImageRequest(string: url.absoluteString).modified { image in image }
        request.modifier = RequestModifier(identity: "form") { request in
            var request = request
            request.method = "POST"
            request.body = bytes
            return request
        }
        request.originals = data
        request.priority = Priority(0.8)
        for policy: DataRequest.CachePolicy in [
            .useCache, .fromMemoryOrRefresh, .memoryOnly, .cacheOnly, .bypass,
        ] { request.cachePolicy = policy }
        request.waitsForDiskWrite = true
        request.callbackQueue = queue
        request.scale = 2
        request.preloadsFrames = true
        request.redirectHandler = RedirectHandler { _, request in request }
        for serializer: ImageSerializer in [
            .jpeg(quality: 0.8), .format(.webp, EncodeOptions(quality: 0.8)), .png,
        ] { request.serializer = serializer }
        request.firstFrameOnly = true
        request.keepsOriginal = false
        request.prefetchesToMemory = true
        request.durability = .durable
        for expiration: Expiration in [.after(.seconds(300)), .never, .expired] {
            request.memoryExpiration = expiration
            request.diskExpiration = expiration
        }
        request.memoryAccessExtension = .cacheTime
        request.diskAccessExtension = .expiration(.days(7))
        request.processingQueue = queue
        request.showsPreviews = true
        request.progressInterval = .milliseconds(20)
        request.retryPolicy = .accumulated(.seconds(2), retries: 3)
        for validation: ResponseValidation in [.anyStatus, .success] { request.validation = validation }
        request.credentials = .basic(user: "name", password: "word")
        return request
    }

    /// The codecs, and processors that change a picture.
    static func pixels(_ image: Image, _ bytes: Data) throws -> [any ImageProcessor] {
        var decoding = DecodeOptions(target: TargetSize(width: 8, height: 8, .fill))
        decoding.scale = 2
        decoding.preloadsFrames = true
        decoding.firstFrameOnly = true
        _ = (CodecRegistry.standard.writable.contains(.webp), CodecRegistry().readable)
        _ = try (Image(data: bytes, decoding), image.encoded(as: .jpeg(quality: 0.8)), image.encoded(as: .png))
        _ = (TargetSize(width: 200, height: 200).points, ImageSerializer.format(.gif))
        let info = try ImageInfo(bytes)
        _ = (info.isProgressive, info.size, info.orientation, info.frameCount, ImageFormat(sniffing: bytes))
        _ = (image.byteCount, image.scale, image.animation?.frameCount, ImageSerializer.format(.gif))
        let sizes: [any ImageProcessor] = [
            .downsample(width: 8, height: 8), .resize(width: 8, height: 8, .stretch),
            .crop(width: 4, height: 4, anchor: .topLeft), .blur(2), .monochrome, .tint(.white.with(alpha: 0.5)),
        ]
        let colors: [any ImageProcessor] = [
            .roundedCorners(radius: .fractionOfWidth(0.25), corners: .top),
            .border(.black, width: .points(1), radius: .fractionOfHeight(0.5)), .overlay(.white, fraction: 0.5),
            .colorControls(brightness: 0.1, exposure: 0.7), .blend(.black, .multiply, opacity: 0.5, side: .below),
        ]
        return sizes + colors
    }

    /// The processors that the tables name besides, the last of which halves the alpha.
    static func processors() -> [any ImageProcessor] {
        let sizes: [any ImageProcessor] = [
            .downsample(width: 400, height: 300, .fill), .resize(width: 400, height: 300, .fill), .resize(width: 400),
            .resize(height: 300), .crop(width: 40, height: 30), .fitting(width: 400, height: 300, .aspectFill),
        ]
        let frames: [any ImageProcessor] = [
            .fitting(width: 30, height: 20, .original), .fitting(width: 30, height: 20, .scaleToFill),
            .fitting(width: 30, height: 20, .aspectFit), .fitting(width: 30, height: 20, .aspectFill.at(.bottomRight)),
            .fitting(width: 30, height: 20, .aspectFill.at(.topLeft)), .rotate(degrees: 90), .flip(.horizontal),
        ]
        let shapes: [any ImageProcessor] = [
            .circle, .border(.white, width: .points(1), radius: .fractionOfWidth(0.5)), .chain([.circle, .blur(8)]),
            .roundedCorners(radius: .points(8)), ImageProcessors.Custom("mine") { image, _ in image },
        ]
        let filters: [any ImageProcessor] = [
            .whiteBalance(temperature: 5_000, tint: 10), .storyboard(columns: 2, rows: 2),
            .soulOut(scale: 1.5, opacity: 0.5), .blend(.black.with(alpha: 0.5), .destinationIn),
        ]
        return sizes + frames + shapes + filters
    }

    /// The members of bindings, players and errors.
    static func members(_ binding: ImageBinding, _ player: AnimationPlayer, _ error: DipperError) -> [ImageTransition] {
        binding.cancel()
        _ = (player.pause(), player.stop(), player.releaseBuffer(), player.state, player.currentFrame)
        _ = (player.currentIndex == player.frameCount - 1, player.options.bufferCount, binding.player)
        _ = (error.isCancelled, error.isReplaced, error.status, error.url, error.detail, error.shortDescription)
        _ = error.earlier.map(\.url)
        let second = Duration.seconds(1)
        return [
            .none, .fade(second), .flip(from: .left, second), .slide(from: .top, second), .custom("name", second),
        ]
    }

    static func calls(
        _ cache: ImageCache, _ url: URL, _ request: ImageRequest, _ key: CacheKey, _ image: Image, _ bytes: Data
    ) async throws {
        let data = cache.data
        _ = (cache.getImage(url), cache.getImage(request), cache.getImage("\(url)"), cache.getImage(named: "name"))
        _ = (cache.slowGetImage(url), cache.slowGetImage(request))
        _ = (cache.getRemoteImage(url), cache.getRemoteImage(request))
        _ = (cache.moveTaskToSlowQueue(url), cache.moveTaskToSlowQueue(request), cache.moveTaskToSlowQueue(key))
        _ = (data.getData(url), data.getData(request.data), data.slowGetData(url), data.slowGetData(request.data))
        _ = (data.getRemoteData(url), data.getRemoteData(request.data), data.queueCounts)
        _ = (data.moveTaskToSlowQueue(url), data.moveTaskToSlowQueue(request.data), data.moveTaskToSlowQueue(key))
        _ = (cache.readImage(for: url), cache.readImage(for: request), cache.readImage(named: "name"))
        _ = (cache.imageInMemory(for: url), cache.imageInMemory(for: request), cache.imageInMemory(for: key))
        _ = (await cache.image(for: url), await cache.image(for: key), cache.readImage(for: key))
        _ = (data.dataInMemory(for: key), data.dataInMemory(for: url), await data.data(for: request.data))
        _ = (cache.hasImage(for: url), cache.hasImage(for: url, in: .memory), await data.data(for: key))
        _ = (cache.hasImage(for: request), cache.hasProcessedImage(for: request), cache.cachedSource(for: request))
        _ = (try cache.addImage(image, bytes: bytes, for: request), try cache.addImage(bytes: bytes, for: url))
        _ = (try cache.addImage(bytes: bytes, for: request), try cache.addImage(image, for: url))
        try cache.addImage(image, for: request)
        try await cache.addImageAndWait(image, for: request)
        _ = (request.cacheKey.digest, request.url, cache.file(for: request), cache.diskCount, cache.diskSize)
        _ = (cache.memoryCount, cache.memorySize, cache.memoryPressure)
        _ = (cache.events(about: .removals), cache.events(about: .requests))
        try data.addData(bytes, for: key)
        try await data.addDataAndWait(bytes, for: key)
        _ = (data.readData(for: url), data.readData(for: request.data), data.readData(for: key), data.diskSize)
        _ = (data.hasData(for: url), data.hasData(for: request.data), data.hasData(for: key, in: .disk))
        _ = (data.entry(for: key)?.expires, data.file(for: key))
        await cache.synchronize()
        try await cache.write { $0.clearDisk() }
        _ = await cache.read { ($0.hasImage(for: url), $0.cachedSource(for: request)) }
        _ = (await cache.image(for: key, in: .disk), await data.data(for: key, in: .disk))
        _ = (ImageCache(name: "avatars"), DataCache(name: "feeds"), ImageCache.Configuration(name: "avatars"))
        _ = (ImageRequest(named: "logo", in: cache).processed(by: .circle), ImageRequest(named: "logo"))
        try await cache.addImageAndWait(image, for: url)
        _ = (cache.invalidate(url), data.invalidate(url), data.removeData(for: url), cache.cachedSource(for: key))
        _ = (request.with(\.transport, CurlTransport()), request.with(\.allowsConstrainedNetwork, false))
        cache.slowQueue.allowsConstrainedNetwork = false
        _ = (cache.removeVariant(for: request, from: .memory), cache.removeVariant(for: request, from: .disk))
        _ = (cache.removeVariant(for: request), cache.removeImage(for: request), cache.removeImage(for: url))
        _ = (data.removeData(for: key, from: .memory), data.removeData(for: key), data.removeData(for: request.data))
        _ = (cache.removeExpired(), data.removeExpired())
        _ = (cache.flush(olderThan: .seconds(86_400)), data.flush(olderThan: .seconds(86_400)))
        _ = (cache.trimDisk(to: 1 << 20), data.trimDisk(to: 0), cache.trimMemory(to: cache.memorySize))
        cache.clearDisk()
        cache.diskLimit = 1 << 30
        data.diskLimit = 1 << 30
        cache.memoryLimit = 300 << 20
        cache.memoryCountLimit = 500
        cache.slowQueue.maxConcurrent = 2
        data.fastQueue.maxConcurrent = 5
        data.fastQueue.isSuspended = false
        data.slowQueue.isSuspended = false
        _ = (cache.cancel(url), cache.cancelAll(), data.cancelAll(), cache.clearMemory(), cache.clear())
    }
}
