import TestSupport
import Testing

@Suite("The guides' code", .timeLimit(.minutes(2)))
struct GuideTests {
    private let test = TestImageCache()
    private let a = url("a.png")
    private let picture = Image.sample()

    // MARK: Blocks

    /// The lines of a file of the package, without indentation, and with one blank where there are several: comments are
    /// aligned in the guides alone.
    private static func lines(_ file: URL) throws -> [String] {
        try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false).map {
            $0.split(separator: " ").joined(separator: " ")
        }
    }

    /// The blocks of Swift in a page, but for those of a package's manifest: their lines, without the imports above.
    private static func blocks(of page: URL) throws -> [[String]] {
        var blocks: [[String]] = []
        var block: [String]?
        for line in try lines(page) {
            if line.hasPrefix("```") {
                if let block { blocks.append(block) }
                block = block == nil && line == "```swift" ? [] : nil
            } else {
                block?.append(line)
            }
        }
        return blocks.filter { $0.first != "// Package.swift" }
            .map { Array($0.drop { $0.isEmpty || $0.hasPrefix("import ") }) }
    }

    @Test("every block of Swift in the README and the guides is code that is compiled here")
    func blocks() throws {
        let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let package = (0..<3).reduce(here) { folder, _ in folder.deletingLastPathComponent() }
        func files(_ folder: URL, _ ending: String) throws -> [URL] {
            try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
                .filter { $0.pathExtension == ending }
        }
        // The code that needs a trait is compiled with the tests of that trait.
        let folders = [here] + ["RedisTests", "Behaviour"].map { package.appendingPathComponent("Tests/\($0)") }
        let code = try folders.flatMap { try files($0, "swift") }.map(Self.lines)
        var pages = [package.appendingPathComponent("README.md")]
        for name in [
            "Dipper/Dipper.docc", "DipperData/DipperData.docc", "DipperTesting/DipperTesting.docc",
            "DipperInspector/DipperInspector.docc", "DipperTracing/DipperTracing.docc",
        ] {
            pages += try files(package.appendingPathComponent("Sources/\(name)"), "md")
        }
        var count = 0
        for page in pages {
            for block in try Self.blocks(of: page) where !block.isEmpty {
                count += 1
                let isThere = code.contains { file in
                    file.indices.dropLast(block.count - 1).contains {
                        file[$0..<$0 + block.count].elementsEqual(block)
                    }
                }
                #expect(isThere, "\(page.lastPathComponent): \(block.joined(separator: "\n"))")
            }
        }
        #expect(count > 30)
    }

    // MARK: Calls

    @Test("hooks, requests and peeks show what they say")
    func showing() async throws {
        test.transport.script(a, [.body(try picture.png)])
        let (bar, banner, view) = (Stage(), Stage(), Stage())
        _ = GettingStartedGuide.hooks(test.cache, a, bar, banner, view)
        await test.cache.idle()
        #expect(view.images.map(\.pixels) == [picture.pixels] && banner.texts.isEmpty)
        GettingStartedGuide.peek(test.cache, a, picture, view)
        SGImageCacheGuide.view(view, a, test.cache, picture)
        #expect(view.images.count == 3 && view.url == a)
        SGImageCacheGuide.view(view, url("b.png"), test.cache, picture)
        try await test.transport.waitForTransfers(1, of: url("b.png"))
        test.transport.transfers.last?.finish(with: try Image.sample(seed: 7).png)
        await test.cache.idle()
        #expect(view.images.count == 5 && view.images.last?.pixels == Image.sample(seed: 7).pixels)
        GettingStartedGuide.pixels(picture, bar)
        #expect(bar.texts.last == "16x12 64 768")

        #expect(try await KingfisherGuide.retrieve(test.cache, a).source == .memory)
        let panel = KingfisherGuide.Panel()
        let binding = KingfisherGuide.display(panel, test.cache, a, Loop(), banner)
        ImageXGuide.display(binding, ImageRequest(a))
        #expect(panel.image?.pixels == picture.pixels && banner.texts.isEmpty)
        let other = KingfisherGuide.Panel()
        let second = SGImageCacheGuide.binding(other, a, test.cache, .sample(seed: 7), Loop())
        SGImageCacheGuide.onScreen(second)
        #expect(other.image?.pixels == picture.pixels && second.isOnScreen)
    }

    @Test("the first lines of the README and of the landing pages load, prefetch and process with the shared caches")
    func landingPages() async throws {
        let (feed, next) = (url("feed"), url("next.png"))
        let data = TestCache()
        for transport in [test.transport, data.transport] {
            transport.script(feed, [.body(Data("[]".utf8))])
            for url in [a, next] { try transport.script(url, [.image(picture)]) }
        }
        test.transport.script(url("gone"), [.status(404)])
        let (view, banner) = (Stage(), Stage())
        try await SharedCaches.ImageCache.$shared.withValue(test.cache) {
            try await LandingPages.readme(a, next, feed, banner, Stage(), view)
            #expect(try await LandingPages.dipper(a, next).pixels == picture.pixels)
            SGImageCacheGuide.Shared.image(url("gone"), view, Stage(), banner)
        }
        await test.cache.idle()
        #expect(view.images.first?.pixels == picture.pixels && banner.texts == ["status 404 for good"])
        #expect(view.images.contains { $0.size == PixelSize(width: 200, height: 200) })
        for url in [a, next, feed] { #expect(test.transport.transfers(of: url).count == 1) }

        let bytes = try await SharedCaches.DataCache.$shared.withValue(data.cache) {
            try await LandingPages.dipperData(feed, next)
        }
        #expect(bytes == Data("[]".utf8))
        await data.cache.idle()
        #expect(data.transport.transfers.map(\.request.url) == [feed, next])
    }

    @Test("errors are caught as the guide says, and the progress of a call is gone through to its end")
    func errors() async throws {
        test.transport.script(a, [.status(404)])
        let (bar, banner, view) = (Stage(), Stage(), Stage())
        await GettingStartedGuide.errors(test.cache, a, view, banner)
        #expect(view.images.isEmpty && banner.texts == ["status 404", "There is no such picture."])
        await GettingStartedGuide.progress(test.cache.getImage(a), bar)
        _ = GettingStartedGuide.hooks(test.cache, a, bar, banner, view)
        await test.cache.idle()
        #expect(banner.texts.count == 3)
    }

    @Test("a request has what it was given")
    func requests() async throws {
        let view = Stage()
        let request = GettingStartedGuide.request(test.cache, a, "secret", view)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Authorization"] == "Bearer secret")
        transfer.finish(with: try Image.sample(440, 330).png)
        await test.cache.idle()
        #expect(view.images.map(\.size) == [PixelSize(width: 400, height: 300)])
        #expect(test.cache.cachedSource(for: request) == .memory && request.priority == .high)
        test.cache.getImage(KingfisherGuide.signed(url("signed"), "secret", "me"))
        #expect(try await test.transport.nextTransfer().request.headers["Authorization"] == "secret")
        let options = KingfisherGuide.request(a, url("mirror"), url("small"))
        #expect(options.cachePolicy == .ignoreCache && options.lowDataURL == url("small"))
        #expect(options.alternatives.map(\.url) == [url("mirror")] && options.options.processors?.count == 1)
        let plain = ImageXGuide.network(a, "https://example.org")
        #expect(plain.headers["Referer"] == "https://example.org" && plain.timeout == .seconds(20))
        #expect(KingfisherGuide.options().transition == .fade(.milliseconds(300)))
        let playing = ImageXGuide.options()
        #expect(playing.animation.bufferCount == 20 && playing.downsampling == .fill)
    }

    @Test("queues are changed as it says")
    func queues() async throws {
        // Whose fetch they share.
        let row = test.cache.slowGetImage(a)
        let transfer = try await test.transport.nextTransfer()
        GettingStartedGuide.urgency(test.cache, a)
        #expect(await row.error == .cancelled)
        try await transfer.wait { $0.isCancelled && $0.queue == .slow }
        await test.cache.idle()
        #expect(test.cache.data.queueCounts == QueueCounts() && test.transport.transfers.count == 1)
    }

    @Test("there is each of the calls that are mapped")
    func tables() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let bytes = try picture.png
        let request = GuideTables.options(a, bytes, test.cache.data, .inPlace)
        #expect(request.cachePolicy == .bypass && request.priority == Priority(0.8))
        #expect(request.progressInterval == .milliseconds(20) && request.memoryExpiration == .expired)
        #expect(request.diskExpiration == .expired)
        try test.cache.addImage(picture, bytes: bytes, for: url("kept"))
        await test.cache.idle()
        let tasks = [test.cache.getRemoteImage(a), test.cache.getRemoteImage(url("other"))]
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        #expect(test.cache.memoryCount == 1 && test.cache.data.diskCount == 1)
        try await GuideTables.calls(test.cache, a, ImageRequest(url("b")), "key", picture, bytes)
        for ended in tasks { #expect(await ended.error == .cancelled) }
        for transfer in transfers { try await transfer.wait { $0.isCancelled } }
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0 && test.cache.data.diskCount == 0)
        #expect(test.cache.data.fastQueue.maxConcurrent == 5 && !test.cache.hasImage(for: url("kept")))
        #expect(!test.cache.hasImage(for: a))
    }

    @Test("pictures and files that are at hand, and bytes that are no pictures; what is prefetched is told")
    func local() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place(picture.png, at: "icons/home.png")
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        let images = try await GettingStartedGuide.local(test.cache, file, .sample(seed: 9), a)
        #expect(images.map { $0?.pixels } == [picture.pixels, picture.pixels])
        #expect(test.cache.readImage(for: a)?.pixels == Image.sample(seed: 9).pixels)
        test.transport.script(url("feed"), [.body(Data("[]".utf8))])
        #expect(try await GettingStartedGuide.data(test.cache, url("feed")) == Data("[]".utf8))
        let banner = Stage()
        test.transport.script(url("next"), [.body(try picture.png)])
        let prefetcher = KingfisherGuide.prefetch(test.cache, [url("next")], Stage(), banner)
        try await banner.noted.wait { $0 == ["0 failed"] }
        #expect(prefetcher.progress.completed == 1)
    }

    @Test("the examples of tests of one's own pass")
    func testing() async throws {
        try await TestingGuide.pictures(a)
        #expect(try await TestingGuide.failures(a).pixels == picture.pixels)
        try await TestingGuide.decoders(a)
        try await TestingGuide.offline(a)
        let folder = TemporaryFolder()
        try await TestingGuide.restart(a, folder.url)
        let other = TestCache()
        try await TestingGuide.parts(other.cache, a, other.transport)
        try await TestingGuide.displays(a, test.transport, test.cache, picture)
    }

    @Test("displays, bindings and lists do what they say")
    func displays() async throws {
        test.transport.script(a, [.body(try picture.png)])
        let (view, binding) = DisplaysGuide.binding(test.cache, a, Loop())
        await test.cache.idle()
        let caption = Stage()
        let told = DisplaysGuide.PhotoView.told
        DisplaysGuide.completion(binding, ImageRequest(a), .sample(3, 2), DisplaysGuide.options(), caption)
        try await told.wait { $0.last == "16x12 over 0.0 seconds" }
        try await caption.noted.wait { $0 == ["memory"] }
        DisplaysGuide.presence(binding)
        let list = DisplaysGuide.list(test.cache, (0..<20).map { url("\($0)") }, binding)
        try await told.wait { $0.last == "000000ff" }
        try await test.transport.waitForTransfers(1, of: url("3"))
        DisplaysGuide.hiding(test.cache)
        #expect(!test.cache.isHidden)
        let photo = try DisplaysGuide.Photo(
            url: a, hash: picture.thumbHash(), blurHash: picture.blurHash(),
            size: picture.size, color: .black)
        DisplaysGuide.placeholders(binding, photo)
        try await told.wait { $0.last?.hasPrefix("16x12") == true }
        withExtendedLifetime((view, list)) {}
        let closed = TestImageCache()
        DisplaysGuide.screen(closed.cache, [url("near")], [url("passed")])
        try await closed.cache.idle(within: .seconds(30))
        #expect(closed.transport.transfers.allSatisfy(\.isCancelled) && !closed.cache.hasImage(for: url("near")))
    }

    @Test("a display shows how far its picture is, and that it waits")
    func activity() async throws {
        let test = TestImageCache { $0.data.progressInterval = .zero }
        let view = DisplaysGuide.ActivityView()
        let binding = ImageBinding(view, cache: test.cache, queue: .inPlace)
        binding.setImage(url("b.png"))
        let bytes = try picture.png
        let transfer = try await test.transport.nextTransfer()
        transfer.send(progress: bytes.count / 2, of: bytes.count / 2 * 2)
        try await view.bar.noted.wait { $0.contains("0.5") }
        transfer.finish(with: bytes)
        try await view.bar.noted.wait { $0.last == "hidden" }
        test.network.isUp = false
        binding.setImage(a)
        try await view.bar.noted.wait { $0.last == "Waiting for the network" }
        withExtendedLifetime(binding) {}
    }

    @Test("settings are taken")
    func settings() {
        var configuration = GettingStartedGuide.settings(URL(fileURLWithPath: "/nowhere"), Loop())
        DecodingGuide.serializer(&configuration)
        SGImageCacheGuide.immutable(&configuration)
        #expect(configuration.memoryLimit == 200 << 20 && configuration.data.diskLimit == 1 << 30)
        #expect(configuration.limits.pixels == 50_000_000 && configuration.data.freshness == .immutable())
        KingfisherGuide.limits(&configuration)
        #expect(configuration.memoryCountLimit == 500 && configuration.data.diskExpiration == .days(30))
        ImageXGuide.cache(&configuration)
        #expect(configuration.data.compression == .gzip && configuration.data.diskLimit == 200 << 20)
        GettingStartedGuide.smallProcess(&configuration)
        #expect(configuration.memoryLimit == 40 << 20 && configuration.decodingMemory == 16 << 20)
        #expect(DecodingGuide.register(nil).codecs.readable.contains(ImageFormat(rawValue: "pixmap")))
    }

    // MARK: Pictures

    @Test("own processors and codecs work, alone and in a cache; headers are read, and pictures written again")
    func extending() async throws {
        let translucent = Image.sample(alpha: 200)
        let negative = try DecodingGuide.Negative().process(translucent, ProcessingContext())
        #expect(negative[3, 2].x == 200 - translucent[3, 2].x && negative[3, 2].w == 200)
        let test = TestImageCache { $0.codecs = DecodingGuide.register(nil).codecs }
        test.transport.script(a, [.body(Data("pxmp".utf8) + [100, 50, 30])])
        let image = try await test.cache.getImage(DecodingGuide.sizes(a).processed(by: DecodingGuide.Negative())).value
        #expect(image.size == PixelSize(width: 100, height: 50) && image[1, 1] == SIMD4(225, 225, 225, 255))
        #expect(DecodingGuide.chain(a).options.processors?.count == 2)
        test.transport.script(url("favicon.ico"), [.body(try Pictures.data("ico/sizes.ico"))])
        let favicon = try await test.cache.getImage(DecodingGuide.favicon(url("favicon.ico"))).value
        #expect(favicon.pixels == Image.filled(with: Color(hex: 0xFF0000), 16, 16).pixels)
        await test.cache.shutdown()
        let choosing = TestImageCache { DecodingGuide.accept(&$0) }
        choosing.cache.getImage(a)
        let accept = try await choosing.transport.nextTransfer().request.headers["Accept"]
        #expect(accept == CodecRegistry.standard.accept)
        let bytes = try Pictures.data("jpeg/large.jpg")
        #expect(try DecodingGuide.info(bytes).format == .jpeg)
        let (file, small) = try DecodingGuide.codecs(bytes)
        #expect(try ImageInfo(file).format == .png && Image(data: file)[0, 0].w == 0)
        let info = try ImageInfo(small)
        #expect(info.format == .jpeg && info.size.map { max($0.width, $0.height) } == 64)
        let icon = try DecodingGuide.points(bytes)
        #expect(max(icon.width, icon.height) == 128 && icon.scale == 2)
    }

    @Test("a cache that insists on helpers decodes in one, or not at all")
    func apart() async {
        // In a process of its own, which takes itself for the helper from then on.
        await #expect(processExitsWith: .success) {
            let (folder, picture) = (TemporaryFolder(), Image.sample())
            let cache = DecodingGuide.apart(folder.url.appendingPathComponent("cache"))
            let result = await cache.getImage(try folder.place(picture.png, at: "a.png")).result
            #expect(result.error == .notIsolated || (try? result.get().pixels) == picture.pixels)
            await cache.shutdown()
        }
    }

    @Test("processors do what the guide says, in a cache and without one")
    func processors() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let photo = Image.sample(120, 100)
        test.transport.script(a, [.body(try photo.png)])
        let round = try await test.cache.getImage(ProcessorsGuide.members(a)).value
        #expect(round.size == PixelSize(width: 200, height: 200) && !round.isOpaque)
        let avatar = try await test.cache.getImage(ProcessorsGuide.chain(a)).value
        #expect(avatar.size == PixelSize(width: 96, height: 96) && avatar[0, 0].w == 0 && avatar[48, 1].x == 255)
        #expect(test.transport.transfers.count == 1)
        #expect(try ProcessorsGuide.alone(photo).size == PixelSize(width: 100, height: 100))
        #expect(ProcessorsGuide.points(a).scale == 2)
        let sizes = try ProcessorsGuide.frames().map { try $0.process(photo, ProcessingContext()).size }
        #expect(sizes.map(\.width) == [400, 800, 128])
        for processor in ProcessorsGuide.lengths() + ProcessorsGuide.colors(picture) {
            #expect(try processor.process(photo, ProcessingContext()).pixels != photo.pixels)
        }
        #expect(try ProcessorsGuide.custom().process(photo, ProcessingContext()).width == 60)
        let filtered = try GuideTables.processors().map { try $0.process(photo, ProcessingContext()) }
        #expect(filtered.allSatisfy { $0.width > 0 })
        #expect(filtered.last.map { (127...128).contains($0[0, 0].w) } == true)
    }

    @Test("a request for previews ends with the picture itself")
    func previews() async throws {
        let view = Stage()
        let bytes = try Pictures.data("jpeg/large-progressive.jpg")
        DecodingGuide.previews(test.cache, a, view)
        try await test.transport.nextTransfer().finish(with: bytes)
        await test.cache.idle()
        #expect(view.images.last?.pixels == (try JPEGDecoder().decode(bytes, DecodeOptions()).pixels))
    }

    #if GIF
        @Test("frames come one after the other; players show them, and say how far they are")
        func animation() async throws {
            let frames = (0..<3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(20)) }
            let image = try CodecRegistry.standard.decode(GIFEncoder().encode(frames, loopCount: 1, EncodeOptions()))
            let alone = Stage()
            try await DecodingGuide.frames(picture, alone)
            #expect(alone.images.isEmpty)
            try await DecodingGuide.frames(image, alone)
            #expect(alone.images.count == 3)

            let view = Stage()
            let player = AnimationGuide.playing(image, view, Loop())
            let other = AnimationPlayer(image)
            await AnimationGuide.stream(other, view)
            #expect(other.state == .finished && !view.images.isEmpty)
            AnimationGuide.shortOfMemory(player)
            #expect([.paused, .finished].contains(player.state))
            player.stop()
            player.start()
            AnimationGuide.offScreen(player)
            #expect(player.state != .paused)

            let hooked = Stage()
            let loops = AnimationGuide.hooks(image, hooked)
            // A queue that comes late is told only the newest of what came meanwhile.
            try await hooked.noted.wait { $0.first == "hidden" && $0.suffix(2) == ["3 of 3", "finished"] }
            #expect(loops.state == .finished)
            let played = Stage()
            let file = try ImageXGuide.play(try picture.png, played)
            try await played.shown.wait { !$0.isEmpty }
            file.stop()

            #expect(AnimationGuide.delays().delays == .atLeast(.milliseconds(20)))
            #expect(AnimationGuide.processors().processors.count == 1)
            let last = try await AnimationGuide.testing(image, view)
            for await _ in last.frames where last.currentIndex > 0 { break }
            #expect(last.currentIndex > 0)
        }
    #endif
}
