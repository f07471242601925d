import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Scripted pictures", .timeLimit(.minutes(5)))
struct ScriptedImageTests {
    private let a = url("a")

    @Test("a filled picture has one colour, and the size that it was given")
    func filled() throws {
        let color = Color(hex: 0xff8000, alpha: 0.5)
        let image = Image.filled(with: color, 5, 3)
        #expect(image.size == PixelSize(width: 5, height: 3) && !image.isOpaque)
        let pixel = color.premultiplied
        #expect(image.pixels == (0..<15).flatMap { _ in [pixel.x, pixel.y, pixel.z, pixel.w] })
        #expect(Image.filled(with: .white).isOpaque)
    }

    @Test("samples are equal if their arguments are; the seed is the blue of all pixels")
    func samples() {
        #expect(Image.sample(7, 5, seed: 3).pixels == Image.sample(7, 5, seed: 3).pixels)
        #expect(Image.sample(7, 5, seed: 3).pixels != Image.sample(7, 5, seed: 4).pixels)
        let image = Image.sample(40, 30, seed: 9)
        #expect(image.size == PixelSize(width: 40, height: 30) && image.isOpaque)
        #expect(stride(from: 2, to: image.pixels.count, by: 4).allSatisfy { image.pixels[$0] == 9 })
        #expect(image[0, 0] != image[1, 0])
        #expect(Image.sample(alpha: 90)[3, 2].w == 90)
    }

    @Test(
        "the cache gets the picture that was scripted, and the media type of its format",
        arguments: [ImageFormat.png, .jpeg])
    func still(format: ImageFormat) async throws {
        let test = TestImageCache()
        let picture = Image.filled(with: Color(hex: 0x4080c0), 20, 10)
        try test.transport.script(a, [.image(picture, as: format, headers: ["ETag": "\"1\""])])
        let image = try await test.cache.getImage(a).value
        try #require(image.size == picture.size)
        #expect(Difference(image.pixels, picture.pixels).largest <= (format == .png ? 0 : 3))
        let headers = try await test.cache.data.getData(a).response.headers
        #expect(headers["Content-Type"] == "image/\(format)" && headers["ETag"] == "\"1\"")
        await test.cache.shutdown()
    }

    @Test("the files of a picture are decoded to what it is")
    func files() throws {
        let picture = Image.sample()
        #expect(try CodecRegistry.standard.decode(picture.png).pixels == picture.pixels)
        #expect(try ImageInfo(picture.jpeg).format == .jpeg)
        #expect(try CodecRegistry.standard.decode(picture.jpeg).size == picture.size)
    }

    @Test("a media type that is given stays; a format that cannot be written is an error")
    func headers() throws {
        let step = try ScriptedTransport.Step.image(.sample(), headers: ["content-type": "text/plain"])
        guard case .response(let response) = step else {
            Issue.record("The step is a response.")
            return
        }
        #expect(response.headers.fields.map(\.value) == ["text/plain"])
        #expect(throws: DipperError.unsupportedFormat) { try ScriptedTransport.Step.image(.sample(), as: .heic) }
        let frame = AnimationFrame(image: .sample(), duration: .milliseconds(40))
        #expect(throws: DipperError.unencodable) { try ScriptedTransport.Step.animation([frame], as: .png) }
    }

    #if GIF
        @Test("the cache gets the animation that was scripted")
        func animation() async throws {
            let test = TestImageCache()
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
            try test.transport.script(a, [.animation(frames, loopCount: 2)])
            let animation = try #require(try await test.cache.getImage(a).value.animation)
            #expect(animation.frameCount == 3 && animation.loopCount == 2)
            let shown = try animation.makeFrameDecoder().rest()
            #expect(shown.map(\.image.pixels) == frames.map(\.image.pixels))
            #expect(shown.map(\.duration) == frames.map(\.duration))
            await test.cache.shutdown()
        }
    #endif
}
