import Dipper
import DipperGTK
import Foundation
import GalleryWindow
import SampleServer

struct Failure: Error, CustomStringConvertible {
    let description: String
}

/// The gallery on the virtual screen, with a server and a cache of its own.
@MainActor
final class Screen {
    let assets: Assets
    let server: AssetServer
    let cache: ImageCache
    let photographs: Photographs
    let window: GalleryWindow

    init(count: Int, pace: Pace) throws {
        for (name, value) in [
            "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GTK_A11Y": "none", "GSETTINGS_BACKEND": "memory",
        ] { setenv(name, value, 1) }
        guard gtk_init_check() != 0 else { throw Failure(description: "there is no display: run make gallery-test") }
        assets = try Photographs.assets()
        server = try AssetServer(assets, port: 0, pace: pace)
        var configuration = ImageCache.Configuration(directory: nil)
        configuration.data.network.proxy = ""
        cache = ImageCache(configuration)
        photographs = try Photographs(assets, server: server.url, count: count)
        window = GalleryWindow(photographs, cache: cache, width: 1_100, height: 760)
    }

    func end() async {
        gtk_window_destroy(UnsafeMutableRawPointer(window.widget).assumingMemoryBound(to: GtkWindow.self))
        await cache.shutdown()
        await server.stop()
    }

    /// Serves GTK's loop until a condition holds.
    func wait(for what: String, _ condition: () throws -> Bool) throws {
        let limit = ContinuousClock.now + .seconds(20)
        while try !condition() {
            guard ContinuousClock.now < limit else { throw Failure(description: "\(what) has not come") }
            // The window's own timer ends this, if nothing else does.
            g_main_context_iteration(nil, 1)
        }
    }

    /// Serves GTK's loop until the window has drawn another frame.
    func frame() throws {
        guard let clock = gtk_widget_get_frame_clock(window.widget) else { throw Failure(description: "no window") }
        let count = gdk_frame_clock_get_frame_counter(clock)
        gtk_widget_queue_draw(window.widget)
        try wait(for: "a frame") { gdk_frame_clock_get_frame_counter(clock) > count }
    }

    func rest() throws {
        try wait(for: "all pictures on screen") { !window.list.visible.isEmpty && window.list.loadingCount == 0 }
        // The fade of the last one.
        let end = ContinuousClock.now + .milliseconds(250)
        while ContinuousClock.now < end { try frame() }
    }

    func scroll(pages: Double) throws {
        let scrolling = gtk_scrolled_window_get_vadjustment(OpaquePointer(window.scrolled))
        let page = gtk_adjustment_get_page_size(scrolling)
        gtk_adjustment_set_value(scrolling, gtk_adjustment_get_value(scrolling) + pages * page)
        try frame()
    }

    /// Presses keys in the window, one after the other.
    func press(_ keys: String...) throws {
        try run(
            [
                "xdotool", "search", "--onlyvisible", "--name", "Gallery", "windowfocus", "--sync", "key", "--delay",
                "60",
            ]
                + keys)
    }

    /// The pixels of the screen, whose only window is that of the gallery.
    func screenshot() throws -> Image {
        try frame()
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).png")
        defer { try? FileManager.default.removeItem(at: file) }
        try run(["import", "-silent", "-window", "root", file.path])
        return try Image(data: Data(contentsOf: file))
    }

    /// Runs a program, and meanwhile GTK's loop, because the program may need an answer of the window.
    private func run(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        try process.run()
        try wait(for: "the end of \(arguments[0])") { !process.isRunning }
        guard process.terminationStatus == 0 else { throw Failure(description: "\(arguments[0]) has failed") }
    }

    // MARK: Pictures

    struct Place {
        let row: Int
        let x, y, width, height: Int
    }

    /// The pictures of the grid that can be seen as a whole.
    func places() -> [Place] {
        var found: [Place] = []
        // The frame of the window.
        var (left, top) = (0.0, 0.0)
        gtk_native_get_surface_transform(OpaquePointer(window.widget), &left, &top)
        func visit(_ widget: UnsafeMutablePointer<GtkWidget>) {
            var (bounds, inView) = (graphene_rect_t(), graphene_rect_t())
            if let picture = DipperPicture(pointer: OpaquePointer(widget)) {
                guard gtk_widget_get_mapped(widget) != 0,
                    gtk_widget_compute_bounds(widget, window.widget, &bounds) != 0,
                    gtk_widget_compute_bounds(widget, window.scrolled, &inView) != 0, inView.origin.y >= 0,
                    inView.origin.y + inView.size.height <= Float(gtk_widget_get_height(window.scrolled)),
                    let row = picture.request?.url?.query.flatMap({ Int($0.dropFirst(2)) })
                else { return }
                return found.append(
                    Place(
                        row: row, x: Int(left) + Int(bounds.origin.x), y: Int(top) + Int(bounds.origin.y),
                        width: Int(bounds.size.width), height: Int(bounds.size.height)))
            }
            var child = gtk_widget_get_first_child(widget)
            while let next = child {
                visit(next)
                child = gtk_widget_get_next_sibling(next)
            }
        }
        visit(window.scrolled)
        return found
    }

    /// Returns the mean difference between a photograph and a part of a screenshot, from 0 to 255; `nil` for an animation.
    func difference(_ place: Place, in screenshot: Image) throws -> Double? {
        let path = String(photographs.uri(of: place.row).prefix { $0 != "?" })
        guard path.hasSuffix(".jpg"), let file = assets.files[path] else { return nil }
        let target = TargetSize(width: place.width, height: place.height, .fill)
        let image = try Image(data: file, DecodeOptions(target: target))
        let (left, top) = ((image.width - place.width) / 2, (image.height - place.height) / 2)
        var (sum, count) = (0, 0)
        // Without the corners, which are round.
        for y in stride(from: 14, to: place.height - 14, by: 3) {
            for x in stride(from: 14, to: place.width - 14, by: 3) {
                let (wanted, shown) = (image[left + x, top + y], screenshot[place.x + x, place.y + y])
                sum += abs(Int(wanted.x) - Int(shown.x)) + abs(Int(wanted.y) - Int(shown.y))
                sum += abs(Int(wanted.z) - Int(shown.z))
                count += 3
            }
        }
        return Double(sum) / Double(count)
    }
}
