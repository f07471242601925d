import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("The guides' code", .timeLimit(.minutes(5)))
struct GuideTests {
    private let a = url("a.png")
    private let picture = Image.sample()

    @Test("every block of Swift in the README and the guides is code that is compiled here")
    func blocks() throws {
        let code = try GuideBlocks.code()
        var count = 0
        for page in try GuideBlocks.pages() {
            for block in try GuideBlocks.blocks(of: page) {
                count += 1
                #expect(code.contains { GuideBlocks.contains($0, block) }, "\(page): \(block.joined(separator: "\n"))")
            }
        }
        #expect(count > 30)
    }

    @Test("hooks, requests and peeks show what they say")
    func showing() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let (bar, banner, view) = (Stage(), Stage(), Stage())
        _ = try await GettingStartedGuide.hooks(test.cache, a, bar, banner, view).value
        // Whoever awaits the value may hear of it before the hooks do.
        #expect(await settle { !view.images.isEmpty })
        #expect(view.images.map(\.pixels) == [picture.pixels] && banner.texts.isEmpty)

        GettingStartedGuide.peek(test.cache, a, picture, view)
        SGImageCacheGuide.view(view, a, test.cache, picture)
        #expect(view.images.count == 3 && view.url == a)
        let b = url("b.png")
        SGImageCacheGuide.view(view, b, test.cache, picture)
        try await test.transport.nextTransfer().finish(with: try Image.sample(seed: 7).png)
        _ = try await test.cache.getImage(b).value
        #expect(await settle { view.images.count == 5 })
        #expect(view.images.last?.pixels == Image.sample(seed: 7).pixels)

