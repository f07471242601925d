import Synchronization
import TestSupport

enum DisplaysGuide {
    final class PhotoView: ImageDisplay {
        func show(_ content: DisplayContent, _ transition: ImageTransition) {
            if let image = content.image {
                draw(image, over: transition.duration)
            } else {
                fill(content.color ?? .clear)
            }
        }
    }

    final class ActivityView: ImageDisplay {
        let bar = Stage()

        func show(_ content: DisplayContent, _ transition: ImageTransition) {}

        func showActivity(_ activity: DisplayActivity?) {
            guard let activity else { return bar.hide() }  // nothing is loading
            bar.set(activity.progress?.fraction ?? 0)  // no progress: no byte yet, or the length is not known
            if activity.isWaiting { bar.show("Waiting for the network") }
        }
    }

    static func binding(_ cache: ImageCache, _ url: URL, _ loop: Loop) -> (PhotoView, ImageBinding) {
        let view = PhotoView()
        let binding = ImageBinding(view, cache: cache, queue: .custom { work in loop.runWhenIdle(work) })
        binding.setImage(url, placeholder: .color(Color(hex: 0xe0e0e0)))
        return (view, binding)
    }

    static func completion(
        _ binding: ImageBinding, _ request: ImageRequest, _ blurred: Image, _ options: DisplayOptions, _ caption: Stage
    ) {
        binding.setImage(request, placeholder: .image(blurred), options: options) { result in
            switch result {
            case .success(let response): caption.show("\(response.source)")
            case .failure(.replaced): break
            case .failure(let error): caption.show(error)
            }
        }
    }

    struct Photo {
        var url: URL
        var hash: String
        var blurHash: String
        var size: PixelSize
        var color: Color
    }

    static func placeholders(_ binding: ImageBinding, _ photo: Photo) {
        binding.setImage(photo.url, placeholder: .thumbHash(photo.hash))
        binding.setImage(photo.url, placeholder: .blurHash(photo.blurHash, for: photo.size))
        binding.setImage(photo.url, placeholder: .color(photo.color))
    }

    static func sizes(_ binding: ImageBinding, small: URL, medium: URL, large: URL) -> (ImageRequest, ImageRequest) {
        let request = ImageRequest(widths: [320: small, 640: medium, 1280: large])
        binding.setImage(request, options: DisplayOptions().with(\.downsampling, .fill))
        let cell = request.processed(by: .downsample(width: 160, height: 120).points).with(\.scale, 2)  // 320 pixels
        return (request, cell)
    }

    static func hiding(_ cache: ImageCache) {
        cache.isHidden = true  // the last window has been minimized
        cache.isHidden = false  // one is back
    }

    static func options() -> DisplayOptions {
        let options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(200)))
            .with(\.failure, .color(Color(hex: 0xc03030)))
            .with(\.keepsCurrentImage, true)
            .with(\.loadsFromDiskAtOnce, true)
        return options
    }

    static func presence(_ binding: ImageBinding) {
        binding.didDisappear()
        binding.willAppear()
    }

    static func list(_ cache: ImageCache, _ photos: [URL], _ binding: ImageBinding) -> ListLoader {
        let list = ListLoader(cache, count: photos.count) { row in
            [ImageRequest(photos[row]).processed(by: .downsample(width: 320, height: 240))]
        }
        list.update(visible: 0..<12)
        list.attach(binding, to: 3, placeholder: .color(.black))
        return list
    }

    static func screen(_ cache: ImageCache, _ nearby: [URL], _ passed: [URL]) {
        let prefetcher = ImagePrefetcher(cache, urls: []).start()
        prefetcher.add(urls: nearby)  // these rows come near
        prefetcher.remove(urls: passed)  // these have gone
        prefetcher.stop()  // the screen is closed
    }
}

extension DisplaysGuide.PhotoView {
    static let told = Box<[String]>([])

    private func draw(_ image: Image, over time: Duration) { note("\(image.size) over \(time)") }
    private func fill(_ color: Color) { note(color.hex) }
    private func note(_ text: String) { Self.told.update { $0.append(text) } }
}
