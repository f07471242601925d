import CGTK4
import DipperGTK
import GTKTestShims
import Testing
import TestSupport

extension GTKTests {
    @Suite("Screens, themes, windows and assistive technologies")
    @MainActor
    struct ScreenTests {
        private let test = TestImageCache { $0.memoryLimit = 8 << 20 }
        private let a = URL(string: "https://example.com/a.png")!

        init() throws { try Toolkit.start() }

        /// Loads pictures of more than half of what memory may hold.
        private func fillMemory() async throws {
            for number in 0..<12 {
                let url = URL(string: "https://example.com/\(number).png")!
                test.transport.script(url, [try .image(.sample(400, 300))])
                _ = try await test.cache.getImage(url).value
            }
        }

        @Test("every pixel of the picture is on a screen with two pixels for each of the application")
        func scale() async throws {
            let file = Image.sample(400, 320)
            test.transport.script(a, [try .image(file)])
            let picture = DipperPicture(a, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try Toolkit.wait(for: "the picture") { !picture.isLoading }
            var ends = 0
            picture.onEnd { _, _ in ends += 1 }
            set_scale(2)
            defer { set_scale(1) }
            try Toolkit.wait(for: "the larger picture") { ends == 1 }
            #expect(gtk_widget_get_width(picture.widget) == 200)
            let shown = try window.screenshot(of: picture.widget)
            #expect(shown.size == file.size)
            for (x, y) in [(0, 0), (1, 0), (0, 1), (201, 160), (399, 319)] { #expect(shown[x, y] == file[x, y]) }
        }

        @Test("placeholder and icon stand out from the background of a light theme and of a dark one")
        func theme() async throws {
            for isDark in [false, true] {
                Toolkit.set(isDark: isDark)
                defer { Toolkit.set(isDark: false) }
                let picture = DipperPicture("https://example.com/\(isDark).png", cache: test.cache)
                let box = try #require(gtk_box_new(GTK_ORIENTATION_VERTICAL, 0))
                gtk_widget_set_size_request(picture.widget, 200, 100)
                gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), picture.widget)
                let window = try TestWindow(box, 200, 160)
                defer { window.close() }
                try window.show()
                let transfer = try await test.transport.nextTransfer()
                func light(_ x: Int, _ y: Int) throws -> Int {
                    let pixel = try window.screenshot(of: box)[x, y]
                    return Int(pixel.x) + Int(pixel.y) + Int(pixel.z)
                }
                let background = try light(100, 150)
                #expect((background < 384) == isDark)
                let placeholder = try light(20, 50)
                #expect(isDark ? placeholder > background : placeholder < background)
                transfer.finish(with: Data(), status: 404)
                try Toolkit.wait(for: "the failure") { picture.error != nil }
                let shown = try window.screenshot(of: picture.widget)
                let icon = (76..<124).flatMap { x in (26..<74).map { Int(shown[x, $0].x) * 3 } }
                let most = try #require(isDark ? icon.max() : icon.min())
                #expect(abs(most - background) > 100)
            }
        }

        @Test("a window that is minimized fetches its picture later, and lets the cache keep less")
        func minimized() async throws {
            try await fillMemory()
            #expect(test.cache.memorySize > 4 << 20)
            let list = PictureList(count: 10, cache: test.cache) { row in
                ImageRequest(string: "https://example.com/list/\(row).png")
            }
            let box = try #require(gtk_box_new(GTK_ORIENTATION_VERTICAL, 0))
            let picture = DipperPicture(a, cache: test.cache)
            let view = list.makeList(width: 100, height: 50)
            for child in [picture.widget, view] {
                gtk_widget_set_vexpand(child, 1)
                gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), child)
            }
            let window = try TestWindow(box)
            defer { window.close() }
            try window.show()
            let transfer = try await test.transport.nextTransfer()
            try await transfer.wait { $0.queue == .fast }
            try window.frames(until: "the rows") { !list.visible.isEmpty }
            let id = "\(x_window_of(window.widget))"
            try Toolkit.run(["xdotool", "windowunmap", id])
            try Toolkit.wait(for: "less memory") { test.cache.memorySize <= 4 << 20 }
            try await transfer.wait { $0.queue == .slow }
            #expect(list.visible.isEmpty)
            try Toolkit.run(["xdotool", "windowmap", id])
            try Toolkit.wait(for: "the rows") { !list.visible.isEmpty }
            try await transfer.wait { $0.queue == .fast }
        }

        @Test("one window that is hidden lets the cache keep all that another one needs")
        func oneOfTwo() async throws {
            try await fillMemory()
            let size = test.cache.memorySize
            let windows = try (0..<2).map { _ in try TestWindow(DipperPicture(a, cache: test.cache).widget) }
            defer { for window in windows { window.close() } }
            for window in windows { try window.show() }
            gtk_widget_set_visible(windows[0].widget, 0)
            for _ in 0..<2 { try windows[1].frame() }
            #expect(test.cache.memorySize == size)
            gtk_widget_set_visible(windows[1].widget, 0)
            try Toolkit.wait(for: "less memory") { test.cache.memorySize <= 4 << 20 }
        }

        @Test("assistive technologies see a picture with its label, which is busy")
        func accessibleTree() async throws {
            let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
            let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
                .deletingLastPathComponent().appendingPathComponent("PictureInC")
            let tree = try Toolkit.run(
                [
                    "/usr/bin/python3",
                    package.appendingPathComponent("Tests/Accessibility/tree.py").standardizedFileURL.path,
                    program.path,
                ], environment: ["GTK_A11Y": "atspi"])
            let text = String(decoding: tree, as: UTF8.self)
            #expect(text.contains(/(?m)^ +image "A test" .*\bbusy\b/), "\(text)")
        }
    }
}
