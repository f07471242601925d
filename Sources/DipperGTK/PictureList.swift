#if GTK
    public import CGTK4
    public import Dipper
    import GTKShims

    /// The pictures of a `GtkGridView` or `GtkListView`: those on screen are fetched first, the next ones are prefetched,
    /// and rows that have left the screen are demoted.
    ///
    /// ```swift
    /// let urls: [URL] = try await photos()
    /// let list = PictureList(count: urls.count) { row in ImageRequest(urls[row]) }
    /// gtk_window_set_child(window, list.makeGrid(width: 160, height: 120))
    /// ```
    ///
    /// GTK makes widgets for about 200 rows around those on screen. The list tells from the places of the widgets which
    /// rows the user sees. Pictures without processors are decoded in the size that the widgets have on screen.
    ///
    /// The view keeps the list. Use both on the thread that runs GTK's loop.
    public final class PictureList {
        /// The closure that returns the request for the picture of a row. It is called on several threads.
        public typealias Requests = @Sendable (_ row: Int) -> ImageRequest

        private let cache: ImageCache
        private let options: ListOptions
        private var requests: Requests
        private var loader: ListLoader?
        private var target: TargetSize?
        /// The size of the pictures at the latest layout.
        private var seenSize = PixelSize(width: 0, height: 0)
        private var growth: Timeout?
        /// The rows that have widgets.
        private var attached: [ObjectIdentifier: (core: PictureCore, row: Int)] = [:]
        /// The pictures of GTK's list items.
        private var pictures: [OpaquePointer: DipperPicture] = [:]
        private let rows: OpaquePointer
        /// `nil` without a view, or once the view is destroyed.
        private var view: UnsafeMutablePointer<GtkWidget>?
        private var clock: (object: UnsafeMutableRawPointer, handler: gulong)?
        private var window: WindowWatch?
        /// The smallest width of a column of a grid.
        private var columnWidth: Int?
        private var activation: ((_ row: Int) -> Void)?
        /// The number of rows.
        public private(set) var count: Int
        /// The rows on screen, including those that are partly visible.
        public private(set) var visible = 0..<0

        /// The number of rows on screen whose pictures are on their way.
        public var loadingCount: Int { attached.values.count { visible.contains($0.row) && $0.core.isLoading } }

        /// Creates a list of a number of pictures.
        public init(
            count: Int, cache: ImageCache = .shared, options: ListOptions = ListOptions(),
            request: @escaping Requests
        ) {
            self.count = max(0, count)
            self.cache = cache
            self.options = options
            requests = request
            rows = dipper_rows_new(guint(clamping: self.count))
        }

        deinit { g_object_unref(UnsafeMutableRawPointer(rows)) }

        // MARK: Views

        /// Returns a scrolled window with a `GtkGridView` of the pictures, in as many columns as there is room for.
        /// - Parameters:
        ///   - width: the smallest width of a picture, in pixels of the application.
        ///   - height: the height of a picture of that width. Wider pictures keep the proportion.
        ///   - setUp: called with each new widget; it returns the widget of the row, which holds the picture, or the
        ///     picture itself.
        ///   - bind: called when a widget gets another row, before its picture is asked for.
        public func makeGrid(
            width: Int, height: Int,
            setUp: @escaping (DipperPicture) -> UnsafeMutablePointer<GtkWidget> = { $0.widget },
            bind: @escaping (DipperPicture, _ row: Int) -> Void = { _, _ in }
        ) -> UnsafeMutablePointer<GtkWidget> {
            columnWidth = max(1, width)
            let proportion = Double(max(0, height)) / Double(max(1, width))
            return scrolled(
                gtk_grid_view_new(selection(), factory(width, -1, proportion: proportion, setUp, bind)))
        }

        /// Returns a scrolled window with a `GtkListView` of the pictures, which have one size, with parameters as those of
        /// ``makeGrid(width:height:setUp:bind:)``.
        public func makeList(
            width: Int, height: Int,
            setUp: @escaping (DipperPicture) -> UnsafeMutablePointer<GtkWidget> = { $0.widget },
            bind: @escaping (DipperPicture, _ row: Int) -> Void = { _, _ in }
        ) -> UnsafeMutablePointer<GtkWidget> {
            scrolled(gtk_list_view_new(selection(), factory(width, height, proportion: nil, setUp, bind)))
        }

        /// Calls a closure when the user activates a row, by a double click or with the Return key, in place of an earlier
        /// closure. The list keeps it until its view is destroyed.
        ///
        /// ```swift
        /// list.onActivate { row in picture.request = ImageRequest(urls[row]) }
        /// ```
        public func onActivate(_ body: ((_ row: Int) -> Void)?) { activation = body }

        /// Shows other rows. The closure takes the place of the earlier one.
        public func reload(count: Int, request: @escaping Requests) {
            (self.count, requests) = (max(0, count), request)
            loader?.reload(count: self.count, requests: sized())
            visible = 0..<0
            dipper_rows_set_count(rows, guint(clamping: self.count))
        }

        private func selection() -> OpaquePointer? {
            g_object_ref(UnsafeMutableRawPointer(rows))
            return gtk_no_selection_new(rows)
        }

        private func factory(
            _ width: Int, _ height: Int, proportion: Double?,
            _ setUp: @escaping (DipperPicture) -> UnsafeMutablePointer<GtkWidget>,
            _ bind: @escaping (DipperPicture, Int) -> Void
        ) -> OpaquePointer? {
            guard let factory = gtk_signal_list_item_factory_new() else { return nil }
            let object = UnsafeMutableRawPointer(factory)
            _ = GtkSignal.connect(object, "setup") { [weak self] item in
                guard let self else { return }
                let picture = DipperPicture(cache: cache)
                gtk_widget_set_size_request(picture.widget, Int32(clamping: width), Int32(clamping: height))
                picture.contentFit = GTK_CONTENT_FIT_COVER
                picture.inner.proportion = proportion
                pictures[item] = picture
                gtk_list_item_set_child(item, setUp(picture))
            }
            _ = GtkSignal.connect(object, "bind") { [weak self] item in
                guard let self, let picture = pictures[item] else { return }
                let row = Int(gtk_list_item_get_position(item))
                // The placeholder and the options that the program sets are those of this row.
                bind(picture, row)
                attach(picture, to: row)
            }
            _ = GtkSignal.connect(object, "unbind") { [weak self] item in
                if let picture = self?.pictures[item] { self?.detach(picture) }
            }
            _ = GtkSignal.connect(object, "teardown") { [weak self] item in
                _ = self?.pictures.removeValue(forKey: item)
                gtk_list_item_set_child(item, nil)
            }
            return factory
        }

        private func scrolled(_ view: UnsafeMutablePointer<GtkWidget>?) -> UnsafeMutablePointer<GtkWidget> {
            guard let view, let window = gtk_scrolled_window_new() else {
                preconditionFailure("GTK makes widgets of its own classes.")
            }
            gtk_scrolled_window_set_child(OpaquePointer(window), view)
            watch(view)
            _ = GtkSignal.connect(UnsafeMutableRawPointer(view), toNumber: "activate") { [weak self] row in
                self?.activation?(row)
            }
            return window
        }

        /// Watches a view in a scrolled window that the program has made with a factory of its own, which calls
        /// ``attach(_:to:)`` and ``detach(_:)`` when it binds and unbinds rows. The view keeps the list.
        public func watch(_ view: UnsafeMutablePointer<GtkWidget>) {
            precondition(self.view == nil, "A list has one view.")
            self.view = view
            let object = UnsafeMutableRawPointer(view)
            g_object_set_data_full(
                object.assumingMemoryBound(to: GObject.self), "dipper-list", Unmanaged.passRetained(self).toOpaque(),
                { data in if let data { Unmanaged<PictureList>.fromOpaque(data).release() } })
            _ = GtkSignal.connect(object, "map") { [weak self] in self?.map() }
            _ = GtkSignal.connect(object, "unmap") { [weak self] in self?.unmap() }
            _ = GtkSignal.connect(object, "destroy") { [weak self] in self?.end() }
            if gtk_widget_get_mapped(view) != 0 { map() }
        }

        private func map() {
            guard let view, clock == nil, let new = gtk_widget_get_frame_clock(view) else { return }
            window = WindowWatch(view) { [weak self] in self?.appearanceChanged() }
            let object = UnsafeMutableRawPointer(new)
            // When the widgets have their places, and before they are drawn.
            let handler = GtkSignal.connect(object, "layout", isAfter: true) { [weak self] in self?.laidOut() }
            clock = (object, handler)
            appearanceChanged()
        }

        private func unmap() {
            if let clock { g_signal_handler_disconnect(clock.object, clock.handler) }
            (clock, window) = (nil, nil)
            appearanceChanged()
        }

        private func appearanceChanged() {
            visible = 0..<0
            if let view, clock != nil, window?.isHidden != true { return gtk_widget_queue_resize(view) }
            // Rows that nobody sees are not fetched.
            loader?.update(visible: visible)
        }

        private func end() {
            unmap()
            // Another view may follow.
            (view, loader, growth, target, columnWidth, activation) = (nil, nil, nil, nil, nil, nil)
            (attached, pictures) = ([:], [:])
        }

        // MARK: Rows

        /// Shows the picture of a row in a widget that has been bound to it.
        public func attach(_ picture: DipperPicture, to row: Int) {
            let core = picture.inner
            core.join(self, requests(row))
            // A handler of the program may have destroyed the widget.
            if core.isEnded { return }
            attached[ObjectIdentifier(core)] = (core, row)
            attach(core, to: row)
        }

        /// Ends the connection between a row and its widget.
        public func detach(_ picture: DipperPicture) {
            guard attached.removeValue(forKey: ObjectIdentifier(picture.inner)) != nil else { return }
            loader?.detach(picture.inner.bound)
        }

        func forget(_ core: PictureCore) {
            if attached.removeValue(forKey: ObjectIdentifier(core)) != nil { loader?.detach(core.bound) }
        }

        /// Applies the options of a widget to the picture that it shows.
        func refresh(_ core: PictureCore) {
            if let row = attached[ObjectIdentifier(core)]?.row { attach(core, to: row, isAgain: true) }
        }

        private func attach(_ core: PictureCore, to row: Int, isAgain: Bool = false) {
            guard let loader else { return }
            let shown = OnGTK(core)
            var options = core.effectiveOptions
            if isAgain { (options.keepsCurrentImage, options.transition) = (true, .none) }
            loader.attach(
                core.bound, to: row, placeholder: core.placeholder, options: options
            ) { shown.object?.ended($0) }
        }

        /// The requests of the rows, in the size in which they are shown.
        private func sized() -> @Sendable (Int) -> [ImageRequest] {
            let (requests, target, cache, count) = (requests, target, cache, count)
            return { row in
                guard row < count else { return [] }
                let request = requests(row)
                let isProcessed = cache.options(of: request).processors?.isEmpty == false
                return [isProcessed ? request : target.map { request.processed(by: .resize(to: $0)) } ?? request]
            }
        }

        // MARK: Places

        /// Called after each layout: tells the rows on screen from the places of their widgets.
        private func laidOut() {
            guard let view, count > 0, window?.isHidden != true else { return }
            // Rows are drawn in the space around them, too.
            var room = graphene_rect_t()
            guard gtk_widget_compute_bounds(view, view, &room) != 0 else { return }
            var seen: Range<Int>?
            var largest = PixelSize(width: 0, height: 0)
            for (core, row) in attached.values {
                var bounds = graphene_rect_t()
                // GTK unmaps rows that have left the view, and leaves their widgets where they were.
                guard gtk_widget_get_mapped(core.widget) != 0,
                    gtk_widget_compute_bounds(core.widget, view, &bounds) != 0
                else { continue }
                guard graphene_rect_intersection(&room, &bounds, nil), bounds.size.width > 0, bounds.size.height > 0
                else { continue }
                seen = seen.map { min($0.lowerBound, row)..<max($0.upperBound, row + 1) } ?? row..<row + 1
                let scale = Int(gtk_widget_get_scale_factor(core.widget))
                largest.width = max(largest.width, core.width * scale)
                largest.height = max(largest.height, core.height * scale)
            }
            fitColumns(of: view, in: Int(room.size.width))
            guard let seen, largest.width > 0, largest.height > 0 else { return }
            fit(largest)
            guard seen != visible else { return }
            visible = seen
            loader?.update(visible: seen)
        }

        /// GTK has widgets for thirty rows of the most columns that a grid may have, whether there is room for them or not.
        private func fitColumns(of view: UnsafeMutablePointer<GtkWidget>, in width: Int) {
            guard let columnWidth, width > 0 else { return }
            let (grid, most) = (OpaquePointer(view), guint(clamping: max(1, width / columnWidth)))
            if gtk_grid_view_get_max_columns(grid) != most { gtk_grid_view_set_max_columns(grid, most) }
        }

        private func fit(_ size: PixelSize) {
            seenSize = size
            if target == nil { return load(in: size) }
            guard growth == nil, isOther(size) else { return }
            // A window that the user resizes has other sizes for a while.
            growth = Timeout(milliseconds: 150) { [weak self] in
                guard let self else { return }
                growth = nil
                if isOther(seenSize) { load(in: seenSize) }
            }
        }

        /// The pictures of a grid have one size, and are sharpest in that. Others may be smaller while large ones are away.
        private func isOther(_ size: PixelSize) -> Bool {
            guard let old = target?.size else { return false }
            return columnWidth == nil ? size.width > old.width || size.height > old.height : size != old
        }

        /// Loads the pictures in a size from now on.
        private func load(in size: PixelSize) {
            target = TargetSize(size, .fill)
            let isAgain = loader != nil
            if let loader {
                loader.reload(count: count, requests: sized())
                loader.update(visible: visible)
            } else {
                loader = ListLoader(cache, count: count, options: options, requests: sized())
            }
            for (core, row) in attached.values { attach(core, to: row, isAgain: isAgain) }
        }
    }
#endif
