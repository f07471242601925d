import CGTK4
import DipperGTK
import GTKTestShims
import Testing
import TestSupport

extension GTKTests {
    @Suite("The widget DipperPicture")
    @MainActor
    struct PictureTests {
        private let test = TestImageCache { $0.data.progressInterval = .zero }
        private let a = URL(string: "https://example.com/a.png")!
        private let b = URL(string: "https://example.com/b.png")!
        private let red = Image.filled(with: .red, 400, 200)
        private let blue = Image.filled(with: .blue, 300, 300)

        init() throws { try Toolkit.start() }

        private func request(_ width: Int, _ height: Int, _ mode: TargetSize.Mode = .fit) -> ImageRequest {
            ImageRequest(a).processed(by: .resize(to: TargetSize(width: width, height: height, mode)))
        }

        private func load(_ picture: DipperPicture) throws {
            try Toolkit.wait(for: "a picture") { !picture.isLoading }
            #expect(picture.error == nil)
        }

        /// A window with a picture that is loading, and the transfer.
        private func loading(
            _ change: (DipperPicture) -> Void = { _ in }
        ) async throws -> (DipperPicture, TestWindow, ScriptedTransfer) {
            let picture = DipperPicture(cache: test.cache)
            change(picture)
            picture.request = ImageRequest(a)
            let window = try TestWindow(picture.widget)
            try window.show()
            return (picture, window, try await test.transport.nextTransfer())
        }

        // MARK: Looks

        @Test("shows the picture where it fits, decoded in the size of the widget")
        func fitting() async throws {
            test.transport.script(a, [try .image(red)])
            let picture = DipperPicture(a, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            try window.wait(for: .red, at: 100, 80, of: picture.widget)
            // 200 × 160 with a picture of 2 : 1.
            let pixels = try window.pixels(of: picture.widget)
            #expect(pixels[100, 31] == red[0, 0] && pixels[100, 28].w == 0 && pixels[0, 80] == red[0, 0])
            #expect(test.cache.imageInMemory(for: request(200, 160)) != nil)
        }

        @Test("covers the widget and rounds its corners")
        func corners() async throws {
            test.transport.script(a, [try .image(red)])
            let picture = DipperPicture(a, cache: test.cache)
            (picture.contentFit, picture.cornerRadius) = (GTK_CONTENT_FIT_COVER, 20)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            try window.wait(for: .red, at: 100, 2, of: picture.widget)
            let pixels = try window.pixels(of: picture.widget)
            #expect(pixels[1, 1].w == 0 && pixels[198, 158].w == 0 && pixels[1, 80] == red[0, 0])
            #expect(test.cache.imageInMemory(for: request(200, 160, .fill)) != nil)
        }

        @Test("shows the placeholder, then how much has arrived, from the right in a language that reads from there")
        func progress() async throws {
            let (picture, window, transfer) = try await loading { $0.placeholder = .color(.blue) }
            defer { window.close() }
            #expect(try window.pixels(of: picture.widget)[100, 80] == Color.blue.premultiplied)
            transfer.hold(TransferResponse(headers: ["Content-Length": "100"], body: Data(repeating: 0, count: 50)))
            transfer.send(progress: 50, of: 100)
            func bar(_ x: Int) throws -> SIMD4<UInt8> { try window.pixels(of: picture.widget)[x, 159] }
            try window.frames(until: "the bar") { try bar(10) != bar(190) }
            // The text is dark, so the bar is too.
            #expect(try bar(10).z < bar(190).z)
            gtk_widget_set_direction(picture.widget, GTK_TEXT_DIR_RTL)
            try window.frame()
            #expect(try bar(10).z > bar(190).z)
        }

        @Test(
            "shows another size that memory has in the first frame, and fetches the URL of several that is large enough"
        )
        func otherSize() async throws {
            let small = ImageRequest(b).processed(by: .resize(width: 40))
            try test.cache.addImage(.filled(with: .blue, 40, 32), for: small)
            let picture = DipperPicture(ImageRequest(widths: [40: b, 400: a]), cache: test.cache)
            picture.placeholder = .thumbHash("1QcSHQRnh493V4dIh4eXh1h4kJUI")
            gtk_widget_set_size_request(picture.widget, 200, 160)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            #expect(try window.pixels(of: picture.widget)[100, 80] == Color.blue.premultiplied)
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.request.url == a)
            transfer.finish(with: try red.png)
            try load(picture)
            try window.wait(for: .red, at: 100, 80, of: picture.widget)
        }

