import Dipper
import Foundation

/// The code of "Coming from Kingfisher", and its tables.
enum KingfisherGuide {
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

    /// The options in the tables, but for those above.
    static func allOptions(_ url: URL, _ data: DataCache, _ queue: CallbackQueue) -> ImageRequest {
        var request = ImageRequest(url).modified { image in image }
        request.originals = data
        request.priority = Priority(0.8)
        request.cachePolicy = .fromMemoryOrRefresh
        request.cachePolicy = .memoryOnly
        request.cachePolicy = .cacheOnly
        request.cachePolicy = .bypass
        request.waitsForDiskWrite = true
        request.callbackQueue = queue
        request.scale = 2
        request.preloadsFrames = true
        request.redirectHandler = RedirectHandler { _, request in request }
        request.serializer = .png
        request.firstFrameOnly = true
        request.keepsOriginal = true
        request.prefetchesToMemory = true
        request.durability = .durable
        request.memoryExpiration = .seconds(300)
        request.memoryAccessExtension = .cacheTime
        request.diskExpiration = .never
        request.diskAccessExtension = .expiration(.days(7))
        request.processingQueue = queue
        request.showsPreviews = true
        request.retryPolicy = .accumulated(.seconds(2), retries: 3)
        request.validation = .success
        request.credentials = .basic(user: "name", password: "word")
        return request
    }

    /// The calls in the tables.
    static func tables(
        _ cache: ImageCache, _ url: URL, _ request: ImageRequest, _ key: CacheKey, _ image: Image, _ bytes: Data
    ) async throws {
        _ = (cache.getImage(request), cache.getRemoteImage(url))
        _ = (cache.image(for: request), cache.hasImage(for: request), cache.hasProcessedImage(for: request))
        _ = (cache.cachedTier(for: request), cache.file(for: request), cache.diskSize, cache.memorySize)
        _ = (try cache.addImage(image, bytes: bytes, for: request), try cache.addImage(bytes: bytes, for: url))
        _ = (try cache.data.addData(bytes, for: key), cache.data.data(for: request.data))
        try await cache.data.addDataAndWait(bytes, for: key)
        await cache.synchronize()
        _ = (cache.removeImage(for: request), cache.removeImages(for: request))
        _ = (cache.data.removeData(for: key, from: .memory), cache.data.removeExpired())
        _ = (cache.setMemoryLimit(300 << 20, count: 500), cache.data.setDiskLimit(1 << 30))
        cache.data.fastQueue.maxConcurrent = 5
        _ = (cache.cancel(url), cache.cancelAll(), cache.clearMemory(), cache.clear())
    }
}
