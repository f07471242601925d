#if GTK
    @_exported public import CGTK4
    public import Dipper
    import GTKShims

    /// A widget that shows the picture of a URL: a placeholder at first, how much of the picture has arrived, and the
    /// picture, decoded in the size in which it is shown.
    ///
    /// ```swift
    /// let picture = DipperPicture(url)
    /// picture.alternativeText = "A boat on a lake"
    /// gtk_box_append(box, picture.widget)
    /// ```
    ///
    /// This object is a reference to the widget, as C has it: the widget lives for as long as it is in a window, whether
    /// the program keeps the object or not. Everything here is for the thread that runs GTK's loop.
    ///
    /// Without a size of its own, the widget asks for the room that the picture needs, by the size in its header; with
    /// less room it shows the picture smaller. As long as the widget is not in a visible window, its picture is fetched as
    /// a prefetch; a widget that is destroyed cancels its fetch. Moving pictures play, and pictures fade in, unless the
    /// user has turned off animations (`gtk-enable-animations`).
    public final class DipperPicture {
        /// The widget, for functions of GTK.
        public let widget: UnsafeMutablePointer<GtkWidget>
        /// The widget, for bindings that take a pointer without a type.
        public var pointer: OpaquePointer { OpaquePointer(widget) }
        private let core: PictureCore

        /// Creates a widget for the picture of a URL or a request.
        public convenience init(_ source: some ImageRequestConvertible, cache: ImageCache = .shared) {
            self.init(cache: cache)
            request = source.imageRequest
        }

        /// Creates a widget without a picture.
        public init(cache: ImageCache = .shared) {
            widget = dipper_picture_object()
            g_object_ref_sink(UnsafeMutableRawPointer(widget))
            core = Self.core(of: widget)
            core.cache = cache
        }

        /// The picture that is this widget of GTK, such as one from a `.ui` file; `nil` for other widgets.
        ///
        /// ```swift
        /// let object = gtk_builder_get_object(builder, "photo")
        /// let picture = DipperPicture(pointer: OpaquePointer(object))
        /// picture?.request = ImageRequest(url)
        /// ```
        public init?(pointer: OpaquePointer?) {
            guard let pointer, dipper_is_picture(UnsafeMutableRawPointer(pointer)) != 0 else { return nil }
            widget = UnsafeMutablePointer(pointer)
            g_object_ref(UnsafeMutableRawPointer(pointer))
            core = Self.core(of: widget)
        }

        // Swift lets go of an object before the function of GTK that is passed its pointer takes it.
        deinit { releaseLater(UnsafeMutableRawPointer(widget)) }

        private static func core(of widget: UnsafeMutablePointer<GtkWidget>) -> PictureCore {
            Unmanaged<PictureCore>.fromOpaque(dipper_picture_core(widget)).takeUnretainedValue()
        }

        var inner: PictureCore { core }

        private func notify(_ properties: Int...) {
            for property in properties { dipper_picture_notify(widget, guint(property)) }
        }

        /// The name of the class in `.ui` files. The class must be registered before such a file is read:
        /// `_ = DipperPicture.typeName`.
        public static var typeName: String { String(cString: g_type_name(dipper_picture_get_type())) }

        // MARK: Pictures

        /// The request for the picture; `nil` for the placeholder. Requests without processors are decoded in the size of
        /// the widget. Previews are shown unless the request has `showsPreviews` set to `false`.
        public var request: ImageRequest? {
            get { core.request }
            set {
                core.set(newValue)
                notify(DIPPER_URL)
            }
        }

        /// The cache that loads the pictures that are set from now on.
        public var cache: ImageCache {
            get { core.cache ?? .shared }
            set { core.cache = newValue }
        }

        /// The content that is shown until the picture is there. The object of an `.object` is the name of an icon.
        public var placeholder: DisplayOptions.Placeholder? {
            get { core.placeholder }
            set {
                core.placeholder = newValue
                notify(DIPPER_PLACEHOLDER_COLOR, DIPPER_PLACEHOLDER_ICON)
            }
        }

        /// The options for pictures that are set from now on: the transition, which is a fade of 200 ms; the content after
        /// a failure, which is the icon `image-missing-symbolic`; and whether moving pictures play. The widget decodes
        /// to its own size whatever `downsampling` is.
        public var options: DisplayOptions {
            get { core.options }
            set {
                core.options = newValue
                notify(DIPPER_FADE_DURATION, DIPPER_PLAYS_ANIMATIONS, DIPPER_FAILURE_ICON)
            }
        }

        /// Whether the picture is on its way.
        public var isLoading: Bool { core.isLoading }
        /// The reason why there is no picture; `nil` if it is there, or on its way.
        public var error: DipperError? { core.error }

        /// Calls a closure when a picture has been loaded, or could not be, in place of an earlier closure.
        ///
        /// ```swift
        /// picture.onEnd { picture, result in
        ///     if case .failure(let error) = result { picture.alternativeText = error.description }
        /// }
        /// ```
        /// The widget keeps the closure until its window is destroyed. Outside of a window, a closure that captures this
        /// object, in place of using its argument, keeps the widget for ever.
        public func onEnd(_ body: ((DipperPicture, Result<ImageResponse, DipperError>) -> Void)?) { core.onEnd = body }

        // MARK: Looks

        /// The way in which the picture is fitted into the widget.
        public var contentFit: GtkContentFit {
            get { core.fit }
            set {
                core.fit = newValue
                notify(DIPPER_CONTENT_FIT)
            }
        }

        /// The radius of the picture's corners, in pixels of the application; at most half of a side, which makes a
        /// circle of a square.
        public var cornerRadius: Double {
            get { core.cornerRadius }
            set {
                core.cornerRadius = newValue
                notify(DIPPER_CORNER_RADIUS)
            }
        }

        /// Whether a bar shows how much of the picture is there, if that takes more than a moment.
        public var showsProgress: Bool {
            get { core.showsProgress }
            set {
                core.showsProgress = newValue
                notify(DIPPER_SHOWS_PROGRESS)
            }
        }

        /// The description of the picture for people who do not see it.
        public var alternativeText: String? {
            get { core.alternativeText }
            set {
                core.alternativeText = newValue
                notify(DIPPER_ALTERNATIVE_TEXT)
            }
        }
    }
#endif
