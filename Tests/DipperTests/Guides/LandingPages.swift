import Dipper
import Foundation

/// The code of the README and of the landing pages.
enum LandingPages {
    typealias ImageCache = SharedCaches.ImageCache
    typealias DataCache = SharedCaches.DataCache

    static func readme(
        _ url: URL, _ nextURL: URL, _ feedURL: URL, _ banner: Stage, _ bar: Stage, _ view: Stage
    ) async throws {
        let cache = ImageCache.shared
        let task = cache.getImage(url)  // urgent: memory, disk, network
            .onProgress { progress in bar.set(progress.fraction) }
            .onEnd { result in if case .failure(let error) = result { banner.show(error) } }
        view.show(try await task.value)  // without a network it waits, and tries again by itself

        cache.slowGetImage(nextURL)  // prefetch: one at a time, only while nothing urgent runs
        cache.getImage(nextURL)  // its row comes into view: the same fetch, now urgent
        cache.moveTaskToSlowQueue(nextURL)  // the row leaves: the fetch goes on as a prefetch
        if let image = cache.imageInMemory(for: nextURL) { view.show(image) }  // never blocks: for main threads

        let thumbnail = ImageRequest(url).processed(by: .fitting(width: 200, height: 200, .aspectFill))
        cache.getImage(thumbnail) { image in view.show(image) }  // a square of the same bytes, not fetched again
        let feed = try await cache.data.getData(feedURL).value  // any bytes: JSON, PDF
        // A command-line program ends with `await cache.shutdown()`.
        print(feed.count)
    }

    static func dipper(_ url: URL, _ nextURL: URL) async throws -> Image {
        let cache = ImageCache.shared
        let image = try await cache.getImage(url).value
        cache.slowGetImage(nextURL)
        return image
    }

    static func dipperData(_ feedURL: URL, _ nextPageURL: URL) async throws -> Data {
        let cache = DataCache.shared
        let feed = try await cache.getData(feedURL).value
        cache.slowGetData(nextPageURL)
        return feed
    }
}
