import TestSupport
import Testing

@Suite("Pictures from files, text and code, and in place of others", .timeLimit(.minutes(2)))
struct ImageProviderTests {
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 4)
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("a file is read once and kept in memory only; a changed one is seen when asked for anew")
    func file() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place(picture.png, at: "a picture.png")
        let request = ImageRequest(FileProvider(file))
        #expect(try await test.pixels(request) == picture.pixels)
        try newer.png.write(to: file)
        #expect(try await test.source(request) == .memory)
        #expect(try await test.cache.getRemoteImage(request).value.pixels == newer.pixels)
        test.cache.removeVariant(for: request)
        #expect(test.cache.readImage(for: request) == nil)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 0)
        #expect(test.transport.transfers.isEmpty && test.cache.data.statistics.networkRequests == 0)
    }

    @Test("a thumbnail of a file reaches the disk without a copy of the file, and a changed file is noticed")
    func thumbnail() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place(picture.png, at: "photo.png")
        func thumbnail() async -> ImageRequest {
            ImageRequest(FileProvider(file, key: await FileProvider.key(of: file))).with(\.cachePolicy, .useCache)
                .inverted
        }
        let first = try await test.load(thumbnail())
        #expect(try first.pixels == picture.inverted)
        #expect(test.cache.data.diskCount == 1)
        let next = await test.reopened()
        let response = try await next.cache.getImage(thumbnail()).response
        #expect(try response.source == .disk && response.image.pixels == picture.inverted)
        try Image.sample(5, 4).png.write(to: file)
        let changed = try await next.load(thumbnail())
        #expect(try changed.pixels == Image.sample(5, 4).inverted)
        #expect(next.cache.data.diskCount == 2)
        // The original is copied by those who say so.
        try await next.load(thumbnail().with(\.keepsOriginal, true).with(\.processors, [.circle]))
        #expect(next.cache.data.diskCount == 4)
        let gone = folder.url.appendingPathComponent("gone")
        #expect(await FileProvider.key(of: gone) == CacheKey(gone))
    }

    @Test("files that are not there, folders, pipes and too large ones are typed errors")
    func badFiles() async throws {
        let folder = TemporaryFolder()
        let pipe = folder.url.appendingPathComponent("pipe")
        #expect(mkfifo(pipe.path, 0o600) == 0)
        let nothing = folder.url.appendingPathComponent("nothing")
        for file in [nothing, folder.url, pipe, URL(fileURLWithPath: "/dev/zero"), url("a")] {
            #expect(await test.error(ImageRequest(FileProvider(file))) == .unreadable, "\(file)")
        }
        var provider = FileProvider(try folder.place(Data(count: 2_000), at: "large"))
        provider.maximumSize = 1_999
        #expect(await test.error(ImageRequest(provider)) == .tooLarge)
    }

    @Test("data URLs and Base64; bad ones are an error")
    func text() async throws {
        let base64 = try picture.png.base64EncodedString(options: .lineLength76Characters)
        let percent = try picture.png.map { String(format: "%%%02X", $0) }.joined()
        for provider: any DataProvider in [
            Base64Provider(base64), DataURLProvider("data:image/png;base64," + base64),
            DataURLProvider("DATA:image/png;charset=x;BASE64,\(base64.replacingOccurrences(of: "+", with: "%2B"))"),
            DataURLProvider("data:," + percent),
        ] {
            #expect(try await test.pixels(ImageRequest(provider)) == picture.pixels)
        }
        for provider: any DataProvider in [
            Base64Provider("not base64!"), DataURLProvider("data:image/png;base64,!!!"),
            DataURLProvider("data:image/png"), DataURLProvider("http://host/"), DataURLProvider("data:;base64,A"),
            DataURLProvider("data:;base64,AA=A"), DataURLProvider("data:;base64,AAA=="), Base64Provider("AA=== ="),
        ] {
            #expect(await test.error(ImageRequest(provider)) == .invalidData, "\(provider)")
        }
    }

    @Test(
        "a data URL is read as by browsers: its bytes, and its media type",
        arguments: [
            ("data:,a%20b+%zz%4", "a b+%zz%4", plain),
            ("DATA:text/HTML;Charset=utf-8,<b>", "<b>", "text/HTML;Charset=utf-8"),
            ("data:;base64,YWI", "ab", plain), ("data:;base64,YWI=", "ab", plain), ("data:;base64,YQ", "a", plain),
            ("data:;base64,YR==", "a", plain),
            ("data:;base64,YQ%3D%3D", "a", plain), ("data:;base64, Y W%0AI%20= ", "ab", plain),
            ("data:;BASE64,", "", plain),
            ("data:image/png; base64,YWI", "ab", "image/png"), ("data:image/png;  base64  ,YWI", "ab", "image/png"),
            ("data:;base64 ,YWI", "ab", plain), ("data:base64,YWI", "YWI", plain),
            ("data:a/b;x=base64,YWI", "YWI", "a/b;x=base64"),
            ("data:;base64;x,YWI", "YWI", "text/plain;base64;x"),
            ("data:;charset=x;base64,YWI", "ab", "text/plain;charset=x"),
            ("data:,a#b", "a", plain), (" da\nta:,a\tb ", "ab", plain), ("data:,a?b,c", "a?b,c", plain),
            ("data: image/png ,x", "x", "image/png"), ("data:image,x", "x", plain), ("data:a b/c,x", "x", plain),
            ("data:,é\\", "é\\", plain), ("data:a/b;x=\"1%32;c\",x", "x", "a/b;x=\"1%32;c\""),
            ("data:a/,x", "x", plain),
        ])
    func dataURL(text: String, content: String, type: String) async throws {
        let test = TestCache()
        for request in [DataRequest(DataURLProvider(text)), DataRequest(string: text)] {
            let response = try await test.cache.getData(request).response
            #expect(String(decoding: response.data, as: UTF8.self) == content)
            #expect(response.headers["Content-Type"] == type)
        }
        // Foundation drops no space, and escapes a percent sign beside a character that it must escape.
        guard !text.hasPrefix(" "), !text.contains("%"), let url = URL(string: text) else { return }
        let response = try await test.cache.getData(url).response
        #expect(String(decoding: response.data, as: UTF8.self) == content)
        #expect(test.cache.readData(for: url) == response.data)
    }

    private static let plain = "text/plain;charset=US-ASCII"

    @Test("bytes in memory, and code of the caller's: asked once for all, in queues, with retries")
    func custom() async throws {
        let file = try picture.png
        let mine = ImageRequest(MemoryProvider(file, key: "mine"))
        #expect(try await test.pixels(mine) == picture.pixels)
        let calls = Box(0), retries = Box(0)
        let provider = CustomProvider(key: "made") {
            let isFirst = calls.update { calls in
                defer { calls += 1 }
                return calls == 0
            }
            if isFirst { throw DipperError.connectionLost }
            return file
        }
        let tasks = [test.cache.getImage(ImageRequest(provider)), test.cache.slowGetImage(ImageRequest(provider))]
        tasks[0].onRetry { retries.update { $0 += 1 } }
        try await test.cache.waitForParked(1)
        test.clock.advance(by: .seconds(60))
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.idle()
        #expect(retries.value == 1 && calls.value == 2)
        // What is not local is kept on disk.
        #expect(test.cache.data.hasData(for: "made") && !test.cache.data.hasData(for: "mine"))
        #expect(test.cache.data.diskCount == 1)
        struct Odd: Error {}
        let failing = CustomProvider(key: "odd") { throw Odd() }
        #expect(await test.error(ImageRequest(failing)) == .unreadable)
        #expect(await test.error(ImageRequest(CustomProvider(key: "") { file })) == .emptyKey)
    }

    @Test("named pictures are found in the program's folders, with or without ending, and nowhere else")
    func named() async throws {
        let folder = TemporaryFolder(), other = TemporaryFolder()
        try folder.place(picture.png, at: "icons/home.png")
        try other.place(newer.png, at: "second")
        try folder.place(picture.png, at: "secret.png")
        let test = TestImageCache {
            $0.resourceFolders = [folder.url.appendingPathComponent("icons"), other.url]
        }
        #expect(test.cache.readImage(named: "home")?.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "home").response.source == .memory)
        #expect(try await test.cache.getImage(named: "home.png").value.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "second").value.pixels == newer.pixels)
        for name in ["", "nothing", "../secret", "../secret.png", "/etc/hostname", "."] {
            #expect(test.cache.readImage(named: name) == nil, "\(name)")
            #expect(await test.cache.getImage(named: name).error == .unreadable, "\(name)")
        }
    }

    @Test("a named picture can be processed and shown in a display, of the cache that the display has")
    func namedRequests() async throws {
        let folder = TemporaryFolder()
        try folder.place(picture.png, at: "logo.png")
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        let inverted = ImageRequest(named: "logo", in: test.cache).inverted
        #expect(try await test.cache.getImage(inverted).value.pixels == picture.inverted)
        #expect(try test.cache.imageInMemory(for: inverted)?.pixels == picture.inverted)
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace)
        binding.setImage(named: "logo", placeholder: .color(.black))
        #expect(try await display.nextImage().pixels == picture.pixels)
        withExtendedLifetime(binding) {}
    }

    @Test("a named picture is looked for when its bytes are asked for, not where the call is made")
    func namedLater() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        test.cache.data.fastQueue.isSuspended = true
        let task = test.cache.getImage(named: "late")
        try folder.place(picture.png, at: "late.png")
        test.cache.data.fastQueue.isSuspended = false
        #expect(try await task.value.pixels == picture.pixels)
    }

    @Test("a named picture comes from its file after a restart, though the file was asked for anew before")
    func namedAnew() async throws {
        let icons = TemporaryFolder(), folder = TemporaryFolder()
        for image in [picture, newer] {
            let file = try icons.place(image.png, at: "home.png")
            let test = TestImageCache(folder: folder) { $0.resourceFolders = [icons.url] }
            #expect(test.cache.readImage(named: "home")?.pixels == image.pixels)
            _ = try await test.cache.getRemoteImage(ImageRequest(FileProvider(file))).value
            await test.cache.shutdown()
        }
    }

    // MARK: In place of other pictures

    private let a = url("a.png"), small = url("small.png")
    private let little = Image.sample(8, 8, seed: 5)
    private var processed: ImageRequest { ImageRequest(a).inverted }

    private func request(_ bytes: Data) -> ImageRequest {
        ImageRequest(a).with(\.alternatives, [.provider(MemoryProvider(bytes, key: "bundled"))])
    }

    // MARK: Alternatives

    @Test("an alternative is handed out, processed like the other, and not kept: the next call asks the URL again")
    func alternative() async throws {
        test.transport.script(a, [.status(400), .status(400), try .image(picture)])
        let plain = request(try little.png)
        #expect(try await test.pixels(plain) == little.pixels)
        #expect(try await test.pixels(plain.processed(by: Inverting())) == little.inverted)
        await test.expectEmpty()
        #expect(try await test.pixels(plain) == picture.pixels)
        #expect(try await test.source(plain) == .memory)
    }

    @Test(
        "what the cache has for the URL stays, also if it is asked for anew, or the alternative is broken",
        arguments: [nil, .ignoreCache] as [DataRequest.CachePolicy?])
    func keptStays(policy: DataRequest.CachePolicy?) async throws {
        let headers: HTTPHeaders = ["Cache-Control": "max-age=10, must-revalidate"]
        test.transport.script(a, [try .image(picture, headers: headers), .status(404)])
        for request in [processed, ImageRequest(a)] { try await test.load(request) }
        test.date.advance(by: policy == nil ? 20 : 0)
        #expect(try await test.pixels(request(try little.png).with(\.cachePolicy, policy)) == little.pixels)
        #expect(test.cache.readImage(for: a)?.pixels == picture.pixels)
        await test.forgetMemory()
        #expect(await test.error(request(Data("rubbish".utf8)).with(\.cachePolicy, policy)) == .unsupportedFormat)
        await test.cache.idle()
        #expect(test.cache.readImage(for: a)?.pixels == picture.pixels && test.cache.hasProcessedImage(for: processed))
    }

    // MARK: Constrained networks

    private var frugal: ImageRequest { ImageRequest(a).with(\.lowDataURL, small) }

    private func constrained() throws -> TestImageCache {
        let test = TestImageCache(folder: TemporaryFolder())
        test.network.setConditions(NetworkConditions(isConstrained: true))
        try test.script(a, picture)
        try test.script(small, little)
        return test
    }

    @Test("the small form is fetched once for all that is made of it, under its own key")
    func smallForm() async throws {
        let test = try constrained()
        let tasks = [frugal, frugal.processed(by: Inverting()), frugal].map { test.cache.getImage($0) }
        let later = test.cache.slowGetImage(frugal)
        for task in tasks + [later] {
            #expect(try await task.value.size == little.size)
            #expect(task.key == CacheKey(small) && task.request.data.url == small)
        }
        #expect(tasks[1].imageKey != tasks[1].key && tasks[0].imageKey == CacheKey(small))
        #expect(test.transport.transfers(of: a).isEmpty && test.transport.transfers(of: small).count == 1)
        #expect(test.cache.hasImage(for: small) && !test.cache.hasImage(for: a))
        let again = try await test.cache.getImage(frugal).response
        #expect(again.source == .memory)
        test.network.setConditions(NetworkConditions())
        #expect(try await test.cache.getImage(frugal).value.size == picture.size, "never kept as the picture itself")
    }

    @Test("what memory or the disk has of the picture is the answer; a broken file is not")
    func cached() async throws {
        let test = try constrained()
        try await test.cache.data.addDataAndWait(Data("rubbish".utf8), for: CacheKey(a))
        _ = try await test.cache.getImage(frugal).value
        test.network.setConditions(NetworkConditions())
        #expect(try await test.cache.getImage(frugal).value.size == picture.size)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let requests = test.transport.transfers.count
        #expect(try await test.source(frugal) == .memory)
        await test.forgetMemory()
        let task = test.cache.getImage(frugal)
        #expect(try await task.response.source == .disk && task.key == CacheKey(a))
        #expect(test.transport.transfers.count == requests)
    }

    @Test("a call for the small form is cancelled and moved by the request it was made with", arguments: [false, true])
    func moved(isOnDisk: Bool) async throws {
        let test = TestImageCache(folder: isOnDisk ? TemporaryFolder() : nil)
        test.network.setConditions(NetworkConditions(isConstrained: true))
        let (task, transfer) = try await test.begin(frugal)
        #expect(transfer.request.url == small)
        test.cache.moveTaskToSlowQueue(frugal)
        try await transfer.wait { $0.queue == .slow }
        #expect(task.queue == .slow)
        test.cache.cancel(frugal)
        #expect(await task.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
        await test.cache.idle()
    }
}
