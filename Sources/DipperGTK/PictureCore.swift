#if GTK
    import CGTK4
    import Dipper
    import DipperData
    import GTKShims

    /// Swift's part of the widget: it decides what is loaded, and keeps what is drawn. GTK's instance owns it, so it lives
    /// for as long as the instance, however a program holds that.
    ///
    /// A picture is loaded as soon as the widget has a size, in that size. A widget that is given no size asks for the
    /// header of the picture first, and then for room by the size that the header states.
    final class PictureCore {
        /// Valid until the end.
        let widget: UnsafeMutablePointer<GtkWidget>
        private(set) var isEnded = false

        // What the program sets.
        /// The cache for the next request.
        var cache: ImageCache?
        private(set) var request: ImageRequest?
        /// The URL as the property was set, because a request for a file or a `data:` URL has none.
        private var text: String?
        var placeholder: DisplayOptions.Placeholder? {
            didSet {
                let isWaiting = request != nil && (hasAsked || options.keepsCurrentImage)
                if !isEnded, list == nil, !isWaiting { showPlaceholder() }
            }
        }
        var options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(200)))
            .with(\.failure, .object("image-missing-symbolic"))
        var fit = GTK_CONTENT_FIT_CONTAIN { didSet { if fit != oldValue { fitChanged() } } }
        var cornerRadius = 0.0 { didSet { redraw() } }
        var showsProgress = true { didSet { redraw() } }
        var alternativeText: String? { didSet { if !isEnded { dipper_set_accessible_label(widget, alternativeText) } } }
        var onEnd: ((DipperPicture, Result<ImageResponse, DipperError>) -> Void)?
        /// The height of the widget divided by its width, if a grid keeps it.
        var proportion: Double? { didSet { gtk_widget_queue_resize(widget) } }

        // The picture that is asked for.
        private var binding: ImageBinding?
        /// The cache that loads it.
        private var source: ImageCache?
        private var look: HeaderLook?
        /// The size that the picture takes if it is given all the room that it wants; `nil` if it is not known.
        private var natural: PixelSize?
        private var hasNoHeader = false
        private var hasAsked = false
        private var target: TargetSize?
        private var growth: Timeout?
        /// The number of the picture that is asked for. News of earlier ones is ignored.
        private var asking = 0
        private(set) var isLoading = false
        private(set) var error: DipperError?
        /// Whether the binding loads the picture again by itself.
        private var isReloading = false
        /// The list that loads the pictures of its rows.
        private weak var list: PictureList?

        // What the widget is.
        private(set) var width = 0
        private(set) var height = 0
        /// Whether the widget is mapped, in a window that is not minimized.
        private var isShown = false
        /// The window of the mapped widget.
        private var window: WindowWatch?
        private var isAllocating = false
        private var isAnimating = true
        private var scaleSignal: gulong = 0
        private var settingSignal: gulong = 0

        // What is drawn.
        let stage: Stage

        init(_ widget: UnsafeMutablePointer<GtkWidget>) {
            self.widget = widget
            stage = Stage(widget)
            connect(UnsafeMutableRawPointer(widget), "notify::scale-factor", to: &scaleSignal) { $0.sizeChanged() }
        }

        /// Nothing may be called afterwards: GTK frees the instance.
        func end() {
            guard !isEnded else { return }
            watchSetting(false)
            disconnect(UnsafeMutableRawPointer(widget), &scaleSignal)
            isEnded = true
            (onEnd, window) = (nil, nil)
            stage.end()
            list?.forget(self)
            growth = nil
            binding = nil
            look?.cancel()
            look = nil
        }

        // MARK: The picture

        /// Shows another picture, or none.
        func set(_ new: ImageRequest?, text: String? = nil) {
            guard !isEnded else { return }
            self.text = text
            let new = new.map(withPreviews)
            // Toolkits that describe their windows set everything again and again.
            if list == nil, new != nil, new == request, error == nil, cache === source { return }
            if cache !== source { (binding, source) = (nil, cache) }
            asking += 1
            let number = asking
            list?.forget(self)
            list = nil
            look?.cancel()
            (look, growth, target) = (nil, nil, nil)
            (request, hasAsked, hasNoHeader) = (new, false, false)
            become(natural: request.flatMap { isProcessed($0) ? nil : KnownSizes[$0, in: loader] })
            isReloading = false
            become(isLoading: new != nil, nil)
            // A handler may have set another picture.
            guard !isEnded, asking == number else { return }
            guard new != nil else {
                if let binding {
                    binding.setImage(nil as ImageRequest?, placeholder: placeholder)
                } else {
                    showPlaceholder()
                }
                return
            }
            if isShown { load() }
            if !hasAsked {
                binding?.cancel()
                if !options.keepsCurrentImage { showPlaceholder() }
            }
        }

        /// Leaves the picture to a list, which loads it when its row is on screen.
        func join(_ list: PictureList, _ request: ImageRequest) {
            guard !isEnded else { return }
            if self.list !== list {
                set(nil)
                if isEnded { return }
                self.list = list
                isAnimating = Setting.isAnimating(widget)
                stage.mayFade = isAnimating
            }
            self.request = request
            become(isLoading: true, nil)
        }

        private func withPreviews(_ request: ImageRequest) -> ImageRequest {
            request.options.showsPreviews == nil ? request.with(\.showsPreviews, true) : request
        }

        private func isProcessed(_ request: ImageRequest) -> Bool {
            loader.options(of: request).processors?.isEmpty == false
        }

        var url: String? {
            let file = (request?.data.provider as? FileProvider)?.file
            return text ?? (request?.url ?? file)?.absoluteString
        }

        private var loader: ImageCache { source ?? .shared }

        /// The connection to the cache, which begins with the first picture.
        var bound: ImageBinding {
            if let binding { return binding }
            let new = ImageBinding(self, cache: loader, queue: .glib)
            if !isShown, list == nil { new.didDisappear() }
            binding = new
            return new
        }

        /// The options that apply now.
        var effectiveOptions: DisplayOptions {
            var options = options
            if !isAnimating {
                options.transition = .none
                options.playsAnimations = false
            }
            return options
        }

        /// Asks for the picture if its size is known.
        private func load() {
            guard let request, !hasAsked, list == nil, !isEnded else { return }
            if isProcessed(request) { return ask(request, nil) }
            if let size = pixelTarget { return ask(request, size) }
            if hasNoHeader { return ask(request, nil) }
            lookAtHeader()
        }

        private var pixelTarget: TargetSize? {
            guard width > 0, height > 0 else { return nil }
            let scale = Int(gtk_widget_get_scale_factor(widget))
            // A picture is stretched as it is drawn, because the widget may change its proportions.
            let mode: TargetSize.Mode = [GTK_CONTENT_FIT_COVER, GTK_CONTENT_FIT_FILL].contains(fit) ? .fill : .fit
            return TargetSize(width: width * scale, height: height * scale, mode)
        }

        private func ask(_ request: ImageRequest, _ target: TargetSize?, isAgain: Bool = false) {
            hasAsked = true
            self.target = target
            var options = effectiveOptions
            if isAgain {
                options.keepsCurrentImage = true
                options.transition = .none
            }
            asking += 1
            let core = OnGTK(self)
            bound.setImage(
                target.map { request.processed(by: .resize(to: $0)) } ?? request, placeholder: placeholder,
                options: options
            ) { [asking] in if let core = core.object, core.asking == asking { core.ended($0) } }
        }

        /// Called when the picture is there or has failed.
        func ended(_ result: Result<ImageResponse, DipperError>) {
            guard !isEnded else { return }
            if list == nil { look?.cancel() }
            // A closure of the program may change what is being laid out.
            if isAllocating {
                return later { [asking] core in if core.asking == asking { core.ended(result) } }
            }
            // A closure of the program may destroy the widget.
            let object = UnsafeMutableRawPointer(widget)
            g_object_ref(object)
            defer { g_object_unref(object) }
            isReloading = false
            switch result {
            case .failure(.replaced): return
            case .failure(let error): become(isLoading: false, error)
            case .success(let response):
                if list == nil { later { [target] core in core.compare(response.image.size, in: target) } }
                become(isLoading: false, nil)
            }
            if !isEnded, let onEnd, let picture = DipperPicture(pointer: OpaquePointer(widget)) {
                onEnd(picture, result)
            }
        }

        /// Corrects the size that the widget asks for: there is no header to read, or the server has another picture now.
        private func compare(_ size: PixelSize, in target: TargetSize?) {
            guard target == self.target, let request else { return }
            guard let natural else {
                // A picture that fills a side of its target may have been larger.
                let isWhole = target.map { size.width < $0.size.width && size.height < $0.size.height } ?? true
                if isWhole, look == nil || hasNoHeader { become(natural: size) }
                return
            }
            let expected = target?.size(for: natural) ?? natural
            guard abs(expected.width - size.width) > 1 || abs(expected.height - size.height) > 1 else { return }
            KnownSizes.remove(request, in: loader)
            if isProcessed(request) { return become(natural: size) }
            look?.cancel()
            look = nil
            become(natural: nil)
        }

        private func become(isLoading: Bool, _ error: DipperError?) {
            let old = (self.isLoading, self.error)
            (self.isLoading, self.error) = (isLoading, error)
            if old.0 != isLoading {
                dipper_set_busy(widget, isLoading ? 1 : 0)
                stage.isLoading = isLoading
            }
            // The icon of a failure needs room.
            if (old.1 == nil) != (error == nil), natural == nil { gtk_widget_queue_resize(widget) }
            if old.0 != isLoading { dipper_picture_notify(widget, guint(DIPPER_LOADING)) }
            if old.1 != error, !isEnded { dipper_picture_notify(widget, guint(DIPPER_ERROR)) }
        }

        private func later(_ body: @escaping @Sendable (PictureCore) -> Void) {
            let core = OnGTK(self)
            CallbackQueue.glib.perform { if let core = core.object, !core.isEnded { body(core) } }
        }

        // MARK: Size

        private func become(natural size: PixelSize?) {
            guard natural != size else { return }
            natural = size
            gtk_widget_queue_resize(widget)
        }

        private func lookAtHeader() {
            guard look == nil, !hasNoHeader, natural == nil, let request, !isProcessed(request) else { return }
            let core = OnGTK(self)
            look = HeaderLook(request, in: loader, isUrgent: isShown) { size in core.object?.found(size) }
        }

        private func found(_ size: PixelSize?) {
            guard !isEnded else { return }
            hasNoHeader = size == nil
            if let size { become(natural: size) }
            if hasNoHeader { load() }
        }

        /// The size that the program has given the widget; negative in a direction without one.
        private var ownSize: (width: gint, height: gint) {
            var (width, height): (gint, gint) = (-1, -1)
            gtk_widget_get_size_request(widget, &width, &height)
            return (width, height)
        }

        /// The room for the icon of a failure, of a widget that would have none.
        private func iconRoom(_ axis: GtkOrientation) -> Int {
            let own = axis == GTK_ORIENTATION_HORIZONTAL ? ownSize.width : ownSize.height
            return error == nil || options.failure == nil || own >= 0 ? 0 : 48
        }

        /// The least and the preferred length along an axis.
        func measure(_ axis: GtkOrientation, for other: Int) -> (least: Int, most: Int) {
            guard let proportion, axis == GTK_ORIENTATION_VERTICAL else { return (0, preferred(axis, for: other)) }
            let wanted = (Double(other < 0 ? Int(ownSize.width) : other) * proportion).rounded()
            let height = Int(min(max(0, wanted), 16_777_216))
            return (height, height)
        }

        private func preferred(_ axis: GtkOrientation, for other: Int) -> Int {
            if natural == nil, list == nil, ownSize.width < 0 || ownSize.height < 0 { lookAtHeader() }
            guard let natural else { return iconRoom(axis) }
            let scale = max(request?.options.scale ?? 1, 0.01)
            let size = Frame(width: Double(natural.width) / scale, height: Double(natural.height) / scale)
            let isWidth = axis == GTK_ORIENTATION_HORIZONTAL
            if other < 0 { return Int((isWidth ? size.width : size.height).rounded(.up)) }
            let proportion = isWidth ? size.width / size.height : size.height / size.width
            return Int((Double(other) * proportion).rounded(.up))
        }

        func allocate(width: Int, height: Int) {
            (self.width, self.height) = (width, height)
            isAllocating = true
            sizeChanged()
            isAllocating = false
        }

        private func sizeChanged() {
            guard !isEnded, list == nil else { return }
            if !hasAsked {
                if isShown || width > 0 { load() }
                return
            }
            guard growth == nil, grownTarget != nil else { return }
            // A window that the user enlarges has other sizes for a while.
            growth = Timeout(milliseconds: 150) { [weak self] in
                guard let self else { return }
                growth = nil
                if let request, let target = grownTarget { ask(request, target, isAgain: true) }
            }
        }

        /// The size to ask for in place of the present one, if the picture then has more pixels.
        private var grownTarget: TargetSize? {
            guard let old = target, let new = pixelTarget else { return nil }
            guard let natural else {
                return new.size.width > old.size.width || new.size.height > old.size.height ? new : nil
            }
            let (has, wants) = (old.size(for: natural), new.size(for: natural))
            return wants.width > has.width || wants.height > has.height ? new : nil
        }

        private func fitChanged() {
            redraw()
            sizeChanged()
        }

        // MARK: On screen

        func map(_ isMapped: Bool) {
            guard !isEnded else { return }
            watchSetting(isMapped)
            window = isMapped ? WindowWatch(widget) { [weak self] in self?.appearanceChanged(isMapped: true) } : nil
            appearanceChanged(isMapped: isMapped)
        }

        private func appearanceChanged(isMapped: Bool) {
            guard !isEnded else { return }
            isShown = isMapped && window?.isHidden != true
            if list == nil { if isShown { binding?.willAppear() } else { binding?.didDisappear() } }
            if isShown { settingChanged() } else { stage.settle() }
            look?.move(isUrgent: isShown)
            // A widget without any size gets none later.
            if isShown, !hasAsked { load() }
            WindowWatch.tell(loader)
        }

        /// A window that is destroyed takes its widgets with it, which a closure that holds one would keep.
        func leaveWindow() {
            if !isEnded, WindowWatch.isDestroyed(over: widget) { onEnd = nil }
        }

        private func watchSetting(_ isWatched: Bool) {
            guard let settings = gtk_widget_get_settings(widget) else { return }
            let object = UnsafeMutableRawPointer(settings)
            if isWatched, settingSignal == 0 {
                connect(object, "notify::gtk-enable-animations", to: &settingSignal) { $0.settingChanged() }
            } else if !isWatched {
                disconnect(object, &settingSignal)
            }
        }

        private func settingChanged() {
            let new = Setting.isAnimating(widget)
            guard new != isAnimating else { return }
            isAnimating = new
            stage.mayFade = new
            if let list {
                list.refresh(self)
            } else if hasAsked, let request {
                ask(request, target, isAgain: true)
            }
        }

        private func connect(
            _ object: UnsafeMutableRawPointer, _ name: String, to handler: inout gulong,
            _ body: @escaping (PictureCore) -> Void
        ) {
            handler = GtkSignal.connect(object, name) { [weak self] in
                if let self, !isEnded { body(self) }
            }
        }

        private func disconnect(_ object: UnsafeMutableRawPointer, _ handler: inout gulong) {
            if handler != 0 { g_signal_handler_disconnect(object, handler) }
            handler = 0
        }

        private func redraw() { if !isEnded { gtk_widget_queue_draw(widget) } }

        func draw(_ snapshot: OpaquePointer) {
            stage.draw(
                snapshot, Frame(width: Double(width), height: Double(height)), fit, cornerRadius: cornerRadius,
                showsProgress: showsProgress)
        }

        private func showPlaceholder() { stage.show(placeholder.map(DisplayContent.placeholder) ?? .nothing, .none) }
    }

    extension PictureCore: ImageDisplay {
        func show(_ content: DisplayContent, _ transition: ImageTransition) {
            guard !isEnded else { return }
            stage.show(content, transition)
            guard case .image = content, hasAsked || list != nil, !isAllocating else { return }
            isReloading = false
            become(isLoading: false, nil)
        }

        /// The binding loads a picture again by itself, and calls nobody at the end, when the widget is back on screen
        /// after a failure, or after the picture was released.
        func showActivity(_ activity: DisplayActivity?) {
            guard !isEnded else { return }
            stage.activity = activity
            // From here on the fetch is that of the picture.
            if activity?.progress != nil { look?.cancel() }
            if activity != nil, !isLoading {
                isReloading = true
                become(isLoading: true, nil)
            } else if activity == nil, isReloading {
                // The picture, if there is one, is shown before.
                later { core in
                    guard core.stage.activity == nil, core.isReloading else { return }
                    core.isReloading = false
                    core.become(isLoading: false, core.binding?.error)
                }
            }
        }
    }
#endif
