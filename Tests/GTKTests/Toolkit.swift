import CGTK4
import DipperGTK
import GTKTestShims
import Foundation
import Testing
import TestSupport

/// All tests, one after the other, because GTK has one thread.
@Suite("Widgets of GTK", .serialized, .timeLimit(.minutes(2)))
enum GTKTests {}

struct Failure: Error, CustomStringConvertible {
    let description: String
}

/// GTK in the tests' process, whose loop runs only while a test waits for something.
@MainActor
enum Toolkit {
    private static let isThere: Bool = {
        for (name, value) in [
            "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GTK_A11Y": "test", "GSETTINGS_BACKEND": "memory",
            "GIO_USE_VFS": "local",
        ] { setenv(name, value, 1) }
        // It would decide whether the theme is dark.
        unsetenv("GTK_THEME")
        guard gtk_init_check() != 0 else { return false }
        set(animations: false)
        return true
    }()

    static func start() throws {
        guard isThere else { throw Failure(description: "there is no display: run the tests by make gtk") }
    }

    static func set(animations: Bool) {
        set_setting("gtk-enable-animations", animations)
    }

    static func set(isDark: Bool) {
        set_setting("gtk-application-prefer-dark-theme", isDark)
    }

    /// Runs a program while GTK's loop is served, and returns what it prints.
    @discardableResult
    static func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Data {
        let process = Process()
        // Not a pipe, which services that the program starts would keep open.
        let (folder, isOver) = (TemporaryFolder(), Box(false))
        let output = folder.url.appendingPathComponent("output")
        try Data().write(to: output)
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.terminationHandler = { _ in
            isOver.update { $0 = true }
            g_main_context_wakeup(nil)
        }
        try process.run()
        defer { if process.isRunning { process.terminate() } }
        try wait(for: "the end of \(arguments[0])", seconds: 30) { isOver.value }
        // Foundation keeps a process that nobody has waited for.
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(description: "\(arguments) has failed") }
        return try Data(contentsOf: folder.url.appendingPathComponent("output"))
    }

    /// Serves GTK's loop until a cache has nothing left to do, which includes its calls on that loop.
    static func idle(_ cache: ImageCache) throws {
        let isIdle = Box(false)
        Task.detached {
            await cache.idle()
            isIdle.update { $0 = true }
            g_main_context_wakeup(nil)
        }
        try wait(for: "an idle cache") { isIdle.value }
    }

    /// Adds one to a number when a widget is freed.
    static func count(_ widget: UnsafeMutablePointer<GtkWidget>, in number: Box<Int>) {
        g_object_weak_ref(
            UnsafeMutableRawPointer(widget).assumingMemoryBound(to: GObject.self),
            { data, _ in
                if let data { Unmanaged<Box<Int>>.fromOpaque(data).takeRetainedValue().update { $0 += 1 } }
            }, Unmanaged.passRetained(number).toOpaque())
    }

    private final class Body {
        let run: () -> Void

        init(_ run: @escaping () -> Void) { self.run = run }
    }

    /// Calls a closure for a signal without arguments, or for a notification of a property.
    static func connect(_ object: UnsafeMutableRawPointer, _ name: String, _ body: @escaping () -> Void) {
        // The closure comes first, and a notification has one more argument, which is left alone.
        let plain: @convention(c) (gpointer?, gpointer?) -> Void = { data, _ in
            if let data { Unmanaged<Body>.fromOpaque(data).takeUnretainedValue().run() }
        }
        g_signal_connect_data(
            object, name, unsafeBitCast(plain, to: GCallback.self), Unmanaged.passRetained(Body(body)).toOpaque(),
            { data, _ in if let data { Unmanaged<Body>.fromOpaque(data).release() } }, G_CONNECT_SWAPPED)
    }

    /// Serves GTK's loop until a condition holds, which is looked at after each event.
    static func wait(for what: String, seconds: Double = 10, _ condition: () -> Bool) throws {
        var isOver = false
        let limit = UnsafeMutablePointer<Bool>.allocate(capacity: 1)
        defer { limit.deallocate() }
        limit.initialize(to: false)
        let source = g_timeout_add(
            guint(seconds * 1_000),
            { data in
                data?.assumingMemoryBound(to: Bool.self).pointee = true
                return 0
            }, limit)
        while !condition() {
            g_main_context_iteration(nil, 1)
            isOver = limit.pointee
            if isOver { throw Failure(description: "\(what) has not come") }
        }
        g_source_remove(source)
    }
}

