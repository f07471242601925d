import DipperInspector
import Logging
import TestSupport
import Testing

/// The code of "Recipes", in the order of the guide.
enum RecipesGuide {
    // MARK: Show

    @MainActor
    static func placeholder(
        _ view: some ImageDisplay & Sendable, _ cache: ImageCache, _ url: URL, _ broken: Image
    ) -> ImageBinding {
        let binding = ImageBinding(view, cache: cache)
        let options = DisplayOptions()
            .with(\.transition, .fade(.milliseconds(200)))
            .with(\.failure, .image(broken))
        binding.setImage(url, placeholder: .color(Color(hex: 0xe0e0e0)), options: options)
        return binding
    }

    static func list(_ cache: ImageCache, _ photos: [URL], _ binding: ImageBinding) -> ListLoader {
        let list = ListLoader(cache, count: photos.count) { row in
            [ImageRequest(photos[row]).processed(by: .downsample(width: 320, height: 240))]
        }
        list.update(visible: 0..<12)  // whenever the list scrolls
        list.attach(binding, to: 3, placeholder: .color(.black))  // when row 3 gets a display
        return list
    }

    static func avatar(_ url: URL, _ binding: ImageBinding, _ nobody: Image) {
        let avatar = ImageRequest(url)
            .with(\.scale, 2)
            .processed(by: .fitting(width: 48, height: 48, .aspectFill).points, .circle)
            .processed(by: .border(.white, width: .points(1.5), radius: .points(24)))
        binding.setImage(avatar, placeholder: .image(nobody))
    }

    static func animation(_ url: URL, _ binding: ImageBinding) -> ImageRequest {
        let small = ImageRequest(url).processed(by: .downsample(width: 320, height: 240))
        let options = DisplayOptions().with(\.animation, AnimationOptions(loop: .count(3)))
        binding.setImage(small, options: options)
        let still = small.with(\.firstFrameOnly, true)  // for a list
        return still
    }

    static func fileThumbnail(_ cache: ImageCache, _ file: URL) async throws -> Image {
        let photo = FileProvider(file, key: await FileProvider.key(of: file))
        let thumbnail = ImageRequest(photo)
            .with(\.cachePolicy, .useCache)  // local sources stay in memory otherwise
            .processed(by: .downsample(width: 320, height: 240))
        let image = try await cache.getImage(thumbnail).value
        return image
    }

    static func encoded(_ cache: ImageCache, _ url: URL) async throws -> (Data?, Data) {
        let banner = ImageRequest(url)
            .processed(by: .fitting(width: 1200, height: 300, .aspectFill))
            .with(\.serializer, .jpeg(quality: 0.8))
            .with(\.waitsForDiskWrite, true)
        let image = try await cache.getImage(banner).value
        let stored = await cache.data.data(for: cache.imageKey(for: banner), in: .disk)
        let file = try stored ?? image.encoded(as: .jpeg(quality: 0.8))
        return (stored, file)
    }

    static func sizes(_ cache: ImageCache, _ url: URL, _ page: Stage, _ icon: Stage) {
        let large = ImageRequest(url).processed(by: .downsample(width: 1600, height: 1200))
        let small = large.processed(by: .downsample(width: 160, height: 120))
        cache.getImage(large) { image in page.show(image) }
        cache.getImage(small) { image in icon.show(image) }
    }

    static func blurred(_ cache: ImageCache, _ url: URL, _ small: URL, _ binding: ImageBinding) async {
        let blurred = ImageRequest(small).processed(by: .blur(8))
        let placeholder = await cache.image(for: blurred).map(DisplayOptions.Placeholder.image) ?? .color(.black)
        let photo = ImageRequest(url).with(\.lowDataURL, small)  // enough while the network is constrained
        binding.setImage(photo, placeholder: placeholder)
    }

    static func newer(_ cache: ImageCache, _ url: URL, _ view: Stage) async {
        if let old = await cache.image(for: url) { view.show(old) }  // however old it is
        cache.getImage(url) { image in view.show(image) }  // asks the server if that picture is out of date
            .onRevalidate { newer in
                if case .success(let response) = newer { view.show(response.image) }
            }
    }