        @Test("fades from the placeholder to the picture, unless the user has turned animations off")
        func fade() async throws {
            for isAnimating in [true, false] {
                test.cache.clear()
                Toolkit.set(animations: isAnimating)
                defer { Toolkit.set(animations: false) }
                let (picture, window, transfer) = try await loading {
                    $0.placeholder = .color(.blue)
                    $0.contentFit = GTK_CONTENT_FIT_COVER
                    $0.options.transition = .fade(.seconds(2))
                }
                defer { window.close() }
                transfer.finish(with: try red.png)
                try load(picture)
                var colors: Set<SIMD4<UInt8>> = []
                try window.frames(until: "the picture") {
                    colors.insert(try window.pixels(of: picture.widget)[100, 80])
                    return colors.contains(red[0, 0])
                }
                #expect(colors.contains { $0.x > 10 && $0.z > 10 } == isAnimating)
            }
        }

        @Test("shows an icon for a picture that cannot be loaded, and says why")
        func failure() async throws {
            test.transport.script(a, [.status(404)])
            let picture = DipperPicture(a, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try Toolkit.wait(for: "the end") { !picture.isLoading }
            try window.frame()
            let pixels = try window.pixels(of: picture.widget)
            // The icon has 48 pixels in the middle.
            let colors = Set((80..<120).flatMap { x in (60..<100).map { pixels[x, $0] } })
            #expect(colors.count > 3 && picture.error == .status(404))
        }

        @Test("a picture in memory is in the first frame")
        func memory() async throws {
            test.transport.script(a, [try .image(red)])
            _ = try await test.cache.getImage(request(200, 160, .fill)).value
            let picture = DipperPicture(a, cache: test.cache)
            picture.contentFit = GTK_CONTENT_FIT_COVER
            picture.placeholder = .color(.blue)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            gtk_widget_realize(window.widget)
            let clock = try #require(gtk_widget_get_frame_clock(window.widget))
            var first: SIMD4<UInt8>?
            Toolkit.connect(UnsafeMutableRawPointer(clock), "after-paint") {
                if first == nil { first = try? window.pixels(of: picture.widget)[100, 80] }
            }
            try window.show()
            try Toolkit.wait(for: "a frame") { first != nil }
            #expect(first == red[0, 0])
        }

        @Test("a picture that has come is in the next frame")
        func nextFrame() async throws {
            let (picture, window, transfer) = try await loading {
                $0.placeholder = .color(.blue)
                $0.contentFit = GTK_CONTENT_FIT_COVER
                $0.options.transition = .none
            }
            defer { window.close() }
            let clock = try #require(gtk_widget_get_frame_clock(window.widget))
            var isThere = false
            var next: SIMD4<UInt8>?
            picture.onEnd { _, _ in isThere = true }
            Toolkit.connect(UnsafeMutableRawPointer(clock), "after-paint") {
                if isThere, next == nil { next = try? window.pixels(of: picture.widget)[100, 80] }
            }
            // A frame whenever one is due, whether something has changed or not.
            gdk_frame_clock_begin_updating(clock)
            defer { gdk_frame_clock_end_updating(clock) }
            transfer.finish(with: try red.png)
            try Toolkit.wait(for: "a frame") { next != nil }
            #expect(next == red[0, 0])
        }

        // MARK: Sizes

        @Test("asks for the room that the header states, before the picture is there")
        func header() async throws {
            let box = try #require(gtk_box_new(GTK_ORIENTATION_VERTICAL, 0))
            let a = URL(string: "https://example.com/header.png")!
            let picture = DipperPicture(a, cache: test.cache)
            gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), picture.widget)
            let window = try TestWindow(box, 100, 500)
            defer { window.close() }
            try window.show()
            let transfer = try await test.transport.nextTransfer()
            #expect(gtk_widget_get_height(picture.widget) == 0)
            let file = try red.png
            transfer.hold(TransferResponse(headers: ["Content-Length": "\(file.count)"], body: file.prefix(64)))
            transfer.send(progress: 64, of: file.count)
            try Toolkit.wait(for: "the room") { gtk_widget_get_height(picture.widget) == 50 }
            #expect(picture.isLoading)
            transfer.finish(with: file)
            try load(picture)
            let small = ImageRequest(a).processed(by: .resize(to: TargetSize(width: 100, height: 50)))
            #expect(test.cache.imageInMemory(for: small) != nil && test.transport.transfers.count == 1)
            // The room of a picture that was shown before is known at once.
            let again = DipperPicture(a, cache: test.cache)
            var (least, most) = (gint(0), gint(0))
            gtk_widget_measure(again.widget, GTK_ORIENTATION_VERTICAL, 60, &least, &most, nil, nil)
            #expect(least == 0 && most == 30)
        }

