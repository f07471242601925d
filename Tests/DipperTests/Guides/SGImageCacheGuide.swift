import Dipper
import Foundation

/// The code of "Coming from SGImageCache", and its tables.
enum SGImageCacheGuide {
    static func shared(_ url: URL, _ view: Stage, _ spinner: Stage, _ banner: Stage) {
        let task = ImageCache.shared.getImage(url)
        task.then { image in view.show(image) }
        task.onRetry { spinner.start() }
        task.onFail { error, isFatal in banner.show(error, isFatal ? "for good" : "for now") }
    }

    static func request(_ url: URL, _ user: String, _ token: String) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.headers, ["Authorization": "Bearer \(token)"])  // requestHeaders:
            .with(\.key, CacheKey("\(user) \(url)"))  // cacheKey:
        return request
    }

    static func view(_ view: Stage, _ url: URL, _ cache: ImageCache, _ placeholder: Image) {
        view.url = url
        if let image = cache.image(for: url) {
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

    /// The calls in the tables, in their order.
    static func tables(_ cache: ImageCache, _ url: URL, _ request: ImageRequest, _ key: CacheKey, _ image: Image) throws
    {
        _ = (cache.getImage(url), cache.getImage(request), cache.slowGetImage(url), cache.slowGetImage(request))
        _ = (cache.getRemoteImage(url), cache.getRemoteImage(request))
        _ = (cache.moveTaskToSlowQueue(url), cache.moveTaskToSlowQueue(request), cache.moveTaskToSlowQueue(key: key))
        _ = (cache.hasImage(for: url), cache.hasImage(for: request), cache.image(for: url), cache.image(for: request))
        _ = (cache.image(named: "name"), cache.getImage(named: "name"), request.cacheKey.digest)
        _ = (try cache.addImage(image, for: url), try cache.addImage(bytes: Data("bytes".utf8), for: url))
        _ = (cache.file(for: request), cache.memoryPressure)
        _ = (cache.removeImage(for: url), cache.flush(olderThan: .seconds(86_400)))
        cache.memoryLimit = 100 << 20
        _ = (cache.trimMemory(to: cache.memorySize), cache.clearMemory())

        let data = cache.data
        let (bytes, request) = (Data("bytes".utf8), request.data)
        _ = (data.getData(url), data.getData(request), data.slowGetData(url), data.slowGetData(request))
        _ = (data.getRemoteData(url), data.getRemoteData(request))
        _ = (data.moveTaskToSlowQueue(url), data.moveTaskToSlowQueue(request), data.moveTaskToSlowQueue(key: key))
        _ = (data.hasData(for: url), data.hasData(for: request), data.hasData(for: key))
        _ = (data.data(for: url), data.data(for: request), data.data(for: key))
        _ = (try data.addData(bytes, for: key), data.removeData(for: key), data.flush(olderThan: .seconds(86_400)))
        _ = (data.queueCounts, data.cancelAll())
        data.fastQueue.isSuspended = false
        data.slowQueue.isSuspended = false
    }
}
