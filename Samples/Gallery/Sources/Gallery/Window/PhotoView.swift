import CGTK
import Dipper

/// A photograph in a cell of the grid. As an ``ImageDisplay``, the view draws the content that the cache gives to it
/// and knows nothing else of the cache.
final class PhotoView: Widget, ImageDisplay {
    private enum Layer {
        case nothing
        case color(GdkRGBA)
        case picture(Texture)
    }

    /// Whether the view shows the photograph itself and not a placeholder, a preview or a failure.
    private(set) var isComplete = false
    private(set) var frameCount = 0
    /// Whether the keyboard's cursor is on this cell.
    var hasCursor = false {
        didSet { if hasCursor != oldValue { gtk_widget_queue_draw(pointer) } }
    }

    private var layer = Layer.nothing
    /// The content that `layer` replaces, for the duration of the fade.
    private var fading: Layer?
    /// The progress of the fade, from 0 to 1.
    private var fade = 1.0
    private var fadeLength = 0.0
    /// The time of the fade's first frame, in microseconds; `nil` before that frame.
    private var fadeStart: Int64?
    private var isTicking = false
    private var activity: DisplayActivity?

    var isSettled: Bool { fading == nil }

    // MARK: ImageDisplay

    func show(_ content: DisplayContent, _ transition: ImageTransition) {
        let old = layer
        if let image = content.image {
            layer = .picture(Texture(image))
        } else if let color = content.color {
            layer = .color(GdkRGBA(color))
        } else {
            layer = .nothing
        }
        switch content {
        case .image: (isComplete, frameCount) = (true, 0)
        case .frame: frameCount += 1
        case .nothing, .placeholder, .preview, .failure: isComplete = false
        }
        // An animation that has just arrived goes on below the fade.
        if case .frame = content, fading != nil { return gtk_widget_queue_draw(pointer) }
        begin(transition, from: old)
        gtk_widget_queue_draw(pointer)
    }

    func showActivity(_ activity: DisplayActivity?) {
        self.activity = activity
        gtk_widget_queue_draw(pointer)
    }

    // MARK: Fading

    /// Starts a fade, which stands for every kind of transition with a duration.
    private func begin(_ transition: ImageTransition, from old: Layer) {
        guard transition.duration > .zero, gtk_widget_get_mapped(pointer) != 0 else {
            fading = nil
            return
        }
        fading = old
        fade = 0
        fadeLength = transition.duration / .microseconds(1)
        fadeStart = nil
        guard !isTicking else { return }
        isTicking = true
        Signals.tick(pointer) { [weak self] time in self?.advance(to: time) ?? false }
    }

    /// Advances the fade to the time of a frame.
    /// - Returns: Whether the fade goes on.
    private func advance(to time: Int64) -> Bool {
        let start = fadeStart ?? time
        fadeStart = start
        fade = min(Double(time - start) / fadeLength, 1)
        if fade >= 1 { fading = nil }
        gtk_widget_queue_draw(pointer)
        isTicking = fading != nil
        return isTicking
    }

    // MARK: Drawing

    override func draw(_ snapshot: OpaquePointer) {
        let (width, height) = (Float(size.width), Float(size.height))
        var bounds = graphene_rect_t(origin: .init(x: 0, y: 0), size: .init(width: width, height: height))
        var outline = GskRoundedRect()
        gsk_rounded_rect_init_from_rect(&outline, &bounds, Style.cornerRadius)
        gtk_snapshot_push_rounded_clip(snapshot, &outline)
        if let fading {
            gtk_snapshot_push_cross_fade(snapshot, Style.eased(fade))
            draw(fading, snapshot, width, height)
            gtk_snapshot_pop(snapshot)
            draw(layer, snapshot, width, height)
            gtk_snapshot_pop(snapshot)
        } else {
            draw(layer, snapshot, width, height)
        }
        drawActivity(snapshot, width, height)
        gtk_snapshot_pop(snapshot)
        if hasCursor {
            var widths: [Float] = [3, 3, 3, 3]
            var colors = [GdkRGBA](repeating: Style.accent, count: 4)
            gtk_snapshot_append_border(snapshot, &outline, &widths, &colors)
        }
    }

    private func draw(_ layer: Layer, _ snapshot: OpaquePointer, _ width: Float, _ height: Float) {
        switch layer {
        case .nothing:
            fill(snapshot, Style.emptyCell, x: 0, y: 0, width, height)
        case .color(let color):
            fill(snapshot, color, x: 0, y: 0, width, height)
        case .picture(let texture):
            // The picture covers the cell and the cell's outline clips the rest. Whole pixels keep the picture sharp.
            let scale = max(width / Float(texture.width), height / Float(texture.height))
            let (wide, high) = (Float(texture.width) * scale, Float(texture.height) * scale)
            var bounds = graphene_rect_t(
                origin: .init(x: ((width - wide) / 2).rounded(), y: ((height - high) / 2).rounded()),
                size: .init(width: wide, height: high))
            gtk_snapshot_append_texture(snapshot, texture.pointer, &bounds)
        }
    }

    private func drawActivity(_ snapshot: OpaquePointer, _ width: Float, _ height: Float) {
        guard let activity else { return }
        fill(snapshot, Style.track, x: 0, y: height - 4, width, 4)
        if activity.isWaiting {
            fill(snapshot, Style.waiting, x: 0, y: height - 4, width, 4)
        } else if activity.progress != nil {
            fill(snapshot, Style.progress, x: 0, y: height - 4, width * Float(activity.fraction), 4)
        }
    }

    private func fill(
        _ snapshot: OpaquePointer, _ color: GdkRGBA, x: Float, y: Float, _ width: Float, _ height: Float
    ) {
        var color = color
        var bounds = graphene_rect_t(origin: .init(x: x, y: y), size: .init(width: width, height: height))
        gtk_snapshot_append_color(snapshot, &color, &bounds)
    }
}