        @Test("the look at the header leaves no original on disk that is not to be kept")
        func noOriginal() async throws {
            let test = TestImageCache(folder: TemporaryFolder()) { $0.data.progressInterval = .zero }
            let url = URL(string: "https://example.com/unkept.png")!
            let box = try #require(gtk_box_new(GTK_ORIENTATION_VERTICAL, 0))
            let picture = DipperPicture(ImageRequest(url).with(\.keepsOriginal, false), cache: test.cache)
            gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), picture.widget)
            let window = try TestWindow(box, 100, 500)
            defer { window.close() }
            try window.show()
            let (transfer, file) = (try await test.transport.nextTransfer(), try red.png)
            transfer.hold(TransferResponse(headers: ["Content-Length": "\(file.count)"], body: file.prefix(64)))
            transfer.send(progress: 64, of: file.count)
            try Toolkit.wait(for: "the room") { gtk_widget_get_height(picture.widget) == 50 }
            // The call for the picture looks at the disk first, and another one for the same picture with it.
            let small = ImageRequest(url).processed(by: .resize(to: TargetSize(width: 100, height: 50)))
            let other = test.cache.getImage(small.with(\.keepsOriginal, false))
            try window.frames(until: "the call for the picture to join the fetch") { other.state == .transferring }
            transfer.finish(with: file)
            try load(picture)
            try Toolkit.idle(test.cache)
            #expect(test.transport.transfers.count == 1)
            #expect(!test.cache.data.hasData(for: url, in: .disk) && test.cache.data.diskCount == 1)
        }

        @Test("decodes again when the widget grows, but not above the picture's own size")
        func growing() async throws {
            test.transport.script(a, [try .image(red)])
            let picture = DipperPicture(a, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            func grow(to width: Int, _ height: Int) throws {
                gtk_window_set_default_size(window.window, Int32(width), Int32(height))
                try Toolkit.wait(for: "the size") { gtk_widget_get_width(picture.widget) == width }
            }
            var ends = 0
            picture.onEnd { _, _ in ends += 1 }
            try grow(to: 300, 240)
            try Toolkit.wait(for: "a larger picture") { ends == 1 }
            #expect(test.cache.imageInMemory(for: request(300, 240)) != nil)
            try grow(to: 600, 480)
            try Toolkit.wait(for: "the largest picture") { ends == 2 }
            #expect(try #require(test.cache.imageInMemory(for: request(600, 480))).size == red.size)
            try grow(to: 700, 560)
            // Another picture takes longer than a larger one of this would.
            test.transport.script(b, [try .image(blue)])
            picture.request = ImageRequest(b)
            try Toolkit.wait(for: "another picture") { ends == 3 }
            #expect(test.cache.imageInMemory(for: request(700, 560)) == nil)
        }

        @Test("a widget with a size request decodes again when it grows")
        func requestedSize() async throws {
            // No test before has seen its size.
            let url = URL(string: "https://example.com/requested.png")!
            func decoded(_ width: Int, _ height: Int) -> Image? {
                let size = TargetSize(width: width, height: height)
                return test.cache.imageInMemory(for: ImageRequest(url).processed(by: .resize(to: size)))
            }
            test.transport.script(url, [try .image(red)])
            let picture = DipperPicture(url, cache: test.cache)
            gtk_widget_set_size_request(picture.widget, 64, 48)
            gtk_widget_set_hexpand(picture.widget, 1)
            let window = try TestWindow(picture.widget, 64, 48)
            defer { window.close() }
            try window.show()
            try load(picture)
            try Toolkit.idle(test.cache)
            #expect(decoded(64, 48)?.size == PixelSize(width: 64, height: 32))
            var ends = 0
            picture.onEnd { _, _ in ends += 1 }
            gtk_window_set_default_size(window.window, 300, 240)
            try Toolkit.wait(for: "a larger picture") { ends == 1 }
            #expect(decoded(300, 240)?.size == PixelSize(width: 300, height: 150))
        }

        @Test("has room for the icon of a failure")
        func failureRoom() async throws {
            let url = URL(string: "https://example.com/missing.png")!
            test.transport.script(url, [.status(404)])
            let box = try #require(gtk_box_new(GTK_ORIENTATION_VERTICAL, 0))
            let picture = DipperPicture(url, cache: test.cache)
            gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), picture.widget)
            let window = try TestWindow(box, 100, 500)
            defer { window.close() }
            try window.show()
            try Toolkit.wait(for: "the room") { gtk_widget_get_height(picture.widget) == 48 }
            #expect(picture.error == .status(404))
        }

        // MARK: Handlers

        @Test("may be dropped when it notifies of a property", arguments: ["notify::loading", "notify::error"])
        func dropped(signal: String) async throws {
            let freed = Box(0)
            var (notices, ends) = (0, [Int]())
            let window = try TestWindow(DipperPicture(a, cache: test.cache).widget)
            defer { window.close() }
            try window.show()
            let widget = try #require(gtk_window_get_child(window.window))
            Toolkit.count(widget, in: freed)
            let object = UnsafeMutableRawPointer(widget)
            // The widget is there until all its closures have been called.
            DipperPicture(pointer: OpaquePointer(widget))?.onEnd { _, _ in ends.append(freed.value) }
            Toolkit.connect(object, signal) {
                notices += 1
                gtk_window_set_child(window.window, nil)
            }
            let transfer = try await test.transport.nextTransfer()
            try Toolkit.wait(for: "the release of Swift's objects") {
                object.assumingMemoryBound(to: GObject.self).pointee.ref_count == 1
            }
            transfer.finish(with: Data(), status: 404)
            try Toolkit.wait(for: "the end of the widget") { freed.value == 1 }
            #expect(notices == 1 && ends == [0])
        }

        @Test("a widget that is destroyed lets go of the closure that holds it")
        func cycle() async throws {
            let freed = Box(0)
            do {
                let picture = DipperPicture(cache: test.cache)
                picture.onEnd { _, _ in print(picture.isLoading) }
                let object = UnsafeMutableRawPointer(picture.widget).assumingMemoryBound(to: GObject.self)
                g_object_set_data_full(
                    object, "end", Unmanaged.passRetained(freed).toOpaque(),
                    { data in
                        if let data { Unmanaged<Box<Int>>.fromOpaque(data).takeRetainedValue().update { $0 += 1 } }
                    })
                g_object_run_dispose(object)
            }
            try Toolkit.wait(for: "the end of the widget") { freed.value == 1 }
        }

        @Test("a window that is closed lets go of the closure that holds its picture")
        func closedWindow() async throws {
            let freed = Box(0)
            do {
                let picture = DipperPicture(a, cache: test.cache)
                picture.onEnd { _, _ in print(picture.isLoading) }
                Toolkit.count(picture.widget, in: freed)
                let window = try TestWindow(picture.widget)
                try window.show()
                // A page that is taken out may come back.
                gtk_window_set_child(window.window, nil)
                gtk_window_set_child(window.window, picture.widget)
                (try await test.transport.nextTransfer()).finish(with: try red.png)
                try load(picture)
                window.close()
            }
            try Toolkit.wait(for: "the end of the widget") { freed.value == 1 }
        }

        @Test("a closure that uses its argument does not keep the widget")
        func argument() async throws {
            let freed = Box(0)
            do {
                let picture = DipperPicture(a, cache: test.cache)
                picture.onEnd { picture, _ in print(picture.isLoading) }
                Toolkit.count(picture.widget, in: freed)
            }
            try Toolkit.wait(for: "the end of the widget") { freed.value == 1 }
        }

        @Test("calls nobody while it is being laid out")
        func layout() async throws {
            test.transport.script(a, [try .image(red)])
            _ = try await test.cache.getImage(request(200, 160)).value
            let picture = DipperPicture(a, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            gtk_widget_realize(window.widget)
            let clock = try #require(gtk_widget_get_frame_clock(window.widget))
            var (isLaidOut, ends) = (false, [Bool]())
            Toolkit.connect(UnsafeMutableRawPointer(clock), "layout") { isLaidOut = true }
            picture.onEnd { _, _ in ends.append(isLaidOut) }
            try window.show()
            try Toolkit.wait(for: "the end") { !ends.isEmpty }
            #expect(ends == [true] && !picture.isLoading)
        }

        @Test("reports no failure any more once it shows the picture")
        func reload() async throws {
            let picture = DipperPicture(cache: test.cache)
            picture.request = ImageRequest(a).with(\.retryPolicy, .never).with(\.failureLifetime, .zero)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            let first = try await test.transport.nextTransfer()
            first.finish(with: Data(), status: 503)
            try Toolkit.wait(for: "the failure") { picture.error == .status(503) && !picture.isLoading }
            gtk_widget_set_visible(picture.widget, 0)
            gtk_widget_set_visible(picture.widget, 1)
            let second = try await test.transport.nextTransfer()
            try Toolkit.wait(for: "another attempt") { picture.isLoading && picture.error == nil }
            second.finish(with: try red.png)
            try Toolkit.wait(for: "the picture") { !picture.isLoading }
            #expect(picture.error == nil)
        }

        @Test("reports the failure of the latest attempt")
        func failedReload() async throws {
            let picture = DipperPicture(cache: test.cache)
            picture.request = ImageRequest(a).with(\.retryPolicy, .never).with(\.failureLifetime, .zero)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            (try await test.transport.nextTransfer()).finish(with: Data(), status: 503)
            try Toolkit.wait(for: "the failure") { picture.error == .status(503) && !picture.isLoading }
            gtk_widget_set_visible(picture.widget, 0)
            gtk_widget_set_visible(picture.widget, 1)
            let second = try await test.transport.nextTransfer()
            try Toolkit.wait(for: "another attempt") { picture.isLoading && picture.error == nil }
            second.finish(with: Data(), status: 404)
            try Toolkit.wait(for: "the other failure") { !picture.isLoading }
            #expect(picture.error == .status(404))
        }

        @Test("shows a placeholder without a request, and one that is set before it")
        func placeholder() async throws {
            let picture = DipperPicture(cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            picture.placeholder = .color(.blue)
            try window.wait(for: .blue, at: 100, 80, of: picture.widget)
        }

        @Test("notifies of what Swift sets, and reads the URL of every scheme")
        func properties() async throws {
            let picture = DipperPicture(cache: test.cache)
            let object = UnsafeMutableRawPointer(picture.widget).assumingMemoryBound(to: GObject.self)
            var names: [String] = []
            for name in ["content-fit", "corner-radius", "shows-progress", "alternative-text", "placeholder-color"] {
                Toolkit.connect(object, "notify::\(name)") { names.append(name) }
            }
            picture.contentFit = GTK_CONTENT_FIT_COVER
            picture.cornerRadius = 4
            picture.showsProgress = false
            picture.alternativeText = "A boat"
            picture.placeholder = .color(.red)
            #expect(
                names == ["content-fit", "corner-radius", "shows-progress", "alternative-text", "placeholder-color"])
            var value = GValue()
            g_value_init(&value, GType(16 << 2))
            defer { g_value_unset(&value) }
            for url in ["https://example.com/a.png", "file:///tmp/a.png", "data:image/png;base64,AAAA"] {
                g_value_set_string(&value, url)
                g_object_set_property(object, "url", &value)
                g_value_set_string(&value, nil)
                g_object_get_property(object, "url", &value)
                #expect(g_value_get_string(&value).map { String(cString: $0) } == url)
            }
            picture.request = ImageRequest(URL(string: "file:///tmp/b.png")!)
            g_object_get_property(object, "url", &value)
            #expect(g_value_get_string(&value).map { String(cString: $0) } == "file:///tmp/b.png")
        }

        @Test("another cache leaves what is loading alone, and loads the next picture")
        func otherCache() async throws {
            let (picture, window, transfer) = try await loading()
            defer { window.close() }
            let other = TestImageCache()
            picture.cache = other.cache
            transfer.finish(with: try red.png)
            try load(picture)
            #expect(other.transport.transfers.isEmpty)
            other.transport.script(b, [try .image(blue)])
            picture.request = ImageRequest(b)
            try load(picture)
            #expect(other.transport.transfers.count == 1)
        }

        // MARK: On screen and off

        @Test("the header is prefetched until the widget is mapped")
        func slowHeader() async throws {
            let url = URL(string: "https://example.com/unmapped.png")!
            let picture = DipperPicture(url, cache: test.cache)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            var (least, most) = (gint(0), gint(0))
            gtk_widget_measure(picture.widget, GTK_ORIENTATION_HORIZONTAL, -1, &least, &most, nil, nil)
            let transfer = try await test.transport.nextTransfer()
            #expect(transfer.queue == .slow)
            try window.show()
            try await transfer.wait { $0.queue == .fast }
            transfer.finish(with: try red.png)
            try load(picture)
            #expect(test.transport.transfers.count == 1)
        }

        @Test("a widget that is unmapped prefetches its picture, and one that is destroyed cancels it")
        func unmapped() async throws {
            let picture = DipperPicture("https://example.com/hidden.png", cache: test.cache)
            let window = try TestWindow(picture.widget)
            try window.show()
            let transfer = try await test.transport.nextTransfer()
            try await transfer.wait { $0.queue == .fast }
            gtk_widget_set_visible(picture.widget, 0)
            try await transfer.wait { $0.queue == .slow }
            gtk_widget_set_visible(picture.widget, 1)
            try Toolkit.wait(for: "a mapped widget") { gtk_widget_get_mapped(picture.widget) != 0 }
            try await transfer.wait { $0.queue == .fast }
            window.close()
            g_object_run_dispose(UnsafeMutableRawPointer(picture.widget).assumingMemoryBound(to: GObject.self))
            try await transfer.wait { $0.isCancelled }
        }

        @Test("a widget in no window loads nothing")
        func unshown() async throws {
            let picture = DipperPicture(a, cache: test.cache)
            #expect(picture.isLoading)
            await test.cache.idle()
            #expect(test.transport.transfers.isEmpty)
        }

        @Test("the widget outlives the object that Swift has of it")
        func lifetime() async throws {
            test.transport.script(a, [try .image(red)])
            let window = try TestWindow(DipperPicture(a, cache: test.cache).widget)
            defer { window.close() }
            try window.show()
            let child = try #require(gtk_window_get_child(window.window))
            try window.wait(for: .red, at: 100, 80, of: child)
            #expect(DipperPicture(pointer: OpaquePointer(child))?.request?.url == a)
            #expect(DipperPicture(pointer: OpaquePointer(window.widget)) == nil)
        }

        // MARK: Moving pictures

        @Test("moving pictures play, unless the user turns animations off")
        func moving() async throws {
            let frames = [red, blue].map {
                AnimationFrame(
                    image: Image.filled(with: $0[0, 0].x > 0 ? .red : .blue, 80, 60), duration: .milliseconds(60))
            }
            test.transport.script(a, [try .animation(frames)])
            Toolkit.set(animations: true)
            defer { Toolkit.set(animations: false) }
            let picture = DipperPicture(cache: test.cache)
            picture.options.transition = .none
            picture.request = ImageRequest(a)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            for color in [Color.blue, .red, .blue] { try window.wait(for: color, at: 100, 80, of: picture.widget) }
            Toolkit.set(animations: false)
            try window.wait(for: .red, at: 100, 80, of: picture.widget)
            let end = ContinuousClock.now + .milliseconds(300)
            while ContinuousClock.now < end {
                try window.frame()
                #expect(try window.pixels(of: picture.widget)[100, 80] == Color.red.premultiplied)
            }
        }

        @Test("a placeholder that is an animation plays")
        func movingPlaceholder() async throws {
            let frames = [Color.red, .blue].map {
                AnimationFrame(image: Image.filled(with: $0, 80, 60), duration: .milliseconds(60))
            }
            let file = try CodecRegistry.standard.encoder(for: .gif).encode(frames, loopCount: 0, EncodeOptions())
            let film = try CodecRegistry.standard.decode(file, DecodeOptions())
            Toolkit.set(animations: true)
            defer { Toolkit.set(animations: false) }
            let (picture, window, transfer) = try await loading { $0.placeholder = .image(film) }
            defer { window.close() }
            for color in [Color.blue, .red, .blue] { try window.wait(for: color, at: 100, 80, of: picture.widget) }
            picture.options.transition = .none
            transfer.finish(with: try Image.filled(with: .white, 400, 320).png)
            try load(picture)
            try window.wait(for: .white, at: 100, 80, of: picture.widget)
        }

        // MARK: Accessibility and .ui files

        @Test("has the role of a picture, its label, and a busy state while it loads")
        func accessibility() async throws {
            let (picture, window, transfer) = try await loading { $0.alternativeText = "A boat" }
            defer { window.close() }
            let accessible = OpaquePointer(picture.widget)
            #expect(gtk_accessible_get_accessible_role(accessible) == GTK_ACCESSIBLE_ROLE_IMG)
            #expect(accessible_label_is(picture.widget, "A boat") && accessible_is_busy(picture.widget, true))
            transfer.finish(with: try red.png)
            try load(picture)
            #expect(accessible_is_busy(picture.widget, false))
        }

        @Test("takes the focus of the keyboard, and shows it, if the program wants that")
        func focus() async throws {
            test.transport.script(a, [try .image(red)])
            let picture = DipperPicture(a, cache: test.cache)
            picture.contentFit = GTK_CONTENT_FIT_COVER
            #expect(gtk_widget_get_focusable(picture.widget) == 0)
            gtk_widget_set_focusable(picture.widget, 1)
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            gtk_widget_grab_focus(picture.widget)
            gtk_window_set_focus_visible(window.window, 1)
            try window.frames(until: "the focus") {
                let pixels = try window.pixels(of: picture.widget)
                return pixels[100, 80] == red[0, 0] && pixels[100, 0] != red[0, 0]
            }
        }

        @Test("is read from a .ui file")
        func builder() async throws {
            let file = """
                <interface><object class="GtkBox" id="box"><child><object class="\(DipperPicture.typeName)" id="photo">
                  <property name="url">https://example.com/a.png</property>
                  <property name="alternative-text">A boat</property>
                  <property name="content-fit">cover</property>
                  <property name="corner-radius">12</property>
                  <property name="fade-duration">0</property>
                  <property name="placeholder-color">#0000ff</property>
                  <property name="focusable">1</property>
                  <property name="width-request">64</property>
                </object></child></object></interface>
                """
            let builder = try #require(gtk_builder_new_from_string(file, -1))
            let picture = try #require(DipperPicture(pointer: OpaquePointer(gtk_builder_get_object(builder, "photo"))))
            g_object_unref(UnsafeMutableRawPointer(builder))
            #expect(picture.request?.url == a && picture.alternativeText == "A boat" && picture.cornerRadius == 12)
            #expect(picture.contentFit == GTK_CONTENT_FIT_COVER && picture.options.transition == .none)
            guard case .color(.blue) = picture.placeholder else { throw Failure(description: "no placeholder") }
            #expect(gtk_widget_get_focusable(picture.widget) == 1)
        }

        // MARK: Many

        @Test("decodes and reads nothing on the thread of GTK")
        func threads() async throws {
            let folder = TemporaryFolder()
            let first = TestImageCache(folder: folder) { $0.data.recordCodec = ThreadCodec() }
            first.transport.script(a, [try .image(red)])
            _ = try await first.cache.getImage(a).value
            await first.cache.shutdown()
            let test = TestImageCache(folder: folder, date: first.date) { configuration in
                configuration.codecs.register(ThreadDecoder())
                configuration.data.recordCodec = ThreadCodec()
            }
            let picture = DipperPicture(a, cache: test.cache)
            onLoop.update { $0 = pthread_self() }
            defer { onLoop.update { $0 = 0 } }
            // The test would notice.
            #expect(throws: DipperError.undecodable) { try ThreadDecoder().decode(red.png, DecodeOptions()) }
            let window = try TestWindow(picture.widget)
            defer { window.close() }
            try window.show()
            try load(picture)
            #expect(test.transport.transfers.isEmpty)
        }

        @Test("a thousand widgets are made, mapped, unmapped and destroyed in any order")
        func walk() async throws {
            let box = try #require(gtk_flow_box_new())
            let window = try TestWindow(box, 400, 300)
            defer { window.close() }
            for number in 0..<20 {
                test.transport.script(URL(string: "https://example.com/\(number).png")!, [try .image(.sample(40, 30))])
            }
            try window.show()
            var random = SplitMix(state: 46)
            var (made, ends) = (0, 0)
            let freed = Box(0)
            var pictures: [DipperPicture] = []
            while made < 1_000 || !pictures.isEmpty {
                switch random.next() % 10 {
                case 0...3 where made < 1_000 && pictures.count < 40:
                    let number = Int(random.next() % 20)
                    let picture = DipperPicture("https://example.com/\(number).png", cache: test.cache)
                    picture.onEnd { _, _ in ends += 1 }
                    Toolkit.count(picture.widget, in: freed)
                    gtk_widget_set_size_request(picture.widget, 20, 15)
                    gtk_flow_box_insert(OpaquePointer(box), picture.widget, -1)
                    pictures.append(picture)
                    made += 1
                case 4:
                    guard let picture = pictures.randomElement(using: &random) else { break }
                    gtk_widget_set_visible(picture.widget, 1 - gtk_widget_get_visible(picture.widget))
                case 5:
                    guard let picture = pictures.randomElement(using: &random) else { break }
                    picture.request = random.next() % 2 == 0 ? nil : ImageRequest(a)
                case 6: g_main_context_iteration(nil, 0)
                default:
                    guard !pictures.isEmpty, made == 1_000 || pictures.count > 20 else { break }
                    let picture = pictures.remove(at: Int(random.next() % UInt64(pictures.count)))
                    gtk_flow_box_remove(OpaquePointer(box), gtk_widget_get_parent(picture.widget))
                }
            }
            test.cache.cancelAll()
            try Toolkit.idle(test.cache)
            try Toolkit.wait(for: "the end of all widgets") { freed.value == 1_000 }
            #expect(ends > 100 && gtk_widget_get_first_child(box) == nil)
        }

        @Test("a program in C uses the widget")
        func program() async throws {
            let file = "data:image/png;base64," + (try red.png.base64EncodedString())
            for (url, output, status) in [(file, "loaded\n", 0), ("data:image/png;base64,AAAA", nil, 1)] {
                let process = Process()
                let pipe = Pipe()
                process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
                    .deletingLastPathComponent().appendingPathComponent("PictureInC")
                process.arguments = [url]
                process.standardOutput = pipe
                try process.run()
                let text = try pipe.fileHandleForReading.readToEnd() ?? Data()
                process.waitUntilExit()
                #expect(process.terminationStatus == status)
                if let output { #expect(String(decoding: text, as: UTF8.self) == output) }
            }
        }
    }
}

/// The thread that serves GTK's loop; after `dispatchMain`, it is not the main one.
private let onLoop = Box<pthread_t>(0)

/// A decoder that refuses to work on that thread.
private struct ThreadDecoder: ImageDecoder {
    private let decoder = PNGDecoder()
    var format: ImageFormat { decoder.format }

    func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        try decoder.memory(of: data, options)
    }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        if onLoop.value == pthread_self() { throw .undecodable.with(detail: "on GTK's thread") }
        return try decoder.decode(data, options)
    }
}

/// A codec of entries on disk that refuses to work on that thread.
private struct ThreadCodec: RecordCodec {
    let identifier = "threads"

    func encode(_ record: Data) throws -> Data { record }
    func decode(_ bytes: Data) throws -> Data {
        if onLoop.value == pthread_self() { throw Failure(description: "on GTK's thread") }
        return bytes
    }
}

struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
