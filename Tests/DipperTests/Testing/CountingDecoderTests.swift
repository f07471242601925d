import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A decoder that counts", .timeLimit(.minutes(5)))
struct CountingDecoderTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()

    @Test("counts the decodes of a cache: one for each picture that is not in memory")
    func counts() async throws {
        let decoder = CountingDecoder()
        let test = TestImageCache(decoder: decoder)
        try test.transport.script(a, [.image(picture)])
        for _ in 0..<2 { #expect(try await test.cache.getImage(a).value.pixels == picture.pixels) }
        #expect(decoder.decodes == 1)
        test.cache.clearMemory()
        _ = try await test.cache.getImage(a).value
        try await decoder.waitForDecodes(2)
        #expect(decoder.decodes == 2)
        await test.cache.shutdown()
    }

    @Test("holds each decode until the test releases it")
    func holds() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder)
        try test.transport.script(a, [.image(picture)])
        let ends = Box(0)
        let task = test.cache.getImage(a).then { _ in ends.update { $0 += 1 } }
        try await decoder.waitForDecodes(1)
        #expect(ends.value == 0 && decoder.decodes == 1)
        decoder.release()
        #expect(try await task.value.pixels == picture.pixels)
        #expect(await settle { ends.value == 1 })
        // Released before it begins.
        try test.transport.script(b, [.image(picture)])
        decoder.release()
        _ = try await test.cache.getImage(b).value
        await test.cache.shutdown()
    }

    @Test("lets all decodes continue once the test releases all, also those that come later")
    func releasesAll() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder)
        let urls = (0..<20).map { url("\($0).png") }
        for url in urls { try test.transport.script(url, [.image(picture)]) }
        let tasks = urls.prefix(10).map { test.cache.getImage($0) }
        try await decoder.waitForDecodes(1)
        decoder.releaseAll()
        for task in tasks + urls.suffix(10).map({ test.cache.getImage($0) }) { _ = try await task.value }
        #expect(decoder.decodes == 20)
        await test.cache.shutdown()
    }

    @Test("fails as often as the test asks for, with the error that it asks for")
    func fails() async throws {
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder)
        try test.transport.script(a, [.image(picture)])
        let held = test.cache.getImage(a)
        try await decoder.waitForDecodes(1)
        decoder.failNext()
        decoder.failNext(with: .imageTooLarge)
        decoder.releaseAll()
        #expect(await held.error == .undecodable)
        #expect(await test.cache.getImage(a).error == .imageTooLarge)
        #expect(try await test.cache.getImage(a).value.pixels == picture.pixels)
        #expect(decoder.decodes == 3)
        await test.cache.shutdown()
    }

    @Test("makes pictures of a size of any bytes, in the size that the request asks for, within the limits")
    func makes() async throws {
        let decoder = CountingDecoder(making: PixelSize(width: 40, height: 30))
        let test = TestImageCache(decoder: decoder)
        test.transport.script(a, [.body(Data("a photograph".utf8))])
        let image = try await test.cache.getImage(a).value
        #expect(image.pixels == Image.filled(with: .white, 40, 30).pixels)
        let small = ImageRequest(a).processed(by: .downsample(width: 20, height: 20))
        #expect(try await test.cache.getImage(small).value.size == PixelSize(width: 20, height: 15))
        // Files that other decoders read are left to them.
        #expect(try !decoder.recognizes(picture.png) && decoder.recognizes(Data()))
        #expect(try decoder.info(of: Data()).size == PixelSize(width: 40, height: 30))
        var limited = DecodeOptions()
        limited.limits.pixels = 1_199
        let options = limited
        #expect(throws: DipperError.imageTooLarge) { try decoder.decode(Data(), options) }
        await test.cache.shutdown()
    }

    #if GIF
        @Test("passes the frames of an animation on")
        func frames() throws {
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
            let file = try GIFEncoder().encode(frames, loopCount: 1, EncodeOptions())
            let decoder = CountingDecoder(GIFDecoder())
            #expect(try decoder.allFrames(of: file).map(\.image.pixels) == frames.map(\.image.pixels))
            #expect(decoder.recognizes(file) && decoder.decodes == 0)
            #expect(try decoder.decode(file, DecodeOptions()).animation?.frameCount == 3)
        }
    #endif
}
