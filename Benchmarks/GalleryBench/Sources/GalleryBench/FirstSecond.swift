import Dipper
import DipperGTK
import Foundation

/// The times after which something is to be seen in place of a photograph that is still to be fetched.
struct FirstSecond: Encodable {
    private static let placeholder = Color(hex: 0xff00ff)
    private static let hash = "1QcSHQRnh493V4dIh4eXh1h4kJUI"

    /// Milliseconds for decoding a ThumbHash.
    let thumbHash: Report.Spread
    /// Milliseconds from the mapping of a widget to the end of the frame that shows the photograph in another size, which
    /// is on disk.
    let otherSize: Report.Spread

    /// - Parameters:
    ///   - folder: The folder of the cache, which is empty.
    ///   - stop: Stops the server, so that the photographs do not come.
    init(_ requests: [ImageRequest], folder: URL, stop: () async -> Void) async throws {
        thumbHash = .init(
            (0..<1_000).map { _ in
                let start = ContinuousClock.now
                guard Image(thumbHash: Self.hash) != nil else { preconditionFailure("The text is a ThumbHash.") }
                return start.duration(to: .now) / .milliseconds(1)
            })
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.network.proxy = ""
        let first = ImageCache(configuration)
        for request in requests {
            let small = request.processed(by: .resize(to: TargetSize(width: 160, height: 120)))
            _ = try await first.getImage(small.with(\.keepsOriginal, false)).value
        }
        await first.idle()
        await first.shutdown()
        await stop()
        let cache = ImageCache(configuration)
        otherSize = .init(requests.map { Self.time(of: $0, cache) })
        await cache.shutdown()
    }

    /// Shows a photograph in a window of its own until its placeholder has gone.
    private static func time(of request: ImageRequest, _ cache: ImageCache) -> Double {
        let window = UnsafeMutableRawPointer(gtk_window_new()!).assumingMemoryBound(to: GtkWindow.self)
        let picture = DipperPicture(cache: cache)
        picture.placeholder = .color(placeholder)
        picture.contentFit = GTK_CONTENT_FIT_COVER
        picture.request = request.with(\.keepsOriginal, false)
        var (start, end) = (ContinuousClock.Instant?.none, ContinuousClock.Instant?.none)
        GtkSignal.connect(UnsafeMutableRawPointer(picture.widget), "map") { start = .now }
        gtk_window_set_default_size(window, 800, 600)
        gtk_window_set_child(window, picture.widget)
        gtk_window_present(window)
        guard let clock = gtk_widget_get_frame_clock(picture.widget) else {
            preconditionFailure("The window is shown.")
        }
        GtkSignal.connect(UnsafeMutableRawPointer(clock), "after-paint") {
            if end == nil, start != nil, center(of: picture.widget) != placeholder.premultiplied { end = .now }
        }
        gdk_frame_clock_begin_updating(clock)
        while end == nil { g_main_context_iteration(nil, 1) }
        gdk_frame_clock_end_updating(clock)
        gtk_window_destroy(window)
        guard let start, let end else { return .infinity }
        return start.duration(to: end) / .milliseconds(1)
    }

    /// The pixel in the middle of a widget, as it was drawn last; `nil` before that.
    private static func center(of widget: UnsafeMutablePointer<GtkWidget>) -> SIMD4<UInt8>? {
        let (width, height) = (gtk_widget_get_width(widget), gtk_widget_get_height(widget))
        guard let native = gtk_widget_get_native(widget), let renderer = gtk_native_get_renderer(native),
            let snapshot = gtk_snapshot_new(), let paintable = gtk_widget_paintable_new(widget)
        else { return nil }
        gdk_paintable_snapshot(paintable, snapshot, Double(width), Double(height))
        g_object_unref(UnsafeMutableRawPointer(paintable))
        guard let node = gtk_snapshot_free_to_node(snapshot) else { return nil }
        defer { gsk_render_node_unref(node) }
        var area = graphene_rect_t(
            origin: .init(x: Float(width / 2), y: Float(height / 2)), size: .init(width: 1, height: 1))
        guard let texture = gsk_renderer_render_texture(renderer, node, &area) else { return nil }
        defer { g_object_unref(UnsafeMutableRawPointer(texture)) }
        var pixel = [UInt8](repeating: 0, count: 4)
        gdk_texture_download(texture, &pixel, 4)
        // Blue comes first.
        return SIMD4(pixel[2], pixel[1], pixel[0], pixel[3])
    }

    var summary: String {
        """
        A ThumbHash is decoded in \(thumbHash.median) ms (median; 99th percentile \(thumbHash.p99) ms).
        Another size on disk is shown \(otherSize.median) ms after the widget is mapped (median), at most \
        \(otherSize.max) ms.
        """
    }
}
