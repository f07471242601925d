import TestSupport

/// The code of "Getting started" of Dipper.
enum GettingStartedGuide {
    static func onePicture(_ folder: URL, _ url: URL) async throws -> Image {
        let cache = ImageCache(.init(directory: folder))
        let image = try await cache.getImage(url).value
        await cache.shutdown()
        return image
    }

    static func hooks(_ cache: ImageCache, _ url: URL, _ bar: Stage, _ banner: Stage, _ view: Stage) -> ImageTask {
        cache.getImage(url)
            .onProgress { progress in bar.set(progress.fraction) }
            .onRetry { error in banner.show(error, "trying again") }
            .onEnd { result in
                switch result {
                case .success(let response): view.show(response.image)
                case .failure(let error): banner.show(error)
                }
            }
    }

    static func progress(_ task: ImageTask, _ bar: Stage) async {
        for await progress in task.progress { bar.set(progress.fraction) }
    }

    static func errors(_ cache: ImageCache, _ url: URL, _ view: Stage, _ banner: Stage) async {
        do {
            view.show(try await cache.getImage(url).value)
        } catch let error as DipperError where error.isCancelled {
            banner.hide()
        } catch {
            banner.show("\(error)")
        }

        if case .failure(let error) = await cache.getImage(url).result, error.status == 404 {
            banner.show("There is no such picture.")
        }
    }

    static func settings(_ folder: URL, _ loop: Loop) -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.callbackQueue = .custom { work in loop.runWhenIdle(work) }

        configuration.memoryLimit = 200 << 20  // decoded pictures, in bytes
        configuration.data.diskLimit = 1 << 30  // files, in bytes
        configuration.limits.pixels = 50_000_000  // of one picture
        return configuration
    }

    static func smallProcess(_ configuration: inout ImageCache.Configuration) {
        configuration.memoryLimit = 40 << 20  // decoded pictures
        configuration.decodingMemory = 16 << 20  // pictures that are being decoded and processed
        configuration.undecodedBytes = 4 << 20  // files that wait to be decoded
        configuration.data.inFlightLimit = 4 << 20  // bodies that are being received
    }

    static func urgency(_ cache: ImageCache, _ url: URL) {
        cache.slowGetImage(url)  // the row is below the screen
        cache.getImage(url)  // it came into view: the same fetch, now urgent
        cache.moveTaskToSlowQueue(url)  // it left: still the same fetch
        cache.cancel(url)  // the list is closed
    }

    static func request(_ cache: ImageCache, _ url: URL, _ token: String, _ view: Stage) -> ImageRequest {
        let request = ImageRequest(url)
            .with(\.headers, ["Authorization": "Bearer \(token)"])
            .with(\.priority, .high)
            .processed(by: .downsample(width: 400, height: 300))
        cache.getImage(request) { image in view.show(image) }
        return request
    }

    static func peek(_ cache: ImageCache, _ url: URL, _ placeholder: Image, _ view: Stage) {
        if let image = cache.imageInMemory(for: url) {
            view.show(image)
        } else {
            view.show(placeholder)
            cache.getImage(url) { image in view.show(image) }
        }
    }

    static func awaited(_ cache: ImageCache, _ url: URL) async throws -> Bool {
        let isThere = await cache.read { $0.hasImage(for: url) }
        try await cache.write { $0.removeImage(for: url) }
        return isThere
    }

    static func shared() -> ImageCache {
        var configuration = ImageCache.Configuration(directory: ImageCache.Configuration.defaultDirectory)
        configuration.memoryLimit = 200 << 20
        ImageCache.shared = ImageCache(configuration)
        let avatars = ImageCache(name: "avatars")  // in a folder of its own
        return avatars
    }

    static func pixels(_ image: Image, _ window: Stage) {
        image.withPixels { bytes in
            window.draw(bytes, width: image.width, height: image.height, stride: image.rowStride)
        }
    }

    static func local(_ cache: ImageCache, _ file: URL, _ photo: Image, _ uploadURL: URL) async throws -> [Image?] {
        let icon = cache.readImage(named: "icons/home")
        let local = try await cache.getImage(file).value
        try cache.addImage(photo, for: uploadURL)
        return [icon, local]
    }

    static func data(_ cache: ImageCache, _ feedURL: URL) async throws -> Data {
        let feed = try await cache.data.getData(feedURL).value
        return feed
    }

}
