#if GTK
    public import CGTK4
    import GTKShims

    /// Connects closures to signals of GTK's objects, which keep the closures.
    public enum GtkSignal {
        private final class Box<Body> {
            let body: Body

            init(_ body: Body) { self.body = body }

            static func open(_ pointer: gpointer?) -> Body? {
                pointer.map { Unmanaged<Box<Body>>.fromOpaque($0).takeUnretainedValue().body }
            }
        }

        /// Calls a closure for a signal without arguments, or when an object notifies of a property (`notify::NAME`).
        ///
        /// ```swift
        /// GtkSignal.connect(button, "clicked") { picture.request = nil }
        /// ```
        /// - Parameters:
        ///   - object: the object that emits the signal.
        ///   - name: the name of the signal.
        ///   - isAfter: whether GTK's own handlers come first.
        ///   - body: the closure, which the object keeps.
        /// - Returns: the number of the handler, for `g_signal_handler_disconnect`.
        @discardableResult
        public static func connect(
            _ object: UnsafeMutableRawPointer, _ name: String, isAfter: Bool = false, _ body: @escaping () -> Void
        ) -> gulong {
            let function =
                name.hasPrefix("notify::")
                ? dipper_handler_of_object { _, _, data in Box<() -> Void>.open(data)?() }
                : dipper_handler { _, data in Box<() -> Void>.open(data)?() }
            return connect(object, name, function, Box(body), isAfter)
        }

        /// Calls a closure with the object that a signal has as its only argument.
        static func connect(
            _ object: UnsafeMutableRawPointer, _ name: String, _ body: @escaping (OpaquePointer) -> Void
        ) -> gulong {
            let function = dipper_handler_of_object { _, argument, data in
                if let argument { Box<(OpaquePointer) -> Void>.open(data)?(OpaquePointer(argument)) }
            }
            return connect(object, name, function, Box(body))
        }

        /// Calls a closure with the number that a signal has as its only argument.
        static func connect(
            _ object: UnsafeMutableRawPointer, toNumber name: String, _ body: @escaping (Int) -> Void
        ) -> gulong {
            let function = dipper_handler_of_number { _, argument, data in
                Box<(Int) -> Void>.open(data)?(Int(argument))
            }
            return connect(object, name, function, Box(body))
        }

        private static func connect(
            _ object: UnsafeMutableRawPointer, _ name: String, _ function: GCallback?, _ box: AnyObject,
            _ isAfter: Bool = false
        ) -> gulong {
            g_signal_connect_data(
                object, name, function, Unmanaged.passRetained(box).toOpaque(),
                { data, _ in if let data { Unmanaged<AnyObject>.fromOpaque(data).release() } },
                isAfter ? G_CONNECT_AFTER : GConnectFlags(rawValue: 0))
        }
    }

    /// The settings of the user for all programs.
    enum Setting {
        static func isAnimating(_ widget: UnsafeMutablePointer<GtkWidget>?) -> Bool {
            guard let settings = widget.map(gtk_widget_get_settings) ?? gtk_settings_get_default() else { return true }
            var value = GValue()
            g_value_init(&value, GType(5 << 2))
            g_object_get_property(
                UnsafeMutableRawPointer(settings).assumingMemoryBound(to: GObject.self), "gtk-enable-animations", &value
            )
            return g_value_get_boolean(&value) != 0
        }
    }
#endif
