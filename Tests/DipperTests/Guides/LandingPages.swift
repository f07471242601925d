import Dipper
import Foundation

/// The code of the README and of Dipper's landing page.
enum LandingPages {
    static func readme(
        _ url: URL, _ nextURL: URL, _ feedURL: URL, _ spinner: Stage, _ banner: Stage, _ bar: Stage, _ view: Stage
    ) async throws {
        let cache = ImageCache.shared
        let task = cache.getImage(url)  // urgent: memory, disk, network
        task.onProgress { progress in bar.set(progress.fraction) }
        task.onRetry { error in banner.show(error, "trying again") }
        task.onEnd { result in if case .failure(let error) = result { banner.show(error) } }
        let image = try await task.value  // or task.then { image in … }
        view.show(image)

        cache.slowGetImage(nextURL)  // prefetch: one at a time, only while nothing urgent runs
        cache.moveTaskToSlowQueue(url)  // scrolled away: in place, nothing is started anew
        if let image = cache.imageInMemory(for: url) { view.show(image) }  // never blocks: for main threads

        let thumbnail = ImageRequest(url).processed(by: .downsample(width: 200, height: 200, .fill))
        cache.getImage(thumbnail) { image in view.show(image) }  // the same bytes, decoded to that size
        let feed = try await cache.data.getData(feedURL).value  // any bytes: JSON, PDF
        print(feed.count)
    }

    static func dipper(_ url: URL, _ nextURL: URL) async throws -> Image {
        let cache = ImageCache.shared
        let image = try await cache.getImage(url).value
        cache.slowGetImage(nextURL)
        return image
    }
}
