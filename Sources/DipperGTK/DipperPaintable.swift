#if GTK
    import CGTK4
    public import Dipper
    import GTKShims

    /// A picture of a URL as a `GdkPaintable`, for `GtkPicture`, `GtkImage`, drag icons and all else that draws one.
    ///
    /// ```swift
    /// let paintable = DipperPaintable(url)
    /// let view = gtk_picture_new_for_paintable(paintable.pointer)
    /// ```
    ///
    /// The paintable has its size as soon as the header of the picture has arrived, so that nothing jumps when the picture
    /// does. It invalidates its contents for each frame of a moving picture, which rests while nobody draws it, and shows
    /// only the first frame if the user has turned off animations. The picture is loaded at once, and cancelled when
    /// nobody has the paintable any more. Use it on the thread that runs GTK's loop.
    public final class DipperPaintable {
        /// The `GdkPaintable`.
        public let pointer: OpaquePointer

        /// Creates a paintable for the picture of a URL or a request.
        /// - Parameters:
        ///   - source: the URL or the request.
        ///   - size: the size to decode to, in pixels; by default the picture keeps its own.
        ///   - placeholder: the picture or colour that is drawn until the picture is there.
        ///   - cache: the cache that loads the picture.
        public init(
            _ source: some ImageRequestConvertible, size: TargetSize? = nil,
            placeholder: DisplayOptions.Placeholder? = nil, cache: ImageCache = .shared
        ) {
            pointer = dipper_paintable_object()
            let core = paintableCore(dipper_paintable_core(pointer))
            core.cache = cache
            core.target = size
            core.placeholder = placeholder
            core.set(source.imageRequest)
        }

        // Swift lets go of an object before the function of GTK that is passed its pointer takes it.
        deinit { releaseLater(UnsafeMutableRawPointer(pointer)) }
    }

    private func paintableCore(_ pointer: UnsafeMutableRawPointer) -> PaintableCore {
        Unmanaged<PaintableCore>.fromOpaque(pointer).takeUnretainedValue()
    }

    // The functions that the class in C calls.

    @c @implementation
    func dipper_paintable_core_new(_ paintable: OpaquePointer!) -> UnsafeMutableRawPointer! {
        Unmanaged.passRetained(PaintableCore(paintable)).toOpaque()
    }

    @c @implementation
    func dipper_paintable_core_end(_ pointer: UnsafeMutableRawPointer!) { paintableCore(pointer).end() }

    @c @implementation
    func dipper_paintable_core_free(_ pointer: UnsafeMutableRawPointer!) {
        Unmanaged<PaintableCore>.fromOpaque(pointer).release()
    }

    @c @implementation
    func dipper_paintable_core_set_url(_ pointer: UnsafeMutableRawPointer!, _ url: UnsafePointer<CChar>!) {
        if let url { paintableCore(pointer).set(ImageRequest(string: String(cString: url))) }
    }

    @c @implementation
    func dipper_paintable_core_draw(
        _ pointer: UnsafeMutableRawPointer!, _ snapshot: OpaquePointer!, _ width: Double, _ height: Double
    ) {
        paintableCore(pointer).draw(snapshot, width: width, height: height)
    }

    @c @implementation
    func dipper_paintable_core_size(
        _ pointer: UnsafeMutableRawPointer!, _ width: UnsafeMutablePointer<Int32>!,
        _ height: UnsafeMutablePointer<Int32>!
    ) {
        (width.pointee, height.pointee) = paintableCore(pointer).points
    }

    @c @implementation
    func dipper_paintable_core_image(_ pointer: UnsafeMutableRawPointer!) -> OpaquePointer! {
        paintableCore(pointer).still
    }
#endif
