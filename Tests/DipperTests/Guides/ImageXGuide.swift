import Dipper
import Foundation

/// The code of "Coming from ImageX".
enum ImageXGuide {
    static func network(_ url: URL, _ page: String) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.retryPolicy, .fixed(.seconds(3), retries: 3))  // Network.retry
            .with(\.timeout, .seconds(20))  // Network.timeoutInterval
            .with(\.headers, ["Referer": page])  // Network.headers
            .processed(by: .fitting(width: 300, height: 200, .aspectFill))  // resizingMode, thumbnailPixelSize
        return request
    }

    static func display(_ binding: ImageBinding, _ request: ImageRequest) {
        binding.setImage(request, placeholder: .color(.black))
    }

    static func options() -> DisplayOptions {
        let playback = AnimationOptions(loop: .count(3), bufferCount: 20)  // Animated.loop, Animated.bufferCount
        let options = DisplayOptions()
            .with(\.animation, playback)
            .with(\.downsampling, .fill)  // thumbnailPixelSize = .zero
        return options
    }

    /// The options in the tables, but for those above.
    static func allOptions(_ bytes: Data, _ key: CacheKey) -> ImageRequest {
        var request = ImageRequest(MemoryProvider(bytes, key: key))
        request.progressInterval = .milliseconds(20)
        request.memoryExpiration = .expired
        request.cachePolicy = .useCache
        request.priority = Priority(0.8)
        request.retryPolicy = .accumulated(.seconds(3), retries: 3)
        request.modifier = RequestModifier(identity: "form") { request in
            var request = request
            request.method = "POST"
            request.body = bytes
            return request
        }
        return request
    }

    /// The counterparts of modes and filters in the tables.
    static func processors() -> [any ImageProcessor] {
        let sizes: [any ImageProcessor] = [
            .fitting(width: 30, height: 20, .original), .fitting(width: 30, height: 20, .scaleToFill),
            .fitting(width: 30, height: 20, .aspectFit), .fitting(width: 30, height: 20, .aspectFill.at(.bottomRight)),
            .fitting(width: 30, height: 20, .aspectFill.at(.topLeft)), .rotate(degrees: 90),
        ]
        let filters: [any ImageProcessor] = [
            .whiteBalance(temperature: 5_000, tint: 10), .storyboard(columns: 2, rows: 2), .flip(.horizontal),
            .soulOut(scale: 1.5, opacity: 0.5), .blend(.black.with(alpha: 0.5), .destinationIn),
        ]
        return sizes + filters
    }

    static func play(_ data: Data, _ view: Stage) throws -> AnimatedImage {
        let image = try CodecRegistry.standard.decode(data)
        let player = AnimatedImage(image, options: AnimationOptions(loop: .count(5)))
            .onPrepared { view.start() }
            .onFrame { frame, _ in view.show(frame) }
            .onFinish { view.hide() }
        player.start()
        return player
    }

    static func cache(_ configuration: inout ImageCache.Configuration) {
        configuration.data.fileNaming = .md5  // Cache.cacheCrypto
        configuration.data.compression = .gzip  // Cache.cacheDataZip
        configuration.data.diskLimit = 200 << 20  // maxCountLimit
        configuration.data.diskExpiration = .days(7)  // expiry
        configuration.data.progressInterval = .milliseconds(20)  // Network.downloadInterval
    }
}
