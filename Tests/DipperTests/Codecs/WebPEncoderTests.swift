import TestSupport

#if WebP
    import Dipper
    import Foundation
    import Testing

    @Suite("Writing WebP", .timeLimit(.minutes(5)))
    struct WebPEncoderTests {
        private let encoder = WebPEncoder()
        private let decoder = WebPDecoder()
        private let size = PixelSize(width: 40, height: 30)

        private var lossless: EncodeOptions {
            var options = EncodeOptions()
            options.isLossless = true
            return options
        }

        @Test("a lossless picture comes back as it was")
        func withoutLoss() throws {
            let image = try #require(Image(size: size, premultiplied: Ramp.pixels(40, 30)))
            let again = try decoder.decode(encoder.encode(image, lossless), .init())
            #expect(again.pixels == image.pixels)
            #expect(again.isOpaque)
        }

        @Test("a lossless picture with alpha comes back within one step")
        func withoutLossOfAlpha() throws {
            let image = try #require(Image(size: size, premultiplied: Ramp.pixels(40, 30, hasAlpha: true)))
            let again = try decoder.decode(encoder.encode(image, lossless), .init())
            #expect(Difference(again.pixels, image.pixels).largest <= 1)
            #expect(!again.isOpaque)
        }

        @Test("quality costs bytes, and brings the picture nearer")
        func quality() throws {
            let image = try #require(Image(size: size, premultiplied: Ramp.pixels(40, 30, hasAlpha: true)))
            let high = try encoder.encode(image, .init(quality: 0.95))
            let low = try encoder.encode(image, .init(quality: 0.1))
            #expect(low.count < high.count)
            let near = Difference(try decoder.decode(high, .init()).pixels, image.pixels)
            let far = Difference(try decoder.decode(low, .init()).pixels, image.pixels)
            #expect(near.mean < 3 && near.mean < far.mean, "\(near), \(far)")
            #expect(try encoder.encode(image, .init(quality: .nan)).count > 0)
        }

        @Test("an animation comes back with its frames, durations and loop count", arguments: [0, 1, 7])
        func animation(loops: Int) throws {
            let frames = try decoder.allFrames(of: Pictures.data("webp/moving.webp"))
            let data = try encoder.encode(frames, loopCount: loops, lossless)
            let again = try decoder.allFrames(of: data)
            #expect(again.map(\.image.pixels) == frames.map(\.image.pixels))
            #expect(again.map(\.duration) == frames.map(\.duration))
            #expect(try decoder.decode(data, .init()).animation?.loopCount == loops)
        }

        @Test("what WebP cannot hold is refused")
        func refused() throws {
            expectError(.unencodable) { _ = try encoder.encode([], loopCount: 0, .init()) }
            let image = try #require(Image(size: size, premultiplied: Ramp.pixels(40, 30)))
            let one = AnimationFrame(image: image, duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one], loopCount: 70_000, .init()) }
            let dot = try #require(Image(size: PixelSize(width: 1, height: 1), premultiplied: [0, 0, 0, 0]))
            let other = AnimationFrame(image: dot, duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one, other], loopCount: 0, .init()) }
            let long = AnimationFrame(image: image, duration: .seconds(10_000_000))
            expectError(.unencodable) { _ = try encoder.encode([long, one], loopCount: 0, .init()) }
            let wide = try #require(
                Image(size: PixelSize(width: 16384, height: 1), premultiplied: [UInt8](repeating: 0, count: 16384 * 4)))
            expectError(.unencodable) { _ = try encoder.encode(wide, .init()) }
        }
    }
#endif
