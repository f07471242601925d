import Dipper

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
