import Dipper
import Foundation

@MainActor
final class PhotoView: @MainActor ImageDisplay {
    private(set) var image: Image?
    private(set) var background = Color.clear
    private let redraw: () -> Void

    init(redraw: @escaping () -> Void) {
        self.redraw = redraw
    }

    func show(_ content: DisplayContent, _ transition: ImageTransition) {
        image = content.image
        background = content.color ?? .clear
        redraw()
    }

    typealias Copy = (_ pixels: UnsafeRawBufferPointer, _ width: Int, _ height: Int, _ stride: Int) -> Void

    func draw(fill: (Color) -> Void, copy: Copy) {
        fill(background)
        guard let image else { return }
        image.withPixels { pixels in
            copy(pixels, image.width, image.height, image.rowStride)
        }
    }
}

@MainActor
final class PhotoWindow {
    let views: [PhotoView]
    private let bindings: [ImageBinding]
    private let list: ListLoader
    private let count: Int

    init(_ photos: [URL], rows: Int, cache: ImageCache = .shared, redraw: @escaping () -> Void) {
        count = photos.count
        views = (0..<rows).map { _ in PhotoView(redraw: redraw) }
        bindings = views.map { ImageBinding($0, cache: cache) }
        list = ListLoader(cache, count: photos.count) { row in
            [ImageRequest(photos[row]).processed(by: .downsample(width: 320, height: 240))]
        }
    }

    func scroll(to first: Int) {
        let first = max(0, min(first, count - views.count))
        let rows = first..<min(first + views.count, count)
        list.update(visible: rows)
        for (binding, row) in zip(bindings, rows) {
            list.attach(binding, to: row, placeholder: .color(Color(hex: 0xe0e0e0)))
        }
    }
}
