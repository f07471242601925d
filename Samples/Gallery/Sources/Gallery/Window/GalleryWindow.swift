import CGTK
import Dipper
import Foundation

final class GalleryWindow {
    let grid: PhotoGrid
    let pointer: UnsafeMutablePointer<GtkWidget>
    private let status: StatusLine
    private var title = "Gallery"
    private let loop = g_main_loop_new(nil, 0)

    /// Creates and shows the window; `nil` if GTK fails to create a widget.
    init?(_ photographs: Photographs, cache: ImageCache, width: Int, height: Int) {
        Style.apply()
        guard let pointer = gtk_window_new(), let scrolled = gtk_scrolled_window_new(), let status = StatusLine(),
            let column = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0),
            let scrolling = gtk_scrolled_window_get_vadjustment(OpaquePointer(scrolled))
        else { return nil }
        self.pointer = pointer
        self.status = status
        grid = PhotoGrid(photographs, cache: cache, scrolling: scrolling)
        gtk_scrolled_window_set_policy(OpaquePointer(scrolled), GTK_POLICY_NEVER, GTK_POLICY_ALWAYS)
        gtk_scrolled_window_set_child(OpaquePointer(scrolled), grid.pointer)
        gtk_widget_set_vexpand(scrolled, 1)
        let box = UnsafeMutableRawPointer(column).assumingMemoryBound(to: GtkBox.self)
        gtk_box_append(box, scrolled)
        gtk_box_append(box, status.box)
        let window = UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GtkWindow.self)
        gtk_window_set_title(window, title)
        gtk_window_set_default_size(window, Int32(width), Int32(height))
        gtk_window_set_child(window, column)
        connect(cache)
        gtk_window_present(window)
        gtk_widget_grab_focus(grid.pointer)
    }

    private func connect(_ cache: ImageCache) {
        Signals.connectClosing(pointer) { [weak self] in self?.close() }
        Signals.connectKeys(of: pointer) { [weak self] key, modifiers in
            guard let self, modifiers.rawValue & GDK_ALT_MASK.rawValue == 0 else { return false }
            if key == GDK_KEY_q || key == GDK_KEY_Escape {
                close()
                return true
            }
            return grid.press(key)
        }
        Signals.every(milliseconds: 150) { [weak self] in
            guard let self else { return }
            status.update(grid, cache)
            tellTitle()
        }
    }

    /// Sets the window's title to the photograph at the cursor, for assistive technologies.
    private func tellTitle() {
        let text = "\(grid.photographs[grid.cursor].title), \(grid.cursor + 1) of \(grid.photographs.count) – Gallery"
        guard text != title else { return }
        title = text
        gtk_window_set_title(UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GtkWindow.self), text)
    }

    func run() { g_main_loop_run(loop) }

    func close() { g_main_loop_quit(loop) }
}
