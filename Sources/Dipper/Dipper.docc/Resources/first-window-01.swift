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
}
