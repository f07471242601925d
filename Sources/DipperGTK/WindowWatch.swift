#if GTK
    import CGTK4
    import Dipper
    import Synchronization

    /// Tells a mapped widget when its window is minimized, and when it is back.
    final class WindowWatch {
        private let surface: OpaquePointer
        private var handler: gulong = 0

        /// Returns `nil` if the window is none that can be minimized.
        init?(_ widget: UnsafeMutablePointer<GtkWidget>, _ change: @escaping () -> Void) {
            guard let root = gtk_widget_get_root(widget), let surface = Self.surface(of: root) else { return nil }
            self.surface = surface
            g_object_ref(UnsafeMutableRawPointer(surface))
            var wasHidden = Self.isMinimized(surface)
            handler = GtkSignal.connect(UnsafeMutableRawPointer(surface), "notify::state") {
                let isHidden = Self.isMinimized(surface)
                guard wasHidden != isHidden else { return }
                wasHidden = isHidden
                change()
            }
        }

        deinit {
            g_signal_handler_disconnect(UnsafeMutableRawPointer(surface), handler)
            g_object_unref(UnsafeMutableRawPointer(surface))
        }

        var isHidden: Bool { Self.isMinimized(surface) }

        private static func surface(of root: OpaquePointer) -> OpaquePointer? {
            guard let surface = gtk_native_get_surface(root),
                g_type_check_instance_is_a(
                    UnsafeMutableRawPointer(surface).assumingMemoryBound(to: GTypeInstance.self),
                    gdk_toplevel_get_type()
                ) != 0
            else { return nil }
            return surface
        }

        private static func isMinimized(_ surface: OpaquePointer) -> Bool {
            // The second one is GDK_TOPLEVEL_STATE_SUSPENDED, which GTK has since 4.12.
            gdk_toplevel_get_state(surface).rawValue & (GDK_TOPLEVEL_STATE_MINIMIZED.rawValue | 1 << 16) != 0
        }

        // MARK: Windows

        private static func isHidden(_ root: OpaquePointer) -> Bool {
            gtk_widget_get_visible(UnsafeMutablePointer(root)) == 0 || surface(of: root).map(isMinimized) ?? true
        }

        static func isDestroyed(over widget: UnsafeMutablePointer<GtkWidget>) -> Bool {
            guard let root = gtk_widget_get_root(widget) else { return false }
            return g_list_store_find(gtk_window_get_toplevels(), UnsafeMutableRawPointer(root), nil) == 0
        }

        /// The caches that are told soon whether all windows are hidden.
        private static let waiting = Mutex<[ObjectIdentifier: ImageCache]>([:])

        /// Tells a cache whether any window of the program is to be seen.
        static func tell(_ cache: ImageCache) {
            let isFirst = waiting.withLock { $0.updateValue(cache, forKey: ObjectIdentifier(cache)) == nil }
            guard isFirst else { return }
            // One window may take the place of another.
            CallbackQueue.glib.perform {
                _ = waiting.withLock { $0.removeValue(forKey: ObjectIdentifier(cache)) }
                let isHidden = areAllHidden
                if cache.isHidden != isHidden { cache.isHidden = isHidden }
            }
        }

        private static var areAllHidden: Bool {
            let windows = gtk_window_get_toplevels()
            return (0..<g_list_model_get_n_items(windows)).allSatisfy { number in
                guard let window = g_list_model_get_item(windows, number) else { return true }
                defer { g_object_unref(window) }
                return isHidden(OpaquePointer(window))
            }
        }
    }
#endif
