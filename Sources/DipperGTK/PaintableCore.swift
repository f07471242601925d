#if GTK
    import CGTK4
    import Dipper
    import GTKShims

    /// Swift's part of the paintable, which GTK's instance owns.
    final class PaintableCore: ImageDisplay {
        /// Valid until the end.
        private let paintable: OpaquePointer
        private var isEnded = false
        var cache: ImageCache?
        var placeholder: DisplayOptions.Placeholder?
        /// The size to decode to; `nil` for the picture's own.
        var target: TargetSize?

        private var binding: ImageBinding?
        private var look: HeaderLook?
        private var scale = 1.0
        /// In pixels of the picture; `nil` if it is not known.
        private var size: PixelSize?
        private var layer = Layer.nothing
        /// Whether somebody has drawn the content that was shown last.
        private var isDrawn = true
        private var isResting = false
        private var setting: (object: UnsafeMutableRawPointer, handler: gulong)?
        private var request: ImageRequest?

        init(_ paintable: OpaquePointer) { self.paintable = paintable }

        func end() {
            isEnded = true
            if let setting { g_signal_handler_disconnect(setting.object, setting.handler) }
            (setting, binding) = (nil, nil)
            look?.cancel()
            look = nil
        }

        func set(_ request: ImageRequest) {
            let loader = cache ?? .shared
            self.request = request
            scale = max(request.options.scale ?? 1, 0.01)
            watchSetting()
            let core = OnGTK(self)
            let isProcessed = loader.options(of: request).processors?.isEmpty == false
            if !isProcessed, let known = KnownSizes[request, in: loader] { size = target?.size(for: known) ?? known }
            binding = ImageBinding(self, cache: loader, queue: .glib)
            ask(isAgain: false)
            guard size == nil, !isProcessed else { return }
            look = HeaderLook(request, in: loader, isUrgent: true) { size in core.object?.found(size) }
        }

        private func ask(isAgain: Bool) {
            guard let request else { return }
            let options = DisplayOptions().with(\.playsAnimations, Setting.isAnimating(nil))
                .with(\.keepsCurrentImage, isAgain).with(\.releasesUnderPressure, false)
            binding?.setImage(
                target.map { request.processed(by: .resize(to: $0)) } ?? request, placeholder: placeholder,
                options: options)
        }

        private func watchSetting() {
            guard setting == nil, let settings = gtk_settings_get_default() else { return }
            let object = UnsafeMutableRawPointer(settings)
            let handler = GtkSignal.connect(object, "notify::gtk-enable-animations") { [weak self] in
                self?.ask(isAgain: true)
            }
            setting = (object, handler)
        }

        private func found(_ header: PixelSize?) {
            guard !isEnded else { return }
            look?.cancel()
            if let header { become(target?.size(for: header) ?? header) }
        }

        /// The size that was known may be that of an earlier picture of the URL.
        private func correct(_ new: PixelSize) {
            guard size != new else { return }
            if size != nil, let request { KnownSizes.remove(request, in: cache ?? .shared) }
            size = new
            gdk_paintable_invalidate_size(paintable)
        }

        private func become(_ new: PixelSize) {
            guard size == nil else { return }
            size = new
            gdk_paintable_invalidate_size(paintable)
        }

        var points: (width: Int32, height: Int32) {
            guard let size else { return (0, 0) }
            return (
                Int32(clamping: Int((Double(size.width) / scale).rounded(.up))),
                Int32(clamping: Int((Double(size.height) / scale).rounded(.up)))
            )
        }

        // MARK: Content

        func show(_ content: DisplayContent, _ transition: ImageTransition) {
            guard !isEnded else { return }
            layer = Layer(content)
            if case .image(let image) = content { correct(image.size) }
            // Frames that nobody has drawn are not worth decoding.
            if case .frame = content, !isDrawn, !isResting {
                isResting = true
                binding?.didDisappear()
            }
            isDrawn = false
            gdk_paintable_invalidate_contents(paintable)
        }

        func draw(_ snapshot: OpaquePointer, width: Double, height: Double) {
            isDrawn = true
            if isResting {
                isResting = false
                let core = OnGTK(self)
                CallbackQueue.glib.perform { core.object?.binding?.willAppear() }
            }
            let frame = Frame(width: width, height: height)
            switch layer {
            case .picture(let texture): texture.draw(snapshot, frame, in: nil)
            case .color(var color):
                var bounds = frame.rect
                gtk_snapshot_append_color(snapshot, &color, &bounds)
            case .icon, .nothing: break
            }
        }

        /// The present content, which does not change; the caller owns it.
        var still: OpaquePointer {
            guard let texture = layer.texture else { return gdk_paintable_new_empty(points.width, points.height) }
            g_object_ref(UnsafeMutableRawPointer(texture.pointer))
            return texture.pointer
        }
    }
#endif