/// A window on the virtual screen.
@MainActor
final class TestWindow {
    let widget: UnsafeMutablePointer<GtkWidget>
    var window: UnsafeMutablePointer<GtkWindow> {
        UnsafeMutableRawPointer(widget).assumingMemoryBound(to: GtkWindow.self)
    }

    /// Creates and shows a window with a child.
    init(_ child: UnsafeMutablePointer<GtkWidget>, _ width: Int = 200, _ height: Int = 160) throws {
        try Toolkit.start()
        widget = try #require(gtk_window_new())
        gtk_window_set_decorated(window, 0)
        gtk_window_set_default_size(window, Int32(width), Int32(height))
        gtk_window_set_child(window, child)
    }

    func show() throws {
        gtk_window_present(window)
        try Toolkit.wait(for: "a mapped window") { gtk_widget_get_mapped(widget) != 0 }
        try frame()
    }

    func close() { gtk_window_destroy(window) }

    /// Returns when the next frame has been drawn.
    func frame() throws {
        let clock = try #require(gtk_widget_get_frame_clock(widget))
        let count = gdk_frame_clock_get_frame_counter(clock)
        gtk_widget_queue_draw(widget)
        try Toolkit.wait(for: "a frame") { gdk_frame_clock_get_frame_counter(clock) > count }
    }

    /// The pixels of a widget as it was drawn last.
    func pixels(of widget: UnsafeMutablePointer<GtkWidget>? = nil) throws -> Image {
        let widget = widget ?? self.widget
        let (width, height) = (gtk_widget_get_width(widget), gtk_widget_get_height(widget))
        let paintable = try #require(gtk_widget_paintable_new(widget))
        let snapshot = try #require(gtk_snapshot_new())
        gdk_paintable_snapshot(paintable, snapshot, Double(width), Double(height))
        g_object_unref(UnsafeMutableRawPointer(paintable))
        var pixels = [UInt8](repeating: 0, count: Int(width * height) * 4)
        if let node = gtk_snapshot_free_to_node(snapshot) {
            let native = try #require(gtk_widget_get_native(widget))
            let renderer = try #require(gtk_native_get_renderer(native))
            var area = graphene_rect_t(
                origin: .init(x: 0, y: 0), size: .init(width: Float(width), height: Float(height)))
            let texture = try #require(gsk_renderer_render_texture(renderer, node, &area))
            gdk_texture_download(texture, &pixels, gsize(width) * 4)
            g_object_unref(UnsafeMutableRawPointer(texture))
            gsk_render_node_unref(node)
        }
        // Blue comes first.
        for at in stride(from: 0, to: pixels.count, by: 4) { pixels.swapAt(at, at + 2) }
        return try #require(Image(size: PixelSize(width: Int(width), height: Int(height)), premultiplied: pixels))
    }

    /// The pixels of the virtual screen at the place of a widget.
    func screenshot(of widget: UnsafeMutablePointer<GtkWidget>) throws -> Image {
        try frame()
        let scale = Int(gtk_widget_get_scale_factor(widget))
        let screen = try Image(data: Toolkit.run(["import", "-silent", "-window", "root", "png:-"]))
        var bounds = graphene_rect_t()
        try #require(gtk_widget_compute_bounds(widget, self.widget, &bounds) != 0)
        let size = PixelSize(width: Int(bounds.size.width) * scale, height: Int(bounds.size.height) * scale)
        let (left, top) = (Int(bounds.origin.x) * scale, Int(bounds.origin.y) * scale)
        var pixels: [UInt8] = []
        for y in top..<top + size.height {
            for x in left..<left + size.width {
                let pixel = screen[x, y]
                pixels += [pixel.x, pixel.y, pixel.z, pixel.w]
            }
        }
        return try #require(Image(size: size, premultiplied: pixels))
    }

    /// Draws frames until a condition holds.
    func frames(until what: String, _ condition: () throws -> Bool) throws {
        let limit = ContinuousClock.now + .seconds(10)
        while try !condition() {
            guard ContinuousClock.now < limit else { throw Failure(description: "\(what) has not come") }
            try frame()
        }
    }

    /// Draws frames until a pixel of a widget has a colour.
    func wait(for color: Color, at x: Int, _ y: Int, of widget: UnsafeMutablePointer<GtkWidget>? = nil) throws {
        try frames(until: "the colour \(color.hex)") { try pixels(of: widget)[x, y] == color.premultiplied }
    }
}

extension Color {
    static let red = Color(hex: 0xff0000), blue = Color(hex: 0x0000ff)
}
