#if WebP
    import Dipper
    import Foundation
    import TestSupport
    import Testing

    @Suite("WebP", .timeLimit(.minutes(2)))
    struct WebPTests {
        private let decoder = WebPDecoder()

        @Test(
            "pictures look as Pillow decodes them",
            arguments: [
                ("lossy", 0), ("lossless", 0), ("alpha-lossy", 1), ("alpha-lossless", 1), ("profile", 3),
                ("turned", 0), ("turned-alpha", 1),
            ])
        func stills(name: String, tolerance: Int) throws {
            let data = try Pictures.data("webp/\(name).webp")
            let image = try decoder.decode(data, .init())
            let difference = try Difference(image, Golden("webp/\(name).rgba"))
            #expect(difference.largest <= tolerance, "\(difference)")
            #expect(image.isOpaque == !name.contains("alpha"))
            #expect(image.animation == nil)
            #expect(try decoder.frames(of: data, .init()) == nil)
        }

        @Test("a lossless picture whose header denies its transparency is not opaque")
        func deniedAlpha() throws {
            var data = try encoder.encode(image(2, 1, [9, 9, 9, 255, 5, 6, 7, 100]), lossless)
            // `VP8L`, its length, a byte that is always the same; then sizes of 14 bits each, and the hint.
            let chunk = try #require(data.firstRange(of: Data("VP8L".utf8)))
            data[chunk.lowerBound + 12] &= ~0x10
            let flags = data.firstRange(of: Data("VP8X".utf8)).map { $0.lowerBound + 8 }
            if let flags { data[flags] &= ~0x10 }
            let image = try decoder.decode(data, .init())
            #expect(image[1, 0].w == 100)
            #expect(!image.isOpaque)
        }

        @Test("every frame of an animation looks as Pillow decodes it", arguments: [("moving", 0), ("floating", 1)])
        func frames(name: String, tolerance: Int) throws {
            let data = try Pictures.data("webp/\(name).webp")
            let frames = try decoder.allFrames(of: data)
            try #require(frames.count == 3)
            for (index, frame) in frames.enumerated() {
                let difference = try Difference(frame.image, Golden("webp/\(name).\(index).rgba"))
                #expect(difference.largest <= tolerance, "frame \(index): \(difference)")
            }
            #expect(try decoder.decode(data, .init()).pixels == frames[0].image.pixels)
        }

        @Test("durations and loop counts are those of the file")
        func times() throws {
            let moving = try Pictures.data("webp/moving.webp")
            #expect(try decoder.allFrames(of: moving).map(\.duration) == [50, 100, 250].map { .milliseconds($0) })
            #expect(try decoder.decode(moving, .init()).animation?.loopCount == 3)
            let floating = try Pictures.data("webp/floating.webp")
            #expect(try decoder.allFrames(of: floating).map(\.duration) == [40, 0, 90].map { .milliseconds($0) })
            #expect(try decoder.decode(floating, .init()).animation?.loopCount == 0)
        }

        @Test("a picture is made smaller or larger, as it is displayed")
        func sizes() throws {
            for name in ["lossy", "lossless"] {
                let target = TargetSize(PixelSize(width: 21, height: 16), .stretch)
                let image = try decoder.decode(Pictures.data("webp/\(name).webp"), .init(target: target))
                #expect(image.size == target.size)
                // Areas are averaged, which is softer than the filter of Resize.
                let whole = try decoder.decode(Pictures.data("webp/\(name).webp"), .init())
                let resized = try ImageProcessors.Resize(to: target).process(whole, .init())
                #expect(Difference(image.pixels, resized.pixels).mean < 6)
            }
            let turned = try Pictures.data("webp/turned.webp")
            let target = TargetSize(PixelSize(width: 1000, height: 21))
            #expect(try decoder.decode(turned, .init(target: target)).size == PixelSize(width: 16, height: 21))
            let larger = TargetSize(PixelSize(width: 126, height: 94), .stretch, allowsUpscaling: true)
            #expect(try decoder.decode(Pictures.data("webp/lossy.webp"), .init(target: larger)).size == larger.size)
        }

        @Test("a file that ends too early is an error, or a part of the picture where that is asked for")
        func truncated() throws {
            let data = try Pictures.data("webp/lossy.webp")
            let part = data.prefix(data.count * 3 / 4)
            expectError(.undecodable) { _ = try decoder.decode(part, .init()) }
            var options = DecodeOptions()
            options.allowsPartial = true
            let image = try decoder.decode(part, options)
            let golden = try Golden("webp/lossy.rgba").premultiplied
            #expect(Difference(Array(image.pixels.prefix(4 * 252)), Array(golden.prefix(4 * 252))).largest == 0)
            #expect(image[62, 46] == SIMD4(0, 0, 0, 0))
            #expect(!image.isOpaque)
        }

        @Test("complete frames of an animation are shown when the file ends too early")
        func truncatedAnimation() throws {
            let data = try Pictures.data("webp/moving.webp")
            #expect(try decoder.allFrames(of: data.prefix(data.count - 20)).count == 2)
        }

        @Test(
            "damaged files give errors of ours, and nothing worse", arguments: ["tiny", "tiny-lossless", "tiny-moving"])
        func damaged(name: String) throws {
            decoder.survivesDamage(to: try Pictures.data("webp/\(name).webp"))
        }

        @Test("what a header announces is refused before memory is taken")
        func huge() throws {
            // 16383 pixels each way: lossless, one bit after the other in the header.
            var lossless = try Pictures.data("webp/tiny-lossless.webp")
            lossless.replaceSubrange(21..<25, with: [0xFE, 0xBF, 0xFF, 0x1F])
            #expect(try decoder.info(of: lossless).size?.width == 16383)
            expectError(.imageTooLarge) { _ = try decoder.decode(lossless, .init()) }
            var options = DecodeOptions()
            options.limits.pixels = 1000
            expectError(.imageTooLarge) { _ = try decoder.decode(Pictures.data("webp/lossy.webp"), options) }
            options = DecodeOptions()
            options.limits.frames = 2
            expectError(.imageTooLarge) { _ = try decoder.decode(Pictures.data("webp/moving.webp"), options) }
            options.firstFrameOnly = true
            #expect(try decoder.decode(Pictures.data("webp/moving.webp"), options).animation == nil)
        }

        @Test("decoding ends when it is cancelled")
        func cancelled() throws {
            for name in ["lossy", "lossless", "moving"] {
                let data = try Pictures.data("webp/\(name).webp")
                for count in 0..<2 {
                    expectError(.cancelled) { _ = try decoder.decode(data, .cancelled(after: count)) }
                }
            }
        }

        @Test(
            "an animation whose canvas has another size than its frames say gives an error or a picture",
            arguments: [24, 27], [1, 255] as [UInt8])
        func otherCanvas(offset: Int, change: UInt8) throws {
            // The canvas's width or height, of three bytes each, less one.
            var other = try Pictures.data("webp/moving.webp")
            other[offset] &+= change
            decoder.survives(other)
        }

        // MARK: Writing

        private let encoder = WebPEncoder()
        private var lossless: EncodeOptions {
            var options = EncodeOptions()
            options.isLossless = true
            return options
        }

        private func image(_ width: Int, _ height: Int, _ pixels: [UInt8]) throws -> Image {
            try #require(Image(size: PixelSize(width: width, height: height), premultiplied: pixels))
        }

        @Test(
            "a picture written without loss comes back as it was, with alpha within one step", arguments: [true, false])
        func withoutLoss(isOpaque: Bool) throws {
            let image = try image(40, 30, TestPicture.waves(40, 30, opaque: isOpaque).pixels)
            let again = try decoder.decode(encoder.encode(image, lossless), .init())
            #expect(Difference(again.pixels, image.pixels).largest <= (isOpaque ? 0 : 1))
            #expect(again.isOpaque == isOpaque)
        }

        @Test("quality costs bytes, and brings the picture nearer")
        func quality() throws {
            let image = try image(40, 30, TestPicture.waves(40, 30).pixels)
            let high = try encoder.encode(image, .init(quality: 0.95))
            let low = try encoder.encode(image, .init(quality: 0.1))
            #expect(low.count < high.count)
            let near = Difference(try decoder.decode(high, .init()).pixels, image.pixels)
            let far = Difference(try decoder.decode(low, .init()).pixels, image.pixels)
            #expect(near.mean < 3 && near.mean < far.mean, "\(near), \(far)")
            #expect(try encoder.encode(image, .init(quality: .nan)).count > 0)
        }

        @Test("an animation is written with its frames, durations and loop count", arguments: [0, 1, 7])
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
            let picture = try image(40, 30, TestPicture.waves(40, 30).pixels)
            let one = AnimationFrame(image: picture, duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one], loopCount: 70_000, .init()) }
            let other = AnimationFrame(image: try image(1, 1, [0, 0, 0, 0]), duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one, other], loopCount: 0, .init()) }
            let long = AnimationFrame(image: picture, duration: .seconds(10_000_000))
            expectError(.unencodable) { _ = try encoder.encode([long, one], loopCount: 0, .init()) }
            let wide = try image(16_384, 1, [UInt8](repeating: 0, count: 16_384 * 4))
            expectError(.unencodable) { _ = try encoder.encode(wide, .init()) }
        }
    }
#endif
