import DipperGTK
import Foundation
import FoundationNetworking

/// The grid of the gallery in a program without a cache: a picture is fetched when GTK binds its row, by `URLSession`,
/// which uses libcurl, and decoded by GdkPixbuf on GTK's thread.
struct NaiveWindow {
    let widget = gtk_window_new()!
    let scrolled = gtk_scrolled_window_new()!

    init(_ urls: [String]) {
        let list = gtk_string_list_new(nil)
        for url in urls { gtk_string_list_append(list, url) }
        let factory = gtk_signal_list_item_factory_new()
        typealias Handler = @convention(c) (gpointer?, OpaquePointer?, gpointer?) -> Void
        func connect(_ name: String, _ body: Handler) {
            let function = unsafeBitCast(body, to: GCallback.self)
            g_signal_connect_data(gpointer(factory), name, function, nil, nil, GConnectFlags(rawValue: 0))
        }
        connect("setup") { _, item, _ in
            let picture = gtk_picture_new()
            gtk_widget_set_size_request(picture, 176, 132)
            gtk_picture_set_content_fit(OpaquePointer(picture), GTK_CONTENT_FIT_COVER)
            gtk_list_item_set_child(item, picture)
        }
        connect("bind") { _, item, _ in
            guard let picture = gtk_list_item_get_child(item),
                let text = gtk_string_object_get_string(OpaquePointer(gtk_list_item_get_item(item))),
                let url = URL(string: String(cString: text))
            else { return }
            gtk_picture_set_paintable(OpaquePointer(picture), nil)
            // Tells which answer the widget waits for.
            gtk_widget_set_name(picture, text)
            nonisolated(unsafe) let shown = UnsafeMutableRawPointer(g_object_ref(picture))
            URLSession.shared.dataTask(with: url) { data, _, _ in
                let answer = Unmanaged.passRetained((shown, url.absoluteString, data ?? Data()) as AnyObject)
                g_idle_add({ show(Unmanaged<AnyObject>.fromOpaque($0!).takeRetainedValue()) }, answer.toOpaque())
            }.resume()
        }
        gtk_scrolled_window_set_child(OpaquePointer(scrolled), gtk_grid_view_new(gtk_no_selection_new(list), factory))
        let window = UnsafeMutableRawPointer(widget).assumingMemoryBound(to: GtkWindow.self)
        gtk_window_set_default_size(window, 1_100, 760)
        gtk_window_set_child(window, scrolled)
        gtk_window_present(window)
    }
}

private func show(_ answer: AnyObject) -> gboolean {
    guard let (picture, url, data) = answer as? (UnsafeMutableRawPointer, String, Data) else { return 0 }
    defer { g_object_unref(picture) }
    guard String(cString: gtk_widget_get_name(picture.assumingMemoryBound(to: GtkWidget.self))) == url else { return 0 }
    let loader = gdk_pixbuf_loader_new()
    defer { g_object_unref(loader) }
    _ = [UInt8](data).withUnsafeBufferPointer { gdk_pixbuf_loader_write(loader, $0.baseAddress, gsize($0.count), nil) }
    guard gdk_pixbuf_loader_close(loader, nil) != 0, let pixels = gdk_pixbuf_loader_get_pixbuf(loader) else { return 0 }
    let texture = gdk_texture_new_for_pixbuf(pixels)
    gtk_picture_set_paintable(OpaquePointer(picture), texture)
    g_object_unref(gpointer(texture))
    return 0
}
