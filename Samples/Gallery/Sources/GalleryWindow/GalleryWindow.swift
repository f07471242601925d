import Dipper
public import DipperGTK
import Foundation

/// A window with a grid of photographs, one of which fills the window after a click.
public final class GalleryWindow {
    /// The smallest width of a photograph in the grid; its height is three quarters of its width.
    private static let photographWidth = 176

    public let widget: UnsafeMutablePointer<GtkWidget>
    public let list: PictureList
    /// The scrolled window of the grid.
    public let scrolled: UnsafeMutablePointer<GtkWidget>
    private let photographs: Photographs
    private let cache: ImageCache
    private let builder: OpaquePointer
    private let photograph: DipperPicture
    /// The photograph that fills the window; `nil` while the grid is shown.
    public private(set) var row: Int?
    private var timer: guint = 0

    /// Creates and shows the window.
    public init(_ photographs: Photographs, cache: ImageCache, width: Int, height: Int) {
        (self.photographs, self.cache) = (photographs, cache)
        // The file below has an object of this class.
        _ = DipperPicture.typeName
        let file = String(decoding: PackageResources.Gallery_ui, as: UTF8.self)
        builder = gtk_builder_new_from_string(file, -1)
        widget = Self.object("window", of: builder)
        guard let picture = DipperPicture(pointer: OpaquePointer(Self.object("photograph", of: builder))) else {
            preconditionFailure("The file of the window has a picture.")
        }
        photograph = picture
        photograph.cache = cache
        list = PictureList(count: photographs.count, cache: cache) { photographs.request(at: $0) }
        scrolled = list.makeGrid(
            width: Self.photographWidth, height: Self.photographWidth * 3 / 4, setUp: Self.makeCell
        ) { picture, row in
            let motif = photographs[row]
            picture.placeholder = .color(motif.color)
            picture.alternativeText = motif.title
            // The caption lies over the picture.
            gtk_label_set_text(OpaquePointer(gtk_widget_get_next_sibling(picture.widget)), motif.title)
        }
        applyStyle()
        connect()
        gtk_widget_set_hexpand(scrolled, 1)
        gtk_scrolled_window_set_policy(OpaquePointer(scrolled), GTK_POLICY_NEVER, GTK_POLICY_AUTOMATIC)
        gtk_box_append(Self.cast(self["all"]), scrolled)
        gtk_window_set_default_size(Self.cast(widget), Int32(width), Int32(height))
        gtk_window_present(Self.cast(widget))
        show(nil)
    }

    deinit {
        if timer != 0 { g_source_remove(timer) }
        g_object_unref(UnsafeMutableRawPointer(builder))
    }

    private static func makeCell(_ picture: DipperPicture) -> UnsafeMutablePointer<GtkWidget> {
        let (cell, caption) = (gtk_overlay_new()!, gtk_label_new(nil)!)
        gtk_overlay_set_child(OpaquePointer(cell), picture.widget)
        gtk_overlay_add_overlay(OpaquePointer(cell), caption)
        gtk_widget_add_css_class(caption, "caption")
        gtk_widget_set_valign(caption, GTK_ALIGN_END)
        gtk_label_set_xalign(OpaquePointer(caption), 0)
        gtk_label_set_ellipsize(OpaquePointer(caption), PANGO_ELLIPSIZE_END)
        return cell
    }

    private func applyStyle() {
        let provider = gtk_css_provider_new()
        let sheet = String(decoding: PackageResources.Gallery_css, as: UTF8.self)
        gtk_css_provider_load_from_data(provider, sheet, -1)
        gtk_style_context_add_provider_for_display(
            gtk_widget_get_display(widget), OpaquePointer(provider), guint(GTK_STYLE_PROVIDER_PRIORITY_APPLICATION))
        g_object_unref(provider)
    }

    private func connect() {
        let grid = gtk_scrolled_window_get_child(OpaquePointer(scrolled))
        gtk_grid_view_set_single_click_activate(OpaquePointer(grid), 1)
        list.onActivate { [weak self] row in self?.show(row) }
        GtkSignal.connect(self["back"], "clicked") { [weak self] in self?.show(nil) }
        GtkSignal.connect(self["previous"], "clicked") { [weak self] in self?.step(-1) }
        GtkSignal.connect(self["next"], "clicked") { [weak self] in self?.step(1) }
        g_object_bind_property(
            UnsafeMutableRawPointer(gtk_settings_get_default()), "gtk-application-prefer-dark-theme", self["dark"],
            "active",
            GBindingFlags(G_BINDING_BIDIRECTIONAL.rawValue | G_BINDING_SYNC_CREATE.rawValue))
        timer = g_timeout_add(
            200,
            { data in
                if let data { Unmanaged<GalleryWindow>.fromOpaque(data).takeUnretainedValue().tellStatus() }
                return 1
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    // MARK: Pages

    /// Shows one photograph, or all of them.
    public func show(_ row: Int?) {
        self.row = row
        let motif = row.map { photographs[$0] }
        photograph.request = row.map(photographs.request)
        photograph.alternativeText = motif?.title
        let count = photographs.count.formatted()
        gtk_label_set_text(OpaquePointer(self["title"]), motif?.title ?? "Gallery")
        gtk_label_set_text(
            OpaquePointer(self["subtitle"]), row.map { "\(($0 + 1).formatted()) of \(count)" } ?? "\(count) photographs"
        )
        gtk_stack_set_visible_child_name(OpaquePointer(self["pages"]), row == nil ? "all" : "one")
        gtk_widget_set_visible(self["navigation"], row == nil ? 0 : 1)
        if row == nil {
            gtk_widget_grab_focus(gtk_scrolled_window_get_child(OpaquePointer(scrolled)))
        } else {
            // The keys of the page are those of the window.
            gtk_window_set_focus(Self.cast(widget), nil)
        }
    }

    private func step(_ step: Int) {
        guard let row, (0..<photographs.count).contains(row + step) else { return }
        show(row + step)
    }

    private func tellStatus() {
        let counts = cache.data.queueCounts
        let visible = list.visible.count
        let there = row == nil ? "\(visible - list.loadingCount) of \(visible) on screen  ·  " : ""
        let text = """
            \(there)\
            fast \(counts.fastRunning) running, \(counts.fastWaiting) waiting  ·  \
            slow \(counts.slowRunning) running, \(counts.slowWaiting) waiting  ·  \
            \(cache.memoryCount) in memory, \(cache.memorySize >> 20) MB
            """
        gtk_label_set_text(OpaquePointer(self["status"]), text)
    }

    // MARK: Objects

    private subscript(name: String) -> UnsafeMutablePointer<GtkWidget> { Self.object(name, of: builder) }

    private static func object(_ name: String, of builder: OpaquePointer) -> UnsafeMutablePointer<GtkWidget> {
        guard let object = gtk_builder_get_object(builder, name) else {
            preconditionFailure("The file of the window has all objects.")
        }
        return cast(object)
    }

    private static func cast<Class>(_ object: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Class> {
        object.assumingMemoryBound(to: Class.self)
    }
}