    static func insisting(_ configuration: inout ImageCache.Configuration) {
        configuration.data.freshness = .http(defaultFreshness: .expired)
        configuration.data.staleIfError = .zero
        configuration.data.retryPolicy = .exponential(cap: .seconds(60), retries: nil)
        configuration.data.retryPolicy.deadline = nil  // otherwise the call fails after an hour
    }

    static func oldAndNew(
        _ cache: ImageCache, _ url: URL, _ banner: Stage, _ show: @escaping @Sendable (Data) -> Void
    ) async {
        if let old = await cache.data.data(for: url) { show(old) }
        cache.data.getData(url)
            .onFail { error, isFatal in
                switch error {
                case .cancelled: break
                case .unreachable: banner.show("No network")
                case .connectionFailed: banner.show("The server refuses connections")
                default: banner.show(error, isFatal ? "for good" : "for now")
                }
            }
            .onRetry { banner.hide() }
            .then { new in show(new) }
    }

    // MARK: Fetch

    static func own(_ cache: ImageCache, _ url: URL, _ reportURL: URL) async throws -> (Image, Data) {
        struct Avatar: ImageRequestConvertible {
            let url: URL
            var imageRequest: ImageRequest { ImageRequest(url).processed(by: .circle) }
        }

        struct Report: DataRequestConvertible {
            let url: URL
            var dataRequest: DataRequest { DataRequest(url).with(\.headers, ["Accept": "application/json"]) }
        }

        let image = try await cache.getImage(Avatar(url: url)).value
        let data = try await cache.data.getData(Report(url: reportURL)).value
        return (image, data)
    }

    static func local(_ cache: ImageCache, _ file: URL, _ inline: String) async throws -> [Image] {
        let photo = try await cache.getImage(file).value  // URL(filePath: "/home/ada/photo.jpg")
        let dot = try await cache.getImage(inline).value  // "data:image/png;base64,iVBORw0…"
        let icon = try await cache.getImage(named: "icons/home").value
        return [photo, dot, icon]
    }

    static func authorised(_ cache: ImageCache, _ url: URL, _ session: Session) async throws -> Image {
        let credentials = Credentials.provider(identity: session.account) { challenge in
            let token = await session.token(renewing: challenge.demand != nil)
            return "Bearer \(token)"
        }
        let request = ImageRequest(url).with(\.credentials, credentials)
        let image = try await cache.getImage(request).value
        return image
    }

    static func signed(_ cache: ImageCache, _ url: URL, _ session: Session) async throws -> Image {
        let signer = RequestModifier(identity: session.account) { request in
            var request = request
            let signature = try await session.signature(of: request.url)
            request.url.append(queryItems: [URLQueryItem(name: "signature", value: signature)])
            return request
        }
        let image = try await cache.getImage(ImageRequest(url).with(\.modifier, signer)).value
        return image
    }

    static func signatures(_ configuration: inout ImageCache.Configuration) {
        configuration.data.keyRule = .signatures.leavingOut("token")
    }

    static func missing(_ cache: ImageCache, _ url: URL) {
        let avatar = ImageRequest(url).with(\.failureLifetime, .seconds(3_600))
        cache.getImage(avatar).onEnd { result in
            if case .failure(let error) = result, !error.isRemembered { print(error) }
        }
        cache.getRemoteImage(url)  // the user asks again: so does the cache
    }

    static func cookies(_ cache: ImageCache, _ url: URL) async throws -> Image {
        let cookies = RedirectHandler { redirection, request in
            let (from, to) = (redirection.url, request.url)
            if from.scheme == "https", to.scheme != "https" { return nil }  // refused, as without a handler
            guard from.host() == to.host() else { return request }  // no cookie for another host
            var request = request
            for field in redirection.headers where field.name.lowercased() == "set-cookie" {
                let cookie = field.value.prefix { $0 != ";" }
                request.headers["Cookie"] = request.headers["Cookie"].map { "\($0); \(cookie)" } ?? "\(cookie)"
            }
            return request
        }
        let image = try await cache.getImage(ImageRequest(url).with(\.redirectHandler, cookies)).value
        return image
    }

