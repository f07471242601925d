import TestSupport

#if GIF
    import Dipper
    import Foundation
    import Testing

    @Suite("Writing GIF", .timeLimit(.minutes(5)))
    struct GIFEncoderTests {
        private let encoder = GIFEncoder()
        private let decoder = GIFDecoder()

        private func photo() throws -> Image {
            try #require(Image(size: PixelSize(width: 40, height: 30), premultiplied: Ramp.pixels(40, 30)))
        }

        @Test("few colours come back exactly", arguments: ["still", "transparent", "mixed"])
        func exact(name: String) throws {
            let image = try decoder.decode(Pictures.data("gif/\(name).gif"), .init())
            let again = try decoder.decode(encoder.encode(image, .init()), .init())
            #expect(again.pixels == image.pixels)
            #expect(again.isOpaque == image.isOpaque)
            #expect(again.animation == nil)
        }

        @Test("many colours come back near to what they were")
        func reduced() throws {
            let image = try photo()
            let again = try decoder.decode(encoder.encode(image, .init()), .init())
            let difference = Difference(again.pixels, image.pixels)
            #expect(difference.mean < 6, "\(difference)")
            #expect(again.isOpaque)
        }

        @Test("several threads write what one would")
        func threads() async throws {
            let images = try (0..<4).map { index in
                var pixels = Ramp.pixels(200, 150)
                for start in stride(from: index % 3, to: pixels.count, by: 4) {
                    pixels[start] = UInt8(truncatingIfNeeded: start * 31)
                }
                for start in stride(from: 3, to: pixels.count, by: 4) { pixels[start] = 255 }
                return try #require(Image(size: PixelSize(width: 200, height: 150), premultiplied: pixels))
            }
            let expected = try images.map { try encoder.encode($0, .init()) }
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<64 {
                    group.addTask { try encoder.encode(images[number % 4], .init()) == expected[number % 4] }
                }
                for try await isSame in group { #expect(isSame) }
            }
        }

        @Test("white stays white among many colours")
        func white() throws {
            var pixels = Ramp.pixels(40, 30)
            for index in 0..<40 * 15 * 4 { pixels[index] = 255 }
            let image = try #require(Image(size: PixelSize(width: 40, height: 30), premultiplied: pixels))
            let again = try decoder.decode(encoder.encode(image, .init()), .init())
            #expect(again[20, 3] == SIMD4(255, 255, 255, 255))
        }

        @Test("alpha becomes all or nothing, at one half")
        func alpha() throws {
            let pixels: [UInt8] = [50, 60, 70, 127, 50, 60, 70, 128, 0, 0, 0, 0, 9, 9, 9, 255]
            let image = try #require(Image(size: PixelSize(width: 4, height: 1), premultiplied: pixels))
            let again = try decoder.decode(encoder.encode(image, .init()), .init())
            #expect(again.pixels == [0, 0, 0, 0, 100, 120, 139, 255, 0, 0, 0, 0, 9, 9, 9, 255])
        }

        @Test("pixels that are all transparent can be written")
        func allTransparent() throws {
            let image = try #require(
                Image(size: PixelSize(width: 3, height: 2), premultiplied: [UInt8](repeating: 0, count: 24)))
            #expect(try decoder.decode(encoder.encode(image, .init()), .init()).pixels == image.pixels)
        }

        @Test("an animation comes back with its frames, delays and loop count", arguments: [0, 1, 2, 7, 65_536])
        func animation(loops: Int) throws {
            let frames = try decoder.allFrames(of: Pictures.data("gif/clear.gif"))
            let data = try encoder.encode(frames, loopCount: loops, .init())
            let again = try decoder.allFrames(of: data)
            #expect(again.map(\.image.pixels) == frames.map(\.image.pixels))
            #expect(again.map(\.duration) == frames.map(\.duration))
            #expect(try decoder.decode(data, .init()).animation?.loopCount == loops)
        }

        @Test("what GIF cannot hold is refused")
        func refused() throws {
            expectError(.unencodable) { _ = try encoder.encode([], loopCount: 0, .init()) }
            let one = try AnimationFrame(image: photo(), duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one], loopCount: 70_000, .init()) }
            let image = try #require(Image(size: PixelSize(width: 1, height: 1), premultiplied: [0, 0, 0, 0]))
            let other = AnimationFrame(image: image, duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one, other], loopCount: 0, .init()) }
            let wide = try #require(
                Image(size: PixelSize(width: 65536, height: 1), premultiplied: [UInt8](repeating: 0, count: 65536 * 4)))
            expectError(.unencodable) { _ = try encoder.encode(wide, .init()) }
        }
    }
#endif
