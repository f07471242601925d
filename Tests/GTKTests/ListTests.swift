import CGTK4
import DipperGTK
import GTKTestShims
import Testing
import TestSupport

extension GTKTests {
    @Suite("Lists of pictures, paintables, and the queue of GTK's loop")
    @MainActor
    struct ListTests {
        private let test = TestImageCache()

        init() throws { try Toolkit.start() }

        nonisolated private static func request(_ row: Int) -> ImageRequest {
            ImageRequest(string: "https://example.com/\(row).png")
        }

        private var asked: [Int] {
            test.transport.transfers.compactMap { Int($0.request.url.deletingPathExtension().lastPathComponent) }
        }

        @Test("of ten thousand pictures those on screen are fetched first, in the size that they have there")
        func grid() async throws {
            let file = try Image.sample(300, 240).png
            for row in 0..<10_000 { test.transport.script(Self.request(row).url!, [.body(file)]) }
            let list = PictureList(count: 10_000, cache: test.cache, request: Self.request)
            let view = list.makeGrid(width: 100, height: 80)
            let window = try TestWindow(view, 440, 320)
            defer { window.close() }
            try window.show()
            try window.frame()
            // The cells have some space around their pictures.
            let visible = list.visible
            #expect(visible.lowerBound == 0 && (6...24).contains(visible.count))
            try Toolkit.wait(for: "the pictures on screen") { asked.count >= visible.count }
            #expect(Set(asked.prefix(visible.count)) == Set(visible))
            try Toolkit.idle(test.cache)
            #expect(asked.count < 80)
            let scrolling = try #require(gtk_scrolled_window_get_vadjustment(OpaquePointer(view)))
            // GTK 4.8 makes no new rows at the first change alone.
            for back in [2_000.0, 1_000, 0] {
                gtk_adjustment_set_value(scrolling, gtk_adjustment_get_upper(scrolling) - back)
                try window.frame()
            }
            try Toolkit.wait(for: "the end of the list") { list.visible.upperBound == 10_000 }
            #expect(list.visible.count < 30)
            try Toolkit.wait(for: "the pictures at the end") { Set(asked).isSuperset(of: list.visible) }
            // Nothing of what was passed over.
            #expect(asked.allSatisfy { $0 < 100 || $0 > 9_900 })
        }

        @Test("a list is shown again in another view, and fetches nothing while it is hidden")
        func views() async throws {
            let file = try Image.filled(with: .red, 120, 90).png
            for row in 0..<100 { test.transport.script(Self.request(row).url!, [.body(file)]) }
            let list = PictureList(count: 100, cache: test.cache, request: Self.request)
            for _ in 0..<2 {
                let view = list.makeGrid(width: 100, height: 80)
                let window = try TestWindow(view, 440, 320)
                try window.show()
                try window.wait(for: .red, at: 60, 50, of: view)
                #expect(!list.visible.isEmpty)
                gtk_widget_set_visible(view, 0)
                #expect(list.visible.isEmpty)
                gtk_widget_set_visible(view, 1)
                try window.frames(until: "the rows") { !list.visible.isEmpty }
                window.close()
                #expect(list.visible.isEmpty)
            }
        }