    static func download(
        _ cache: ImageCache, _ url: URL, _ bar: Stage, _ banner: Stage, _ view: Stage, _ button: Button
    ) -> ImageTask {
        let task = cache.getImage(url)
            .onProgress { progress in bar.set(progress.fraction) }
            .then { image in view.show(image) }
            .onEnd { result in if case .failure(let error) = result, !error.isCancelled { banner.show(error) } }
        button.onClick { task.cancel() }
        return task
    }

    static func document(_ cache: ImageCache, _ url: URL, _ file: URL, _ bar: Stage) async throws {
        let task = cache.data.getData(url).onProgress { progress in bar.set(progress.fraction) }
        try await task.value.write(to: file, options: .atomic)
        cache.data.removeData(for: url)  // the file is enough
    }

    static func feed(_ cache: ImageCache, _ feedURL: URL) async throws -> [URL] {
        struct Feed: Decodable { var photos: [URL] }

        let feed = try await cache.data.getValue(Feed.self, from: feedURL).value
        for photo in feed.photos { cache.slowGetImage(photo) }
        return feed.photos
    }

    static func patient(_ configuration: inout ImageCache.Configuration) {
        configuration.data.retryPolicy = .exponential(cap: .seconds(60), retries: nil)
        configuration.data.retryPolicy.deadline = nil
        configuration.data.retryPolicy.maxRetryAfter = .seconds(86_400)
    }

    static func offline(_ cache: ImageCache, _ url: URL, _ bundled: URL, _ view: Stage, _ banner: Stage) {
        let request = ImageRequest(url).with(\.alternatives, [bundled])  // a file of the program
        cache.getImage(request) { image in view.show(image) }
            .onEnd { result in if case .failure(let error) = result { banner.show(error) } }
    }

    // MARK: Keep

    static func limits(_ configuration: inout ImageCache.Configuration) {
        configuration.memoryLimit = 128 << 20  // decoded pictures, in bytes
        configuration.memoryCountLimit = 500
        configuration.data.diskLimit = 500 << 20  // files, in bytes
        configuration.data.partialLimit = 32 << 20  // the received parts of interrupted downloads
        configuration.data.diskExpiration = .days(30)
        configuration.data.diskAccessExtension = .cacheTime  // 30 days after the last use

        configuration.data.evictionOrder = .leastRecentlyUsed
    }

    static func signOut(_ cache: ImageCache) async throws {
        cache.cancelAll()  // pictures
        cache.data.cancelAll()  // feeds and other data
        cache.clear()
        try await cache.finishRemovals()  // the files are gone, or an error is thrown
    }

    static func named() -> (ImageCache, URL?) {
        var settings = ImageCache.Configuration(name: "avatars")
        settings.data.diskLimit = 20 << 20
        let avatars = ImageCache(settings)
        return (avatars, settings.data.directory)
    }

    final class FilmPage {
        let cache: DataCache
        let url: URL
        init(_ cache: DataCache, _ url: URL) { (self.cache, self.url) = (cache, url) }

        func isOnDisk() async -> Bool {
            await cache.read { [url] cache in cache.hasData(for: url, in: .disk) }
        }

        func bytesOnDisk() async -> Int { await cache.read { $0.diskSize } }
    }

    // MARK: Run

    static func thumbnail(_ configuration: ImageCache.Configuration, _ text: String) async throws -> Data {
        var configuration = configuration
        configuration.data.network.addressPolicy = .publicOnly  // no host of the server's own network
        configuration.data.network.maximumBodySize = 20 << 20
        configuration.data.readsFileURLs = false
        configuration.limits.pixels = 50_000_000
        let cache = ImageCache(configuration)
        let thumbnail = ImageRequest(string: text).processed(by: .downsample(width: 320, height: 240))
        let image = try await cache.getImage(thumbnail).value
        let file = try image.encoded(as: .jpeg(quality: 0.8))
        await cache.shutdown()
        return file
    }

    static func watched(_ configuration: ImageCache.Configuration, _ url: URL, _ file: URL) async throws {
        var configuration = configuration
        let timeline = Timeline()
        configuration.data.name = "photos"  // the dimension "cache" of the metrics
        configuration.data.logger = Logger(label: "photos")  // with logLevel .debug, each request
        configuration.data.eventSinks = [timeline]
        let cache = ImageCache(configuration)
        let response = try await cache.getImage(url).response
        print(response, cache.data.statistics.networkBytes, "bytes")
        try timeline.svg().write(to: file, atomically: true, encoding: .utf8)
    }

