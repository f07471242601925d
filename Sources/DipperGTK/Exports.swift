#if GTK
    import CGTK4
    import Dipper
    import GTKShims

    // The functions that the classes in C call. An instance holds its part in Swift until it is finalized.

    private func core(_ pointer: UnsafeMutableRawPointer) -> PictureCore {
        Unmanaged<PictureCore>.fromOpaque(pointer).takeUnretainedValue()
    }

    @c @implementation
    func dipper_picture_core_new(_ picture: UnsafeMutablePointer<GtkWidget>!) -> UnsafeMutableRawPointer! {
        Unmanaged.passRetained(PictureCore(picture)).toOpaque()
    }

    @c @implementation
    func dipper_picture_core_end(_ pointer: UnsafeMutableRawPointer!) { core(pointer).end() }

    @c @implementation
    func dipper_picture_core_free(_ pointer: UnsafeMutableRawPointer!) {
        Unmanaged<PictureCore>.fromOpaque(pointer).release()
    }

    @c @implementation
    func dipper_picture_core_map(_ pointer: UnsafeMutableRawPointer!, _ isMapped: gboolean) {
        core(pointer).map(isMapped != 0)
    }

    @c @implementation
    func dipper_picture_core_unroot(_ pointer: UnsafeMutableRawPointer!) { core(pointer).leaveWindow() }

    @c @implementation
    func dipper_picture_core_measure(
        _ pointer: UnsafeMutableRawPointer!, _ axis: GtkOrientation, _ other: Int32,
        _ minimum: UnsafeMutablePointer<Int32>!, _ natural: UnsafeMutablePointer<Int32>!
    ) {
        let length = core(pointer).measure(axis, for: Int(other))
        (minimum.pointee, natural.pointee) = (Int32(clamping: length.least), Int32(clamping: length.most))
    }

    @c @implementation
    func dipper_picture_core_allocate(_ pointer: UnsafeMutableRawPointer!, _ width: Int32, _ height: Int32) {
        core(pointer).allocate(width: Int(width), height: Int(height))
    }

    @c @implementation
    func dipper_picture_core_draw(_ pointer: UnsafeMutableRawPointer!, _ snapshot: OpaquePointer!) {
        core(pointer).draw(snapshot)
    }

    @c @implementation
    func dipper_picture_core_set(
        _ pointer: UnsafeMutableRawPointer!, _ property: guint, _ value: UnsafePointer<GValue>!
    ) {
        let picture = core(pointer)
        func text() -> String? { g_value_get_string(value).map { String(cString: $0) } }
        func content() -> DisplayOptions.Placeholder? { text().flatMap { $0.isEmpty ? nil : .object($0) } }
        switch Int(property) {
        case DIPPER_URL:
            let url = text().flatMap { $0.isEmpty ? nil : $0 }
            picture.set(url.map { ImageRequest(string: $0) }, text: url)
        case DIPPER_ALTERNATIVE_TEXT: picture.alternativeText = text()
        case DIPPER_CONTENT_FIT: picture.fit = GtkContentFit(UInt32(g_value_get_enum(value)))
        case DIPPER_CORNER_RADIUS: picture.cornerRadius = g_value_get_double(value)
        case DIPPER_FADE_DURATION:
            let length = g_value_get_uint(value)
            picture.options.transition = length == 0 ? .none : .fade(.milliseconds(Int(length)))
        case DIPPER_SHOWS_PROGRESS: picture.showsProgress = g_value_get_boolean(value) != 0
        case DIPPER_PLAYS_ANIMATIONS:
            picture.options.playsAnimations = g_value_get_boolean(value) != 0
        case DIPPER_PLACEHOLDER_COLOR:
            let color = g_value_get_boxed(value)?.assumingMemoryBound(to: GdkRGBA.self).pointee
            picture.placeholder = color.map { .color(Color($0)) }
        case DIPPER_PLACEHOLDER_ICON: picture.placeholder = content()
        case DIPPER_FAILURE_ICON: picture.options.failure = content()
        default: return
        }
        dipper_picture_notify(picture.widget, property)
    }

    @c @implementation
    func dipper_picture_core_get(
        _ pointer: UnsafeMutableRawPointer!, _ property: guint, _ value: UnsafeMutablePointer<GValue>!
    ) {
        let picture = core(pointer)
        func icon(_ content: DisplayOptions.Placeholder?) -> String? {
            if case .object(let object) = content { object as? String } else { nil }
        }
        switch Int(property) {
        case DIPPER_URL: g_value_set_string(value, picture.url)
        case DIPPER_ALTERNATIVE_TEXT: g_value_set_string(value, picture.alternativeText)
        case DIPPER_CONTENT_FIT: g_value_set_enum(value, gint(picture.fit.rawValue))
        case DIPPER_CORNER_RADIUS: g_value_set_double(value, picture.cornerRadius)
        case DIPPER_FADE_DURATION:
            let length = picture.options.transition.duration / .milliseconds(1)
            g_value_set_uint(value, guint(min(max(0, length), 60_000)))
        case DIPPER_SHOWS_PROGRESS: g_value_set_boolean(value, picture.showsProgress ? 1 : 0)
        case DIPPER_PLAYS_ANIMATIONS:
            g_value_set_boolean(value, picture.options.playsAnimations ? 1 : 0)
        case DIPPER_PLACEHOLDER_COLOR:
            guard case .color(let color) = picture.placeholder else { return g_value_set_boxed(value, nil) }
            var boxed = GdkRGBA(color)
            g_value_set_boxed(value, &boxed)
        case DIPPER_PLACEHOLDER_ICON: g_value_set_string(value, icon(picture.placeholder))
        case DIPPER_FAILURE_ICON: g_value_set_string(value, icon(picture.options.failure))
        case DIPPER_LOADING: g_value_set_boolean(value, picture.isLoading ? 1 : 0)
        case DIPPER_ERROR: g_value_set_string(value, picture.error?.description)
        default: break
        }
    }
#endif
