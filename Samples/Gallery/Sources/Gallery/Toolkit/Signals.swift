import CGTK

/// Closures where GTK wants functions with a pointer. Each is kept as long as the object that calls it.
enum Signals {
    private final class Box<Body> {
        let body: Body

        init(_ body: Body) {
            self.body = body
        }

        static func open(_ pointer: gpointer?) -> Body? {
            pointer.map { Unmanaged<Box<Body>>.fromOpaque($0).takeUnretainedValue().body }
        }
    }

    /// A key with its modifiers; true if it was of use.
    typealias KeyBody = (_ key: Int32, _ modifiers: GdkModifierType) -> Bool
    /// The time of the frame in microseconds; true to be called again for the next.
    typealias TickBody = (_ time: Int64) -> Bool

    /// Calls a closure at a signal without parameters of its own.
    static func connect(_ object: UnsafeMutableRawPointer, _ name: String, _ body: @escaping () -> Void) {
        let function: @convention(c) (gpointer?, gpointer?) -> Void = { _, data in
            Meter.shared.measure { Box<() -> Void>.open(data)?() }
        }
        connect(object, name, unsafeBitCast(function, to: GCallback.self), Box(body))
    }

    /// Calls a closure when a window is to be closed; it is not closed by that.
    static func connectClosing(_ window: UnsafeMutableRawPointer, _ body: @escaping () -> Void) {
        let function: @convention(c) (gpointer?, gpointer?) -> gboolean = { _, data in
            Box<() -> Void>.open(data)?()
            return 1
        }
        connect(window, "close-request", unsafeBitCast(function, to: GCallback.self), Box(body))
    }

    /// Calls a closure for keys that are pressed in a window.
    static func connectKeys(of widget: UnsafeMutablePointer<GtkWidget>, _ body: @escaping KeyBody) {
        guard let controller = gtk_event_controller_key_new() else { return }
        // Before the list scrolls by the same keys in its own way.
        gtk_event_controller_set_propagation_phase(controller, GTK_PHASE_CAPTURE)
        let function: @convention(c) (gpointer?, guint, guint, GdkModifierType, gpointer?) -> gboolean = {
            _, key, _, modifiers, data in
            Meter.shared.measure { Box<KeyBody>.open(data)?(Int32(clamping: key), modifiers) ?? false } ? 1 : 0
        }
        connect(
            UnsafeMutableRawPointer(controller), "key-pressed", unsafeBitCast(function, to: GCallback.self), Box(body))
        gtk_widget_add_controller(widget, controller)
    }

    /// Calls a closure once for each frame.
    static func tick(_ widget: UnsafeMutablePointer<GtkWidget>, _ body: @escaping TickBody) {
        gtk_widget_add_tick_callback(
            widget,
            { _, clock, data in
                Meter.shared.measure {
                    Box<TickBody>.open(data)?(Int64(gdk_frame_clock_get_frame_time(clock))) ?? false
                } ? 1 : 0
            },
            Unmanaged.passRetained(Box(body)).toOpaque(),
            { data in if let data { Unmanaged<AnyObject>.fromOpaque(data).release() } })
    }

    /// Calls a closure every so many milliseconds, for as long as the program runs.
    static func every(milliseconds: Int, _ body: @escaping () -> Void) {
        g_timeout_add(
            guint(milliseconds),
            { data in
                Meter.shared.measure { Box<() -> Void>.open(data)?() }
                return 1
            }, Unmanaged.passRetained(Box(body)).toOpaque())
    }

    private static func connect(
        _ object: UnsafeMutableRawPointer, _ name: String, _ function: @escaping GCallback, _ box: AnyObject
    ) {
        g_signal_connect_data(
            object, name, function, Unmanaged.passRetained(box).toOpaque(),
            { data, _ in if let data { Unmanaged<AnyObject>.fromOpaque(data).release() } }, GConnectFlags(rawValue: 0))
    }
}