    static func inspected(_ cache: ImageCache) async throws -> URL? {
        let inspector = Inspector(cache)
        do {
            print("inspector:", try inspector.start())
        } catch InspectorError.addressInUse {
            print("another program has the port")
        }
        defer { Task { await inspector.stop() } }
        return inspector.url
    }

    static func testing(_ url: URL) async throws {
        let transport = ScriptedTransport()
        try transport.script(url, [.status(503), .image(.sample(160, 120))])
        var configuration = ImageCache.Configuration()
        configuration.data.transport = transport
        configuration.data.networkMonitor = ManualNetwork()
        configuration.data.retryPolicy = .fixed(.zero)
        let cache = ImageCache(configuration)
        #expect(try await cache.getImage(url).value.size == PixelSize(width: 160, height: 120))
    }
}

extension Session {
    func signature(of url: URL) async throws -> String { "of-\(url.lastPathComponent)" }
}

final class Button: Sendable {
    private let action = Box<(@Sendable () -> Void)?>(nil)

    func onClick(_ action: @escaping @Sendable () -> Void) { self.action.update { $0 = action } }
    func click() { action.value?() }
}

@Suite("The recipes", .timeLimit(.minutes(2)))
struct RecipesTests {
    private let test = TestImageCache()
    private let a = url("a.png")
    private let picture = Image.sample()
    private let other = Image.sample(seed: 7)

    private func bound() -> (RecordingDisplay, ImageBinding) {
        let display = RecordingDisplay()
        return (display, ImageBinding(display, cache: test.cache, queue: .inPlace))
    }

    // MARK: Show

    @Test("a placeholder comes first, the picture fades in, and another picture stands for one that cannot be loaded")
    func placeholder() async throws {
        let (display, second) = (RecordingDisplay(), RecordingDisplay())
        let binding = await RecipesGuide.placeholder(display, test.cache, a, other)
        try await test.transport.nextTransfer().finish(with: try picture.png)
        try await display.nextImage()
        #expect(display.descriptions.first == "placeholder e0e0e0ff")
        #expect(display.descriptions.last == "image 16x12, fade")
        test.transport.script(url("gone"), [.status(404)])
        let failing = await RecipesGuide.placeholder(second, test.cache, url("gone"), other)
        try await second.nextEvent { $0.description == "failure 16x12" }
        withExtendedLifetime((binding, failing)) {}
    }

    @Test("an avatar is a circle with a line around it, and a list loads the rows on screen")
    func requests() async throws {
        let (display, binding) = bound()
        test.transport.script(a, [try .image(.filled(with: .black, 120, 100))])
        RecipesGuide.avatar(a, binding, picture)
        let avatar = try await display.nextImage()
        #expect(avatar.size == PixelSize(width: 96, height: 96) && avatar[0, 0].w == 0 && avatar[48, 1].x == 255)
        let (photos, file) = try ((0..<20).map { url("\($0)") }, Image.sample(640, 480).png)
        for photo in photos { test.transport.script(photo, [.body(file)]) }
        let list = RecipesGuide.list(test.cache, photos, binding)
        #expect(try await display.nextImage().size == PixelSize(width: 320, height: 240))
        withExtendedLifetime((list, binding)) {}
    }

