import TestSupport
import Testing

@Suite("Several pictures of one control, names and what callbacks tell", .timeLimit(.minutes(2)))
struct SlotTests {
    /// A control with a display and a binding for each of its pictures, which end with it.
    private final class Button {
        let normal: RecordingDisplay, pressed: RecordingDisplay, background: RecordingDisplay
        let bindings: [ImageBinding]

        init(_ cache: ImageCache) {
            (normal, pressed, background) = (RecordingDisplay(), RecordingDisplay(), RecordingDisplay())
            bindings = [normal, pressed, background].map { ImageBinding($0, cache: cache, queue: .inPlace) }
        }
    }

    private let folder = TemporaryFolder()

    private func withLogo() throws -> TestImageCache {
        try Image.sample(20, 10).png.write(to: folder.url.appendingPathComponent("logo.png"))
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        try test.script(url("a.png"), .sample(30, 30))
        return test
    }

    @Test("each picture of a control may be named, processed, or come from a URL")
    func pictures() async throws {
        let test = try withLogo()
        let button = Button(test.cache)
        button.bindings[0].setImage(named: "logo")
        button.bindings[1].setImage(ImageRequest(named: "logo", in: test.cache).processed(by: .downsample(width: 10)))
        button.bindings[2].setImage(url("a.png"))
        #expect(try await button.normal.nextImage().size == PixelSize(width: 20, height: 10))
        #expect(try await button.pressed.nextImage().size == PixelSize(width: 10, height: 5))
        #expect(try await button.background.nextImage().size == PixelSize(width: 30, height: 30))
    }

    @Test("the pictures of a control are cancelled and released with it")
    func together() async throws {
        let test = TestImageCache()
        let ends = Box<[String]>([])
        var button: Button? = Button(test.cache)
        var transfers: [ScriptedTransfer] = []
        for (index, binding) in (button?.bindings ?? []).enumerated() {
            binding.setImage(url("\(index)")) { result in ends.update { $0.append(result.text) } }
            transfers.append(try await test.transport.nextTransfer())
        }
        weak let display = button?.normal
        button = nil
        for transfer in transfers { try await transfer.wait { $0.isCancelled } }
        try await ends.wait { $0.count == 3 }
        #expect(ends.value == Array(repeating: "cancelled", count: 3) && display == nil)
    }

    @Test("text is a URL if it begins with a scheme, or else the name of a picture")
    func urlOrName() async throws {
        let test = try withLogo()
        for (text, width) in [
            ("logo", 20), ("logo.png", 20), ("http://host.test/a.png", 30), (" HTTP://host.test/a.png", 30),
        ] {
            let request = ImageRequest(urlOrName: text, in: test.cache)
            #expect(try await test.cache.getImage(request).value.width == width, "\(text)")
        }
        for text in ["", ":", "no such", "../logo.png", "host.test/a.png"] {
            #expect(await test.error(ImageRequest(urlOrName: text, in: test.cache)) == .unreadable, "\(text)")
        }
        #expect(await test.error(ImageRequest(urlOrName: "gopher://a/b", in: test.cache)) == .unsupportedScheme)
        let image = try Image.sample(3, 2).png.base64EncodedString()
        let data = ImageRequest(urlOrName: "data:image/png;base64,\(image)", in: test.cache)
        #expect(try await test.cache.getImage(data).value.width == 3)
    }

    @Test(
        "the completion tells size, frames and the duration of a loop of a picture that moves",
        arguments: [ImageFormat.gif, .webp].filter { CodecRegistry.standard.writable.contains($0) })
    func moving(format: ImageFormat) async throws {
        let test = TestImageCache()
        let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(100 * Int($0))) }
        test.transport.script(url("a"), [try .animation(frames, as: format)])
        let (button, told) = (Button(test.cache), Box<[String]>([]))
        button.bindings[0].setImage(ImageRequest(url("a")).processed(by: .resize(width: 8))) { result in
            guard case .success(let response) = result, let animation = response.image.animation else { return }
            let duration = animation.loopDuration.map { "\($0 / .milliseconds(1))" } ?? "none"
            told.update { $0.append("\(response.image.size) \(animation.frameCount) \(duration)") }
        }
        try await told.wait { !$0.isEmpty }
        #expect(told.value == ["8x6 3 600.0"])
        #expect(try ImageInfo(try Image.sample().encoded(as: format)).loopDuration == nil, "a still picture")
    }

    @Test("a prefetcher lives as long as its screen: rows are added and taken back, whatever has ended before")
    func rows() async throws {
        let test = TestImageCache()
        func row(_ number: Int) -> ImageRequest { ImageRequest(url("\(number)")).processed(by: .resize(width: 8)) }
        for number in 0..<30 { try test.script(url("\(number)"), .sample(seed: UInt8(number))) }
        let told = Box(0)
        let prefetcher = ImagePrefetcher(test.cache, [], keepsInMemory: true)
            .onEnd { result in told.update { $0 += result.completed.count } }
            .start()
        for first in stride(from: 0, to: 30, by: 10) {
            prefetcher.pause()
            prefetcher.add((first..<first + 10).map(row))
            // The user has turned back: half of the rows have gone before their turn.
            prefetcher.remove((first + 5..<first + 10).map(row))
            prefetcher.resume()
            let result = await prefetcher.value
            #expect(result.failed.isEmpty && result.remaining.isEmpty)
        }
        // Rows that are added before the closure has heard of an end are told together with the earlier ones.
        try await told.wait { $0 == 15 }
        let wanted = (0..<30).filter { $0 % 10 < 5 }
        #expect((0..<30).filter { test.cache.imageInMemory(for: row($0)) != nil } == wanted)
        #expect(Set(test.transport.transfers.compactMap(\.request.url)) == Set(wanted.map { url("\($0)") }))
        prefetcher.stop()
        prefetcher.add([row(7)])
        try await test.transport.waitForTransfers(1, of: url("7"))
    }
}
