import Dipper
import Foundation

/// The code of "Coming from SGImageCache".
enum SGImageCacheGuide {
    enum Shared {
        typealias ImageCache = SharedCaches.ImageCache

        static func image(_ url: URL, _ view: Stage, _ spinner: Stage, _ banner: Stage) {
            let task = ImageCache.shared.getImage(url)
            task.then { image in view.show(image) }
            task.onRetry { spinner.start() }
            task.onFail { error, isFatal in banner.show(error, isFatal ? "for good" : "for now") }
        }
    }

    static func request(_ url: URL, _ user: String, _ token: String) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.headers, ["Authorization": "Bearer \(token)"])  // requestHeaders:
            .with(\.key, CacheKey("\(user) \(url)"))  // cacheKey:
        return request
    }

    static func view(_ view: Stage, _ url: URL, _ cache: ImageCache, _ placeholder: Image) {
        view.url = url
        if let image = cache.imageInMemory(for: url) {
            view.show(image)
        } else {
            view.show(placeholder)
            cache.getImage(url) { image in if view.url == url { view.show(image) } }
        }
    }

    static func binding(
        _ view: any ImageDisplay, _ url: URL, _ cache: ImageCache, _ placeholder: Image, _ loop: Loop
    ) -> ImageBinding {
        let fade = DisplayOptions().with(\.transition, .fade(.milliseconds(300)))
        let binding = ImageBinding(view, cache: cache, queue: .custom { work in loop.runWhenIdle(work) })
        binding.setImage(url, placeholder: .image(placeholder), options: fade)
        return binding
    }

    static func onScreen(_ binding: ImageBinding) {
        binding.didDisappear()  // it has left the window
        binding.willAppear()  // it is back
    }

    static func immutable(_ configuration: inout ImageCache.Configuration) {
        configuration.data.freshness = .immutable(for: .never)
    }
}
