import CGTK

/// A widget that is laid out and drawn in Swift: GTK calls this class's methods.
///
/// Use it only on the thread that runs GTK's loop.
class Widget {
    /// The GTK widget. The Swift object keeps the GTK widget alive, but GTK does not keep the Swift object alive.
    let pointer: UnsafeMutablePointer<GtkWidget>

    init() {
        guard let object = g_object_new_with_properties(Self.type, 0, nil, nil) else {
            preconditionFailure("GTK makes widgets of types that are registered.")
        }
        pointer = UnsafeMutableRawPointer(object).assumingMemoryBound(to: GtkWidget.self)
        g_object_ref_sink(pointer)
        instance.pointee.object = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit {
        instance.pointee.object = nil
        g_object_unref(pointer)
    }

    // MARK: Layout and drawing

    /// Returns the minimum and the preferred length along an axis.
    /// - Parameter other: The length along the other axis, or -1 if it is not known.
    func measure(_ axis: GtkOrientation, for other: Int) -> (minimum: Int, natural: Int) { (0, 0) }

    func layOut(width: Int, height: Int) {}

    /// Draws the widget; by default, its children.
    func draw(_ snapshot: OpaquePointer) {
        var child = gtk_widget_get_first_child(pointer)
        while let next = child {
            gtk_widget_snapshot_child(pointer, next, snapshot)
            child = gtk_widget_get_next_sibling(next)
        }
    }

    /// The size of the widget in GTK's logical pixels.
    var size: (width: Int, height: Int) {
        (Int(gtk_widget_get_width(pointer)), Int(gtk_widget_get_height(pointer)))
    }

    // MARK: GTK type

    private var instance: UnsafeMutablePointer<SwiftWidget> {
        UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: SwiftWidget.self)
    }

    private static func object(of pointer: UnsafeMutablePointer<GtkWidget>?) -> Widget? {
        guard let pointer else { return nil }
        let instance = UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: SwiftWidget.self)
        return instance.pointee.object.map { Unmanaged<Widget>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let type: GType = g_type_register_static_simple(
        gtk_widget_get_type(), "SwiftWidget",
        guint(MemoryLayout<GtkWidgetClass>.size), { pointer, _ in fill(pointer) },
        guint(MemoryLayout<SwiftWidget>.size), nil, GTypeFlags(rawValue: 0))

    private static func fill(_ pointer: gpointer?) {
        guard let type = pointer?.assumingMemoryBound(to: GtkWidgetClass.self) else { return }
        gtk_widget_class_set_css_name(type, "picture")
        type.pointee.get_request_mode = { _ in GTK_SIZE_REQUEST_HEIGHT_FOR_WIDTH }
        type.pointee.measure = { pointer, axis, other, minimum, natural, _, _ in
            guard let object = Widget.object(of: pointer) else { return }
            let length = Meter.shared.measure { object.measure(axis, for: Int(other)) }
            minimum?.pointee = Int32(clamping: length.minimum)
            natural?.pointee = Int32(clamping: length.natural)
        }
        type.pointee.size_allocate = { pointer, width, height, _ in
            guard let object = Widget.object(of: pointer) else { return }
            Meter.shared.measure { object.layOut(width: Int(width), height: Int(height)) }
        }
        type.pointee.snapshot = { pointer, snapshot in
            guard let object = Widget.object(of: pointer), let snapshot else { return }
            Meter.shared.measure { object.draw(snapshot) }
        }
    }
}
