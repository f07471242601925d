#if GTK
    import CGTK4
    import Dipper

    /// The drawing of a widget: the content, the fade from one to the next, and the progress of what is loading.
    final class Stage {
        /// Valid until the end.
        private let widget: UnsafeMutablePointer<GtkWidget>
        private(set) var layer = Layer.nothing
        /// The content below a preview, which is transparent where bytes are missing, until the fade to the picture ends.
        private var under: Layer?
        private var isPreview = false
        /// The content that `layer` replaces, for the duration of the fade.
        private var fading: Layer?
        private var fade = 1.0
        private var fadeLength = 0.0
        /// In microseconds; `nil` before the first frame of the fade.
        private var fadeStart: gint64?
        private var tick: guint = 0
        var mayFade = true

        var isLoading = false { didSet { redraw() } }
        var activity: DisplayActivity? {
            didSet {
                if activity == nil {
                    (patience, isSlow) = (nil, false)
                } else if patience == nil, !isSlow {
                    // A bar that flashes up for each picture tells nothing.
                    patience = Timeout(milliseconds: 300) { [weak self] in
                        self?.isSlow = true
                        self?.redraw()
                    }
                }
                if isSlow || oldValue != nil { redraw() }
            }
        }
        private var patience: Timeout?
        private var isSlow = false
        private var isEnded = false

        init(_ widget: UnsafeMutablePointer<GtkWidget>) { self.widget = widget }

        func end() {
            settle()
            patience = nil
            isEnded = true
        }

        // MARK: Content

        func show(_ content: DisplayContent, _ transition: ImageTransition) {
            let old = layer
            layer = Layer(content)
            if case .preview = content {
                if !isPreview { under = old }
                isPreview = true
            } else {
                isPreview = false
            }
            if case .frame = content, fading != nil { return redraw() }
            begin(transition, from: old)
            redraw()
        }

        /// Every kind of transition with a duration is a fade here.
        private func begin(_ transition: ImageTransition, from old: Layer) {
            guard mayFade, transition.duration > .zero, gtk_widget_get_mapped(widget) != 0 else { return settle() }
            (fading, fade, fadeStart) = (old, 0, nil)
            fadeLength = transition.duration / .microseconds(1)
            guard tick == 0 else { return }
            tick = gtk_widget_add_tick_callback(
                widget,
                { _, clock, data in
                    guard let data else { return 0 }
                    let stage = Unmanaged<Stage>.fromOpaque(data).takeUnretainedValue()
                    return stage.advance(to: gdk_frame_clock_get_frame_time(clock)) ? 1 : 0
                }, Unmanaged.passUnretained(self).toOpaque(), nil)
        }

        /// - Returns: whether the fade goes on.
        private func advance(to time: gint64) -> Bool {
            let start = fadeStart ?? time
            fadeStart = start
            fade = min(Double(time - start) / fadeLength, 1)
            redraw()
            if fade < 1 { return true }
            tick = 0
            settle()
            return false
        }

        /// Ends the fade.
        func settle() {
            fading = nil
            if !isPreview { under = nil }
            if tick != 0 { gtk_widget_remove_tick_callback(widget, tick) }
            tick = 0
        }

        private func redraw() { if !isEnded { gtk_widget_queue_draw(widget) } }

        // MARK: Drawing

        func draw(
            _ snapshot: OpaquePointer, _ room: Frame, _ fit: GtkContentFit, cornerRadius: Double, showsProgress: Bool
        ) {
            guard room.width > 0, room.height > 0 else { return }
            // A preview may have fewer pixels than the picture, whose place it takes.
            let fit = isPreview && fit == GTK_CONTENT_FIT_SCALE_DOWN ? GTK_CONTENT_FIT_CONTAIN : fit
            let painter = Painter(
                snapshot: snapshot, widget: widget, room: room, fit: fit, radius: cornerRadius,
                isWaiting: isLoading)
            if let fading {
                gtk_snapshot_push_cross_fade(snapshot, fade * fade * (3 - 2 * fade))
                if let under { painter.draw(under) }
                painter.draw(fading)
                gtk_snapshot_pop(snapshot)
                painter.draw(layer)
                gtk_snapshot_pop(snapshot)
            } else {
                if let under { painter.draw(under) }
                painter.draw(layer)
            }
            if let activity, isSlow, showsProgress { painter.draw(activity) }
            if gtk_widget_has_visible_focus(widget) != 0 { painter.drawFocus() }
        }
    }

    /// Draws content into a widget.
    struct Painter {
        let snapshot: OpaquePointer
        let widget: UnsafeMutablePointer<GtkWidget>
        let room: Frame
        let fit: GtkContentFit
        let radius: Double
        let isWaiting: Bool

        func draw(_ layer: Layer) {
            switch layer {
            // In the colour of text, so that a light and a dark theme both show it.
            case .nothing: if isWaiting { clipped(to: room) { fill(room, ink.fainter(0.07)) } }
            case .color(let color): clipped(to: room) { fill(room, color) }
            case .icon(let name):
                clipped(to: room) { fill(room, ink.fainter(0.07)) }
                draw(icon: name)
            case .picture(let texture):
                let scale = Double(gtk_widget_get_scale_factor(widget))
                // A picture that is not scaled up by the fit has its size in points.
                let size = texture.image
                let points = fit == GTK_CONTENT_FIT_SCALE_DOWN ? scale : 1
                let place = room.place(
                    width: Double(size.width) / points, height: Double(size.height) / points, fit, scale: scale)
                clipped(to: place.within(room)) { texture.draw(snapshot, place, in: widget) }
            }
        }

        private func clipped(to frame: Frame, _ body: () -> Void) {
            var bounds = frame.rect
            let radius = min(radius, frame.width / 2, frame.height / 2)
            if radius > 0 {
                var outline = GskRoundedRect()
                gsk_rounded_rect_init_from_rect(&outline, &bounds, Float(radius))
                gtk_snapshot_push_rounded_clip(snapshot, &outline)
            } else {
                gtk_snapshot_push_clip(snapshot, &bounds)
            }
            body()
            gtk_snapshot_pop(snapshot)
        }

        private func fill(_ frame: Frame, _ color: GdkRGBA) {
            var (color, bounds) = (color, frame.rect)
            gtk_snapshot_append_color(snapshot, &color, &bounds)
        }

        /// The colour of text.
        private var ink: GdkRGBA {
            var color = GdkRGBA()
            gtk_style_context_get_color(gtk_widget_get_style_context(widget), &color)
            return color
        }

        private func draw(icon name: String) {
            let length = min(48, room.width * 0.6, room.height * 0.6).rounded()
            guard length >= 1, let display = gtk_widget_get_display(widget),
                let icon = gtk_icon_theme_lookup_icon(
                    gtk_icon_theme_get_for_display(display), name, nil, Int32(length),
                    gtk_widget_get_scale_factor(widget), gtk_widget_get_direction(widget), GtkIconLookupFlags(0))
            else { return }
            gtk_snapshot_save(snapshot)
            var origin = graphene_point_t(
                x: Float(((room.width - length) / 2).rounded()), y: Float(((room.height - length) / 2).rounded()))
            gtk_snapshot_translate(snapshot, &origin)
            var color = ink.fainter(0.55)
            gtk_symbolic_paintable_snapshot_symbolic(icon, snapshot, length, length, &color, 1)
            gtk_snapshot_restore(snapshot)
            g_object_unref(UnsafeMutableRawPointer(icon))
        }

        func draw(_ activity: DisplayActivity) {
            let height = min(3, room.height)
            var bar = Frame(y: room.height - height, width: room.width, height: height)
            clipped(to: room) {
                fill(bar, ink.fainter(0.15))
                if !activity.isWaiting { bar.width = (room.width * activity.fraction).rounded() }
                if gtk_widget_get_direction(widget) == GTK_TEXT_DIR_RTL { bar.x = room.width - bar.width }
                fill(bar, ink.fainter(activity.isWaiting ? 0.35 : 0.8))
            }
        }

        func drawFocus() {
            var bounds = room.rect
            var outline = GskRoundedRect()
            gsk_rounded_rect_init_from_rect(&outline, &bounds, Float(min(radius, room.width / 2, room.height / 2)))
            var widths: [Float] = [2, 2, 2, 2]
            var colors = [GdkRGBA](repeating: ink.fainter(0.8), count: 4)
            gtk_snapshot_append_border(snapshot, &outline, &widths, &colors)
        }
    }

    extension Frame {
        func within(_ room: Frame) -> Frame {
            let (left, top) = (max(x, room.x), max(y, room.y))
            let (right, bottom) = (min(x + width, room.x + room.width), min(y + height, room.y + room.height))
            return Frame(x: left, y: top, width: max(0, right - left), height: max(0, bottom - top))
        }
    }
#endif
