import TestSupport
import Testing

@Suite("A URL that is chosen by the pixels that are needed", .timeLimit(.minutes(2)))
struct SizedURLTests {
    private let test = TestImageCache()
    private let small = url("a-320.png"), medium = url("a-640.png"), large = url("a-1280.png")
    private var request: ImageRequest { ImageRequest(widths: [640: medium, 1280: large, 320: small]) }

    @Test("is that of the smallest picture that is wide enough, or of the widest")
    func widths() {
        #expect(request.url == large, "the whole picture")
        for (width, height, wanted) in [
            (1, 1, small), (320, 900, small), (321, 9, medium), (1280, 9, large), (9_000, 9, large),
        ] {
            #expect(request.processed(by: .resize(width: width, height: height)).url == wanted, "\(width)")
            #expect(request.sized(for: PixelSize(width: width, height: height)).url == wanted, "\(width)")
        }
        #expect(request.processed(by: .downsample(width: 300)).url == small)
        #expect(request.processed(by: .downsample(height: 300)).url == medium, "450 pixels, for a picture of 3 : 2")
        #expect(request.processed(by: .downsample(width: 300, height: 240, .fill)).url == medium)
        #expect(request.processed(by: .circle).url == large)
        #expect(request.processed(by: .circle, .downsample(width: 300, height: 200)).url == large)
    }

    @Test("follows the display's scale, and later processors and options")
    func scale() {
        let cell = request.processed(by: .downsample(width: 300, height: 200).points)
        #expect(cell.url == small && cell.with(\.scale, 2).url == medium)
        #expect(request.with(\.scale, 2).processed(by: .downsample(width: 300, height: 200).points).url == medium)
        #expect(cell.with(\.processors, []).url == large)
        let sized = request.sized(for: PixelSize(width: 10, height: 10)).processed(by: .resize(width: 900))
        #expect(sized.url == small, "the program has said what it needs")
        #expect(ImageRequest(large).sized(for: PixelSize(width: 10, height: 10)).url == large, "there is one URL only")
    }

    @Test("keeps the options of the request, and has a key of its own")
    func options() {
        let headers: HTTPHeaders = ["Accept": "image/png"]
        let all = request.with(\.headers, headers).with(\.timeout, .seconds(7)).processed(by: .resize(width: 300))
        #expect(all.url == small && all.headers == headers && all.timeout == .seconds(7))
        #expect(all.cacheKey == ImageRequest(small).with(\.headers, headers).cacheKey)
    }

    @Test("may be made by a closure, which gets the pixels that are needed, or nothing for the whole picture")
    func closure() {
        let request = ImageRequest(sized: { size in url(size.map { "a?w=\($0.width)&h=\($0.height)" } ?? "a") })
        #expect(request.url == url("a"))
        #expect(request.processed(by: .resize(width: 300, height: 200)).url == url("a?w=300&h=200"))
        #expect(request.processed(by: .resize(width: 300)).url == url("a?w=300&h=200"))
    }

    @Test("makes requests equal if the URLs are, or if the closures are one")
    func equality() {
        #expect(request == request && request.hashValue == request.hashValue)
        #expect(request != ImageRequest(widths: [1280: large]) && request != ImageRequest(large))
        let closure = ImageRequest(sized: { _ in url("a") })
        #expect(closure == closure && closure != ImageRequest(sized: { _ in url("a") }))
        #expect(closure.processed(by: .resize(width: 3)) == closure.processed(by: .resize(width: 3)))
    }

    @Test("is fetched, under its own key; without any URL the call fails")
    func fetched() async throws {
        try test.script(small, .sample(320, 200))
        let thumbnail = request.processed(by: .downsample(width: 160, height: 100))
        let task = test.cache.getImage(thumbnail)
        #expect(try await task.value.size == PixelSize(width: 160, height: 100))
        #expect(task.request.url == small && test.transport.transfers.map(\.request.url) == [small])
        #expect(test.cache.imageInMemory(for: thumbnail) != nil && test.cache.imageInMemory(for: request) == nil)
        #expect(await test.error(ImageRequest(widths: [:])) == .invalidURL)
    }

    @Test(
        "follows the processors that the cache has for all its pictures, also for calls that are found by the request")
    func defaults() async throws {
        let test = TestImageCache { $0.options.processors = [.downsample(width: 500, height: 400)] }
        let task = test.cache.getImage(request)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.url == medium && task.request.url == medium)
        test.cache.cancel(request)
        #expect(await task.error == .cancelled)
        try test.script(medium, .sample(640, 400))
        let result = await ImagePrefetcher(test.cache, filesOf: [request]).value
        #expect(result.completed.count == 1 && test.transport.transfers.last?.request.url == medium)
        try await test.load(request)
        test.cache.removeImage(for: request)
        await test.expectEmpty()
    }

    @Test("follows the size of the display")
    func display() async throws {
        final class Display: ImageDisplay {
            var pixelSize: PixelSize? { PixelSize(width: 200, height: 100) }
            func show(_ content: DisplayContent, _ transition: ImageTransition) {}
        }
        let display = Display()
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace)
        for options in [DisplayOptions(), DisplayOptions().with(\.downsampling, .fit)] {
            binding.setImage(request, options: options)
            #expect(try await test.transport.nextTransfer().request.url == small)
            test.cache.cancelAll()
        }
        binding.setImage(request.sized(for: PixelSize(width: 900, height: 1)))
        #expect(try await test.transport.nextTransfer().request.url == large)
        withExtendedLifetime(display) {}
    }

    @Test("is removed with the picture: no other size is left")
    func removal() async throws {
        for address in [small, medium, large] {
            try test.script(address, .sample())
            try await test.load(address)
        }
        test.cache.removeImage(for: request)
        await test.expectEmpty()
    }
}
