import CGTK

/// Functions that connect Swift closures to GTK, which takes C functions with a pointer. GTK's object keeps its closure
/// alive.
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

    /// A closure called with a key and its modifiers; it returns `true` if it has handled the key.
    typealias KeyBody = (_ key: Int32, _ modifiers: GdkModifierType) -> Bool
    /// A closure called with the time of a frame in microseconds; it returns `true` to be called again for the next
    /// frame.
    typealias TickBody = (_ time: Int64) -> Bool

    /// Calls a closure whenever an object emits a signal that has no parameters of its own.
    static func connect(_ object: UnsafeMutableRawPointer, _ name: String, _ body: @escaping () -> Void) {
        let function: @convention(c) (gpointer?, gpointer?) -> Void = { _, data in
            Meter.shared.measure { Box<() -> Void>.open(data)?() }
        }
        connect(object, name, unsafeBitCast(function, to: GCallback.self), Box(body))
    }

    /// Calls a closure when the user asks to close a window; the window itself stays open.
    static func connectClosing(_ window: UnsafeMutableRawPointer, _ body: @escaping () -> Void) {
        let function: @convention(c) (gpointer?, gpointer?) -> gboolean = { _, data in
            Box<() -> Void>.open(data)?()
            return 1
        }
        connect(window, "close-request", unsafeBitCast(function, to: GCallback.self), Box(body))
    }

    static func connectKeys(of widget: UnsafeMutablePointer<GtkWidget>, _ body: @escaping KeyBody) {
        guard let controller = gtk_event_controller_key_new() else { return }
        // In the capture phase the closure gets the key before the scrolled window does, which would scroll by it.
        gtk_event_controller_set_propagation_phase(controller, GTK_PHASE_CAPTURE)
        let function: @convention(c) (gpointer?, guint, guint, GdkModifierType, gpointer?) -> gboolean = {
            _, key, _, modifiers, data in
            Meter.shared.measure { Box<KeyBody>.open(data)?(Int32(clamping: key), modifiers) ?? false } ? 1 : 0
        }
        connect(
            UnsafeMutableRawPointer(controller), "key-pressed", unsafeBitCast(function, to: GCallback.self), Box(body))
        gtk_widget_add_controller(widget, controller)
    }

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

    /// Calls a closure at an interval, for as long as the program runs.
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