    #if GIF
        @Test("an animation plays, and is a still picture in a list")
        func animation() async throws {
            let frames = (0..<3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(20)) }
            test.transport.script(a, [try .animation(frames)])
            let (display, binding) = bound()
            let still = RecipesGuide.animation(a, binding)
            try await display.nextEvent { $0.description.hasPrefix("frame") }
            #expect(try await test.cache.getImage(still).value.animation == nil)
            withExtendedLifetime(binding) {}
        }
    #endif

    @Test("two sizes of a photo are decoded once")
    func sizes() async throws {
        let (page, icon) = (Stage(), Stage())
        test.transport.script(a, [try .image(.sample(400, 300))])
        RecipesGuide.sizes(test.cache, a, page, icon)
        await test.cache.idle()
        #expect(page.images.map(\.width) == [400] && icon.images.map(\.width) == [160])
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
    }

    @Test("a small picture that is cached is the placeholder of the large one")
    func blurred() async throws {
        let (display, binding) = bound()
        test.transport.script(url("small"), [try .image(picture)])
        _ = try await test.cache.getImage(url("small")).value
        await RecipesGuide.blurred(test.cache, a, url("small"), binding)
        #expect(display.descriptions.first == "placeholder 16x12")
        try await test.transport.nextTransfer().finish(with: try Image.sample(160, 120).png)
        #expect(try await display.nextImage().width == 160)
        withExtendedLifetime(binding) {}
    }

    @Test(
        "an old picture is shown first, and then the newer one",
        arguments: [("max-age=60", 2), ("max-age=60, stale-while-revalidate=600", 3)])
    func newer(control: String, count: Int) async throws {
        let headers: HTTPHeaders = ["Cache-Control": control]
        test.transport.script(a, [try .image(picture, headers: headers), try .image(other, headers: headers)])
        _ = try await test.cache.getImage(a).value
        test.date.advance(by: 100)
        let view = Stage()
        await RecipesGuide.newer(test.cache, a, view)
        await test.cache.idle()
        #expect(view.images.count == count && view.images.first?.pixels == picture.pixels)
        #expect(view.images.last?.pixels == other.pixels)
    }

    @Test("the old value comes at once, and the call waits for the new one, without a network and without a server")
    func insisting() async throws {
        let test = TestImageCache { RecipesGuide.insisting(&$0) }
        let (banner, shown) = (Stage(), Box<[String]>([]))
        let show: @Sendable (Data) -> Void = { data in shown.update { $0.append(String(decoding: data, as: UTF8.self)) }
        }
        test.transport.script(
            a,
            [
                .body(Data("old".utf8)), .failure(.connectionFailed), .status(503), .body(Data("new".utf8)),
                .status(404),
            ])
        await RecipesGuide.oldAndNew(test.cache, a, banner, show)
        await test.cache.idle()
        #expect(shown.value == ["old"] && banner.texts.isEmpty)
        test.network.isUp = false
        await RecipesGuide.oldAndNew(test.cache, a, banner, show)
        try await test.cache.waitForParked()
        #expect(shown.value == ["old", "old"] && banner.texts == ["No network"])
        test.network.isUp = true
        let stepping = Task { [clock = test.clock] in
            while !Task.isCancelled {
                try await clock.waitForSleepers(1)
                clock.advance(by: .seconds(60))
            }
        }
        defer { stepping.cancel() }
        try await shown.wait { $0.last == "new" }
        #expect(
            banner.texts.filter { $0 != "hidden" }
                == ["No network", "The server refuses connections", "status 503 for now"])
        test.date.advance(by: 1)
        await RecipesGuide.oldAndNew(test.cache, a, banner, show)
        try await banner.noted.wait { $0.last == "status 404 for good" }
    }

    // MARK: Fetch

    @Test("types of one's own are fetched by their requests")
    func own() async throws {
        test.transport.script(a, [try .image(picture)])
        test.transport.script(url("report"), [.body(Data("{}".utf8))])
        let (image, data) = try await RecipesGuide.own(test.cache, a, url("report"))
        #expect(image[0, 0].w == 0 && data == Data("{}".utf8))
        let sent = test.transport.transfers(of: url("report")).first?.request.headers["Accept"]
        #expect(sent == "application/json")
    }

    @Test("pictures come from a file, a data URL and the program's own folders")
    func local() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place(picture.png, at: "icons/home.png")
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        let inline = try "data:image/png;base64,\(picture.png.base64EncodedString())"
        let images = try await RecipesGuide.local(test.cache, file, inline)
        #expect(images.map(\.pixels) == Array(repeating: picture.pixels, count: 3))
    }

    @Test("tokens and signatures are sent")
    func signed() async throws {
        let (cache, address, session) = (test.cache, a, Session())
        async let authorised = RecipesGuide.authorised(cache, address, session)
        let first = try await test.transport.nextTransfer()
        #expect(first.request.headers["Authorization"] == "Bearer token")
        first.finish(with: try picture.png)
        let own = try await authorised
        #expect(own.size == picture.size)
        async let signed = RecipesGuide.signed(cache, address, session)
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == url("a.png?signature=of-a.png"))
        second.finish(with: try picture.png)
        let shared = try await signed
        #expect(shared.size == picture.size)
    }

    @Test("a site that redirects until its cookies come back is followed; no other host receives them")
    func cookies() async throws {
        let (cache, address, page) = (test.cache, a, picture.size)
        let again = { (cookie: String) -> HTTPHeaders in ["Location": "/a.png", "Set-Cookie": cookie] }
        test.transport.script(a, [.status(302, again("session=1; Path=/; HttpOnly"))])
        #expect(await cache.getImage(a).error == .tooManyRedirects)
        test.transport.script(a, [])
        async let followed = RecipesGuide.cookies(cache, address)
        try await test.transport.nextTransfer().finish(
            with: Data(), status: 302, headers: again("session=1; Path=/; HttpOnly"))
        try await test.transport.nextTransfer().finish(with: Data(), status: 302, headers: again("theme=dark"))
        let third = try await test.transport.nextTransfer()
        #expect(third.request.url == a && third.request.headers["Cookie"] == "session=1; theme=dark")
        let elsewhere: HTTPHeaders = ["Location": "http://elsewhere.test/a.png", "Set-Cookie": "c=3"]
        third.finish(with: Data(), status: 302, headers: elsewhere)
        let fourth = try await test.transport.nextTransfer()
        #expect(fourth.request.headers["Cookie"] == nil && fourth.request.url.host() == "elsewhere.test")
        fourth.finish(with: Data(), status: 302, headers: ["Location": address.absoluteString, "Set-Cookie": "c=4"])
        let last = try await test.transport.nextTransfer()
        #expect(last.request.headers["Cookie"] == nil, "a cookie of another host")
        last.finish(with: try picture.png)
        let size = try await followed.size
        #expect(size == page)
    }

    @Test("a download tells how far it is, and a button cancels it; a document becomes a file")
    func downloads() async throws {
        let test = TestImageCache { $0.data.progressInterval = .zero }
        let (bar, banner, view, button) = (Stage(), Stage(), Stage(), Button())
        let task = RecipesGuide.download(test.cache, a, bar, banner, view, button)
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: 50, of: 100)
        try await bar.noted.wait { $0.contains("0.5") }
        button.click()
        #expect(await task.error == .cancelled)
        try await transfer.wait { $0.isCancelled }
        await test.cache.idle()
        #expect(banner.texts.isEmpty && view.images.isEmpty)
        let (folder, document) = (TemporaryFolder(), Data("%PDF-1.7".utf8))
        let file = folder.url.appendingPathComponent("a.pdf")
        test.transport.script(url("a.pdf"), [.body(document)])
        try await RecipesGuide.document(test.cache, url("a.pdf"), file, bar)
        #expect(try Data(contentsOf: file) == document)
        #expect(!test.cache.data.hasData(for: url("a.pdf")))
    }

    @Test("the pictures of a feed are prefetched")
    func feed() async throws {
        test.transport.script(url("feed"), [.body(Data(#"{"photos": ["\#(a)"]}"#.utf8))])
        test.transport.script(a, [try .image(picture)])
        #expect(try await RecipesGuide.feed(test.cache, url("feed")) == [a])
        await test.cache.idle()
        #expect(test.cache.hasImage(for: a))
    }

    @Test("a kiosk tries for ever")
    func patient() async throws {
        let test = TestImageCache { RecipesGuide.patient(&$0) }
        let failures = Array(repeating: ScriptedTransport.Step.status(503), count: 20)
        try test.transport.script(a, failures + [.image(picture)])
        let task = test.cache.getImage(a)
        let stepping = Task { [clock = test.clock] in
            while !Task.isCancelled {
                try await clock.waitForSleepers(1)
                clock.advance(by: .seconds(600))
            }
        }
        defer { stepping.cancel() }
        #expect(try await task.value.size == picture.size)
        #expect(test.transport.transfers.count == 21)
    }

    @Test("without a network a bundled picture stands in, and later the real one comes")
    func offline() async throws {
        let (folder, view, banner) = (TemporaryFolder(), Stage(), Stage())
        let bundled = try folder.place(picture.png, at: "welcome.png")
        test.network.isUp = false
        RecipesGuide.offline(test.cache, a, bundled, view, banner)
        await test.cache.idle()
        #expect(view.images.map(\.pixels) == [picture.pixels])
        test.network.isUp = true
        test.transport.script(a, [try .image(other)])
        RecipesGuide.offline(test.cache, a, bundled, view, banner)
        await test.cache.idle()
        #expect(view.images.last?.pixels == other.pixels && banner.texts.isEmpty)
    }

    @Test("a thumbnail of a file, and the file of a processed picture, are on disk")
    func filed() async throws {
        let (test, folder) = (TestImageCache(folder: TemporaryFolder()), TemporaryFolder())
        let photo = try folder.place(Image.sample(640, 480).png, at: "photo.png")
        #expect(try await RecipesGuide.fileThumbnail(test.cache, photo).width == 320)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        test.transport.script(a, [try .image(picture)])
        let (stored, file) = try await RecipesGuide.encoded(test.cache, a)
        #expect(stored == file && ImageFormat(sniffing: file) == .jpeg)
        #expect(try Image(data: file).size == PixelSize(width: 1200, height: 300))
        let inMemory = TestImageCache()
        inMemory.transport.script(a, [try .image(picture)])
        let (none, encoded) = try await RecipesGuide.encoded(inMemory.cache, a)
        #expect(none == nil && encoded == file)
    }

    // MARK: Keep

    @Test("limits are taken, and after signing out nothing is left")
    func keeping() async throws {
        let test = TestImageCache(folder: TemporaryFolder()) { RecipesGuide.limits(&$0) }
        var configuration = ImageCache.Configuration()
        RecipesGuide.limits(&configuration)
        #expect(configuration.memoryLimit == 128 << 20 && configuration.data.partialLimit == 32 << 20)
        test.transport.script(a, [try .image(picture)])
        _ = try await test.cache.getImage(a).value
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 1)
        let (waiting, feed) = (test.cache.getImage(url("b")), test.cache.data.getData(url("feed")))
        try await RecipesGuide.signOut(test.cache)
        #expect(await waiting.error == .cancelled)
        #expect(await feed.error == .cancelled)
        #expect(!test.cache.hasImage(for: a) && test.cache.memoryCount == 0 && test.cache.data.diskCount == 0)
    }

    @Test("a cache with a name has a folder of its own; a page asks for what is on disk")
    func asking() async throws {
        let (avatars, directory) = RecipesGuide.named()
        let folder = try #require(directory)
        #expect(folder.path.hasSuffix("/dipper/named-images/avatars") && avatars.diskLimit == 20 << 20)
        await avatars.shutdown()
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(Data("film".utf8))])
        let page = RecipesGuide.FilmPage(test.cache.data, a)
        #expect(await !page.isOnDisk())
        _ = try await test.cache.data.getData(a).value
        await test.cache.idle()
        #expect(await page.isOnDisk())
        #expect(await page.bytesOnDisk() > 0)
    }

    // MARK: Run

    @Test("a server makes thumbnails of public pictures, and reads neither its files nor its own network")
    func thumbnail() async throws {
        for (text, error) in [
            ("file:///etc/passwd", DipperError.unsupportedScheme), ("http://127.0.0.1/a.png", .addressRefused),
        ] {
            await #expect(throws: error) { try await RecipesGuide.thumbnail(TestingGuide.settings(nil), text) }
        }
        let transport = ScriptedTransport()
        transport.script(a, [try .image(.sample(640, 480))])
        let file = try await RecipesGuide.thumbnail(TestingGuide.settings(transport), a.absoluteString)
        #expect(try ImageInfo(file).format == .jpeg)
        #expect(try ImageInfo(file).size == PixelSize(width: 320, height: 240))
    }

    @Test("a cache is watched, and tested without a network")
    func watched() async throws {
        let (folder, transport) = (TemporaryFolder(), ScriptedTransport())
        transport.script(a, [try .image(picture)])
        let file = folder.url.appendingPathComponent("timeline.svg")
        try await RecipesGuide.watched(TestingGuide.settings(transport), a, file)
        let watched = TestImageCache()
        #expect(try await RecipesGuide.inspected(watched.cache)?.host == "127.0.0.1")
        #expect(folder.text("timeline.svg")?.contains("<svg") == true)
        try await RecipesGuide.testing(a)
    }
}