        GettingStartedGuide.pixels(picture, bar)
        #expect(bar.texts.last == "16x12 64 768")
        await test.cache.shutdown()
    }

    @Test("a request has what it was given")
    func requests() async throws {
        let test = TestImageCache()
        let view = Stage()
        let request = GettingStartedGuide.request(test.cache, a, "secret", view)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Authorization"] == "Bearer secret")
        transfer.finish(with: try Image.sample(440, 330).png)
        #expect(await settle { view.images.count == 1 })
        #expect(view.images.first?.size == PixelSize(width: 400, height: 300))
        #expect(test.cache.cachedTier(for: request) == .memory && request.priority == .high)
        let keyed = SGImageCacheGuide.request(a, "someone", "secret")
        #expect(keyed.cacheKey == CacheKey("someone \(a)"))
        await test.cache.shutdown()
    }

    @Test("queues are changed as it says, by each of the calls that are mapped")
    func queues() async throws {
        let queues = Box<[FetchQueue]>([])
        let test = TestImageCache { configuration in
            configuration.data.observe { event in
                if case .queueChanged(let queue) = event.kind { queues.update { $0.append(queue) } }
            }
        }
        // Whose fetch they share.
        let row = test.cache.slowGetImage(a)
        let transfer = try await test.transport.nextTransfer()
        GettingStartedGuide.urgency(test.cache, a)
        #expect(await row.error == .cancelled)
        #expect(await settle { transfer.isCancelled && test.cache.data.queueCounts == QueueCounts() })
        #expect(queues.value == [.fast, .slow])
        #expect(test.transport.transfers.count == 1)

        let b = url("b")
        try SGImageCacheGuide.tables(test.cache, a, ImageRequest(b), "key", picture)
        #expect(!test.cache.hasImage(for: a) && test.cache.memoryCount == 0)
        #expect(await settle { test.transport.transfers(of: b).contains { $0.queue == .slow && !$0.isCancelled } })
        await test.cache.shutdown()
    }

    @Test("pictures and files that are at hand, and bytes that are no pictures")
    func local() async throws {
        let folder = TemporaryFolder()
        let icons = folder.url.appendingPathComponent("icons")
        try FileManager.default.createDirectory(at: icons, withIntermediateDirectories: true)
        let file = icons.appendingPathComponent("home.png")
        try picture.png.write(to: file)
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        let images = try await GettingStartedGuide.local(test.cache, file, .sample(seed: 9), a)
        #expect(images.map { $0?.pixels } == [picture.pixels, picture.pixels])
        #expect(test.cache.image(for: a)?.pixels == Image.sample(seed: 9).pixels)
        test.transport.script(url("feed"), [.body(Data("[]".utf8))])
        #expect(try await GettingStartedGuide.data(test.cache, url("feed")) == Data("[]".utf8))
        await test.cache.shutdown()
    }

    @Test("the examples of tests of one's own pass")
    func testing() async throws {
        try await TestingGuide.pictures(a)
        #expect(try await TestingGuide.failures(a).pixels == picture.pixels)
        try await TestingGuide.decoders(a)
        let test = TestImageCache()
        try await TestingGuide.displays(a, test.transport, test.cache, picture)
        await test.cache.shutdown()
    }

    @Test("displays, bindings and lists do what they say")
    func displays() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let (view, binding) = DisplaysGuide.binding(test.cache, a, Loop())
        #expect(await settle { test.cache.memory.contains(CacheKey(a)) })
        let caption = Stage()
        DisplaysGuide.completion(binding, ImageRequest(a), .sample(3, 2), DisplaysGuide.options(), caption)
        // The thread that shows the first picture may still be at it, and then shows what comes next as well.
        let told = DisplaysGuide.PhotoView.told
        #expect(await settle { caption.texts == ["memory"] && told.value.last == "16x12 over 0.0 seconds" })
        DisplaysGuide.presence(binding)
        let list = DisplaysGuide.list(test.cache, (0..<20).map { url("\($0)") }, binding)
        #expect(await settle { told.value.last == "000000ff" })
        withExtendedLifetime(view) {}
        #expect(await settle { test.transport.transfers(of: url("3")).count == 1 })
        withExtendedLifetime(list) {}
        await test.cache.shutdown()
    }

    @Test("settings are taken")
    func settings() {
        var configuration = GettingStartedGuide.callbacks(URL(fileURLWithPath: "/nowhere"), Loop())
        GettingStartedGuide.limits(&configuration)
        DecodingGuide.serializer(&configuration)
        SGImageCacheGuide.immutable(&configuration)
        #expect(configuration.memoryLimit == 200 << 20 && configuration.data.diskLimit == 1 << 30)
        #expect(configuration.limits.pixels == 50_000_000 && configuration.data.freshness == .immutable())
        #expect(DecodingGuide.register(nil).codecs.readable.contains(ImageFormat(rawValue: "pixmap")))
    }

    @Test("own processors and codecs work, alone and in a cache")
    func extending() async throws {
        let translucent = Image.sample(alpha: 200)
        let negative = try DecodingGuide.Negative().process(translucent, ProcessingContext())
        #expect(negative[3, 2].x == 200 - translucent[3, 2].x && negative[3, 2].w == 200)
        let test = TestImageCache { $0.codecs = DecodingGuide.register(nil).codecs }
        test.transport.script(a, [.body(Data("pxmp".utf8) + [100, 50, 30])])
        let image = try await test.cache.getImage(DecodingGuide.sizes(a).processed(by: DecodingGuide.Negative())).value
        #expect(image.size == PixelSize(width: 100, height: 50) && image[1, 1] == SIMD4(225, 225, 225, 255))
        #expect(DecodingGuide.chain(a).options.processors?.count == 1)
        await test.cache.shutdown()
    }

    @Test("processors do what the guide says, in a cache and without one")
    func processors() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let photo = Image.sample(120, 100)
        test.transport.script(a, [.body(try photo.png)])
        let round = try await test.cache.getImage(ProcessorsGuide.members(a)).value
        #expect(round.size == PixelSize(width: 120, height: 100) && !round.isOpaque)
        let avatar = try await test.cache.getImage(ProcessorsGuide.chain(a)).value
        #expect(avatar.size == PixelSize(width: 96, height: 96) && avatar[0, 0].w == 0 && avatar[48, 1].x == 255)
        #expect(test.transport.transfers.count == 1)
        #expect(try ProcessorsGuide.alone(photo).size == photo.size)
        let sizes = try ProcessorsGuide.frames().map { try $0.process(photo, ProcessingContext()).size }
        #expect(sizes.map(\.width) == [400, 800, 128])
        for processor in ProcessorsGuide.lengths() + ProcessorsGuide.colors(picture) {
            #expect(try processor.process(photo, ProcessingContext()).pixels != photo.pixels)
        }
        #expect(try ProcessorsGuide.custom().process(photo, ProcessingContext()).width == 60)
        await test.cache.shutdown()
    }

    @Test("headers are read, and pictures made small and written again")
    func codecs() throws {
        let bytes = try Pictures.data("jpeg/large.jpg")
        #expect(try DecodingGuide.info(bytes).format == .jpeg)
        let info = try ImageInfo(DecodingGuide.codecs(bytes))
        #expect(info.format == .jpeg && info.size.map { max($0.width, $0.height) } == 64)
    }

    @Test("frames come one after the other; a request for previews ends with the picture itself")
    func frames() async throws {
        let player = Stage()
        try await DecodingGuide.frames(picture, player)
        #expect(player.images.isEmpty)
        #if GIF
            let frames = (0..<3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(50)) }
            let gif = try GIFEncoder().encode(frames, loopCount: 0, EncodeOptions())
            try await DecodingGuide.frames(try CodecRegistry.standard.decode(gif), player)
            #expect(player.images.count == 3)
        #endif

        let test = TestImageCache()
        let view = Stage()
        let bytes = try Pictures.data("jpeg/large-progressive.jpg")
        DecodingGuide.previews(test.cache, a, view)
        let transfer = try await test.transport.nextTransfer()
        transfer.finish(with: bytes)
        let whole = try JPEGDecoder().decode(bytes, DecodeOptions()).pixels
        #expect(await settle { view.images.last?.pixels == whole })
        await test.cache.shutdown()
    }
}
