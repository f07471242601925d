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

    static func play(_ data: Data, _ view: Stage) throws -> AnimationPlayer {
        let image = try Image(data: data)
        let player = AnimationPlayer(image, options: AnimationOptions(loop: .count(5)))
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