        @Test("pictures in memory are in the first frame of a list")
        func firstFrame() async throws {
            let file = try Image.filled(with: .red, 120, 90).png
            for row in 0..<100 { test.transport.script(Self.request(row).url!, [.body(file)]) }
            let list = PictureList(count: 100, cache: test.cache, request: Self.request)
            for isFirst in [true, false] {
                let view = list.makeGrid(width: 100, height: 80)
                let window = try TestWindow(view, 440, 320)
                defer { window.close() }
                gtk_widget_realize(window.widget)
                let clock = try #require(gtk_widget_get_frame_clock(window.widget))
                var first: SIMD4<UInt8>?
                GtkSignal.connect(UnsafeMutableRawPointer(clock), "after-paint") {
                    if first == nil { first = try? window.pixels(of: view)[60, 50] }
                }
                try window.show()
                try Toolkit.wait(for: "a frame") { first != nil }
                if !isFirst { #expect(first == Color.red.premultiplied) }
                try window.wait(for: .red, at: 60, 50, of: view)
                try Toolkit.idle(test.cache)
            }
        }

        @Test("each row begins with its own placeholder, also in a widget that had another row")
        func placeholders() async throws {
            let list = PictureList(count: 2_000, cache: test.cache, request: Self.request)
            var rows: [UnsafeMutablePointer<GtkWidget>: Int] = [:]
            func color(_ row: Int) -> Color { row % 2 == 0 ? .red : .blue }
            let view = list.makeList(
                width: 100, height: 50,
                bind: { picture, row in
                    picture.placeholder = .color(color(row))
                    rows[picture.widget] = row
                })
            let window = try TestWindow(view, 300, 320)
            defer { window.close() }
            try window.show()
            try window.frames(until: "the rows") { !list.visible.isEmpty }
            let scrolling = gtk_scrolled_window_get_vadjustment(OpaquePointer(view))
            for page in [0.0, 10, 40, 41] {
                gtk_adjustment_set_value(scrolling, page * 331)
                for _ in 0..<3 { try window.frame() }
                let seen = rows.filter { list.visible.contains($0.value) }
                #expect(seen.count >= 5)
                for (widget, row) in seen {
                    #expect(try window.pixels(of: widget)[5, 25] == color(row).premultiplied)
                }
            }
        }

        @Test("pictures of a grid keep their proportion, and the grid has as many columns as there is room for")
        func proportion() async throws {
            for (width, columns) in [(350, 1), (1_200, 5)] {
                let list = PictureList(count: 500, cache: test.cache, request: Self.request)
                var widget: UnsafeMutablePointer<GtkWidget>?
                let view = list.makeGrid(
                    width: 200, height: 150, bind: { picture, row in if row == 0 { widget = picture.widget } })
                let window = try TestWindow(view, width, 320)
                defer { window.close() }
                try window.show()
                try window.frames(until: "the rows") { !list.visible.isEmpty }
                let picture = try #require(widget)
                let wide = Double(gtk_widget_get_width(picture))
                #expect(Int(Double(width) / wide) == columns)
                #expect(abs(Double(gtk_widget_get_height(picture)) - wide * 0.75) <= 1)
                let grid = gtk_scrolled_window_get_child(OpaquePointer(view))
                #expect(gtk_grid_view_get_max_columns(OpaquePointer(grid)) == guint(width / 200))
            }
        }

        @Test("pictures of a grid stay on screen until they are decoded in the size that they have in a resized window")
        func resized() async throws {
            let file = try Image.filled(with: .red, 240, 180).png
            for row in 0..<20 { test.transport.script(Self.request(row).url!, [.body(file)]) }
            let list = PictureList(count: 20, cache: test.cache, request: Self.request)
            var first: UnsafeMutablePointer<GtkWidget>?
            let view = list.makeGrid(
                width: 100, height: 75, bind: { picture, row in if row == 0 { first = picture.widget } })
            let window = try TestWindow(view, 500, 320)
            defer { window.close() }
            try window.show()
            try window.wait(for: .red, at: 60, 50, of: view)
            let picture = try #require(first)
            let clock = try #require(gtk_widget_get_frame_clock(window.widget))
            var shown: Set<SIMD4<UInt8>> = []
            GtkSignal.connect(UnsafeMutableRawPointer(clock), "after-paint") {
                if let pixel = try? window.pixels(of: view)[60, 50] { shown.insert(pixel) }
            }
            for width in [470, 510] {
                gtk_window_set_default_size(window.window, gint(width), 320)
                try Toolkit.wait(for: "the width") { gtk_widget_get_width(window.widget) == width }
                try window.frames(until: "the pictures of this size") {
                    let size = TargetSize(
                        width: Int(gtk_widget_get_width(picture)), height: Int(gtk_widget_get_height(picture)), .fill)
                    return test.cache.imageInMemory(for: Self.request(0).processed(by: .resize(to: size))) != nil
                }
            }
            #expect(shown == [Color.red.premultiplied])
        }

        @Test("tells which row the user activates")
        func activation() async throws {
            let list = PictureList(count: 100, cache: test.cache, request: Self.request)
            let view = list.makeGrid(width: 100, height: 80)
            var rows: [Int] = []
            list.onActivate { rows.append($0) }
            let window = try TestWindow(view, 440, 320)
            defer { window.close() }
            try window.show()
            let grid = gtk_scrolled_window_get_child(OpaquePointer(view))
            #expect(gtk_widget_activate_action_variant(grid, "list.activate-item", g_variant_new_uint32(7)) != 0)
            #expect(rows == [7])
        }

        @Test("a list that is hidden fetches nothing")
        func hidden() async throws {
            let list = PictureList(count: 100, cache: test.cache, request: Self.request)
            let view = list.makeGrid(width: 100, height: 80)
            let window = try TestWindow(view, 440, 320)
            defer { window.close() }
            try window.show()
            let transfer = try await test.transport.nextTransfer()
            gtk_widget_set_visible(view, 0)
            try await transfer.wait { $0.isCancelled }
        }

        @Test("moving pictures in a list stop if the user turns animations off")
        func animations() async throws {
            Toolkit.set(animations: true)
            defer { Toolkit.set(animations: false) }
            let frames = [Color.red, .blue].map {
                AnimationFrame(image: .filled(with: $0, 100, 80), duration: .milliseconds(50))
            }
            test.transport.script(Self.request(0).url!, [try .animation(frames)])
            let list = PictureList(count: 1, cache: test.cache, request: Self.request)
            let view = list.makeGrid(width: 100, height: 80)
            let window = try TestWindow(view, 120, 100)
            defer { window.close() }
            try window.show()
            for color in [Color.red, .blue, .red] { try window.wait(for: color, at: 60, 50, of: view) }
            Toolkit.set(animations: false)
            try window.wait(for: .red, at: 60, 50, of: view)
            try Toolkit.idle(test.cache)
            let end = ContinuousClock.now + .milliseconds(200)
            while ContinuousClock.now < end {
                try window.frame()
                #expect(try window.pixels(of: view)[60, 50] == Color.red.premultiplied)
            }
        }

        @Test("a paintable takes the size of the picture that comes, if the header said another")
        func otherSize() async throws {
            let url = URL(string: "https://example.com/other.png")!
            let first = DipperPaintable(url, cache: test.cache)
            (try await test.transport.nextTransfer()).finish(with: try Image.filled(with: .red, 40, 20).png)
            try Toolkit.wait(for: "the size") { gdk_paintable_get_intrinsic_width(first.pointer) == 40 }
            try Toolkit.idle(test.cache)
            let other = TestImageCache()
            let second = DipperPaintable(url, cache: other.cache)
            #expect(gdk_paintable_get_intrinsic_width(second.pointer) == 40)
            (try await other.transport.nextTransfer()).finish(with: try Image.filled(with: .blue, 60, 50).png)
            try Toolkit.wait(for: "the other size") { gdk_paintable_get_intrinsic_width(second.pointer) == 60 }
            #expect(gdk_paintable_get_intrinsic_height(second.pointer) == 50)
            // A cache that keeps the URL under another key has another picture of it.
            let third = TestImageCache { $0.data.completeRequest = { $0.key = CacheKey("own") } }
            #expect(gdk_paintable_get_intrinsic_width(DipperPaintable(url, cache: third.cache).pointer) == 0)
        }

        @Test("closures of the queue run in a loop that one of them runs")
        func nestedLoop() async throws {
            let (isIn, isServed) = (Box(false), Box<Bool?>(nil))
            Self.call(test.cache) {
                let end = ContinuousClock.now + .seconds(5)
                while !isIn.value, ContinuousClock.now < end { g_main_context_iteration(nil, 0) }
                isServed.update { $0 = isIn.value }
            }
            Self.call(test.cache) { isIn.update { $0 = true } }
            try Toolkit.wait(for: "both closures") { isServed.value != nil }
            #expect(isServed.value == true)
        }

        @Test("the paintable has its size once the header is there, and changes it no more")
        func paintable() async throws {
            let url = URL(string: "https://example.com/paintable.png")!
            let file = try Image.filled(with: .red, 400, 200).png
            let paintable = DipperPaintable(url, cache: test.cache)
            var (sizes, contents) = (0, 0)
            let object = UnsafeMutableRawPointer(paintable.pointer)
            Toolkit.connect(object, "invalidate-size") { sizes += 1 }
            Toolkit.connect(object, "invalidate-contents") { contents += 1 }
            let transfer = try await test.transport.nextTransfer()
            #expect(gdk_paintable_get_intrinsic_width(paintable.pointer) == 0)
            transfer.hold(TransferResponse(headers: ["Content-Length": "\(file.count)"], body: file.prefix(64)))
            transfer.send(progress: 64, of: file.count)
            try Toolkit.wait(for: "the size") { sizes == 1 }
            #expect(gdk_paintable_get_intrinsic_width(paintable.pointer) == 400)
            #expect(gdk_paintable_get_intrinsic_height(paintable.pointer) == 200)
            #expect(gdk_paintable_get_intrinsic_aspect_ratio(paintable.pointer) == 2)
            let before = contents
            transfer.finish(with: file)
            try Toolkit.wait(for: "the picture") { contents > before }
            let view = try #require(gtk_picture_new_for_paintable(paintable.pointer))
            let window = try TestWindow(view, 100, 50)
            defer { window.close() }
            try window.show()
            #expect(try window.pixels(of: view)[50, 25] == Color.red.premultiplied)
            try Toolkit.idle(test.cache)
            #expect(sizes == 1 && test.transport.transfers.count == 1)
        }

        @Test("the frames of a paintable come, rest while nobody draws them, and stop if the user turns animations off")
        func frames() async throws {
            Toolkit.set(animations: true)
            defer { Toolkit.set(animations: false) }
            let url = URL(string: "https://example.com/moving.gif")!
            let frames = [Color.red, .blue].map {
                AnimationFrame(image: .filled(with: $0, 40, 40), duration: .milliseconds(50))
            }
            test.transport.script(url, [try .animation(frames)])
            let paintable = DipperPaintable(url, cache: test.cache)
            let view = try #require(gtk_picture_new_for_paintable(paintable.pointer))
            let window = try TestWindow(view, 40, 40)
            defer { window.close() }
            try window.show()
            for color in [Color.red, .blue, .red] { try window.wait(for: color, at: 20, 20, of: view) }
            Toolkit.set(animations: false)
            try window.wait(for: .red, at: 20, 20, of: view)
            var contents = 0
            Toolkit.connect(UnsafeMutableRawPointer(paintable.pointer), "invalidate-contents") { contents += 1 }
            let end = ContinuousClock.now + .milliseconds(200)
            while ContinuousClock.now < end { try window.frame() }
            #expect(contents == 0)
        }

        /// Not of an actor, to whose queue its closures would go.
        nonisolated private static func call(_ cache: ImageCache, _ body: @escaping @Sendable () -> Void) {
            let none = ImageRequest(string: "https://example.com/none.png").with(\.callbackQueue, .glib)
                .with(\.cachePolicy, .cacheOnly)
            cache.getImage(none).onEnd { _ in body() }
        }

        @Test("closures of the queue run on the thread of the loop, in order, and let events in between")
        func queue() async throws {
            let ran = Box<[Int]>([])
            let thread = pthread_self()
            // Of several calls, any may end first.
            for number in 0..<100 {
                CallbackQueue.glib.perform {
                    let end = ContinuousClock.now + .milliseconds(1)
                    while ContinuousClock.now < end {}
                    ran.update { $0.append(pthread_self() == thread ? number : -1) }
                }
            }
            try Toolkit.wait(for: "the first closures") { !ran.value.isEmpty }
            // One turn of the loop has few of them.
            #expect(ran.value.count < 20)
            try Toolkit.wait(for: "all closures") { ran.value.count == 100 }
            #expect(ran.value == Array(0..<100))
            Self.call(test.cache) { ran.update { $0.append(pthread_self() == thread ? 100 : -1) } }
            try Toolkit.wait(for: "the closure of a call") { ran.value.count == 101 }
            #expect(ran.value.last == 100)
        }

        @Test("the programs of the guide are those that are compiled")
        func guide() throws {
            let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
            func text(_ path: String) throws -> String {
                try String(contentsOf: package.appendingPathComponent(path), encoding: .utf8)
            }
            let guides = "Sources/DipperGTK/DipperGTK.docc"
            #expect(try text("\(guides)/DipperGTK.md").contains(try text("Samples/GTK/FirstPicture/main.swift")))
            #expect(try text("\(guides)/PicturesInAWindow.md").contains(try text("Samples/GTK/FirstList/main.swift")))
        }
    }
}
