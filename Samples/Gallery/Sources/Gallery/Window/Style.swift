import CGTK

enum Style {
    /// The space between cells and around all of them, in pixels.
    static let gap = 12
    /// The smallest width of a cell, in pixels, unless a single column has less space.
    static let cellWidth = 200
    static let proportion = 0.75
    static let cornerRadius: Float = 10

    static let accent = GdkRGBA(red: 1, green: 0.78, blue: 0.32, alpha: 1)
    static let emptyCell = GdkRGBA(red: 0.14, green: 0.15, blue: 0.17, alpha: 1)
    static let track = GdkRGBA(red: 0, green: 0, blue: 0, alpha: 0.35)
    static let progress = GdkRGBA(red: 1, green: 1, blue: 1, alpha: 0.85)
    static let waiting = GdkRGBA(red: 0.95, green: 0.45, blue: 0.3, alpha: 0.9)

    /// Returns the eased progress of a fade: slow at both ends.
    static func eased(_ fraction: Double) -> Double { fraction * fraction * (3 - 2 * fraction) }

    static let sheet = """
        window { background-color: #16181b; color: #d9dce1; }
        .status { background-color: #1f2226; border-top: 1px solid #2c3036; padding: 9px 16px; font-size: 14px; }
        .status label { font-feature-settings: "tnum"; }
        .title { font-weight: bold; color: #ffffff; }
        .quiet { color: #9aa1ab; }
        .queue { color: #b4bac3; background-color: #2a2e34; border-radius: 9px; padding: 3px 11px; }
        scrollbar { background-color: transparent; border: none; }
        scrollbar slider { background-color: #565d67; min-width: 8px; border-radius: 6px; }
        """

    static func apply() {
        guard let provider = gtk_css_provider_new() else { return }
        gtk_css_provider_load_from_data(provider, sheet, -1)
        gtk_style_context_add_provider_for_display(
            gdk_display_get_default(), OpaquePointer(provider), guint(GTK_STYLE_PROVIDER_PRIORITY_APPLICATION))
        g_object_unref(UnsafeMutableRawPointer(provider))
    }
}
