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
    let view: PhotoView
    private let binding: ImageBinding

    init(cache: ImageCache = .shared, redraw: @escaping () -> Void) {
        view = PhotoView(redraw: redraw)
        binding = ImageBinding(view, cache: cache)
    }

    func open(_ photo: URL) {
        let request = ImageRequest(photo).processed(by: .downsample(width: 640, height: 480))
        let options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(200)))
            .with(\.failure, .color(Color(hex: 0xc03030)))
        binding.setImage(request, placeholder: .color(Color(hex: 0xe0e0e0)), options: options)
    }
}
