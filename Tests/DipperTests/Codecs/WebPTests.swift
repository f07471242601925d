import TestSupport

#if WebP
    import Dipper
    import Foundation
    import Testing

    @Suite("WebP", .timeLimit(.minutes(5)))
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
            let picture = try #require(
                Image(size: PixelSize(width: 2, height: 1), premultiplied: [9, 9, 9, 255, 5, 6, 7, 100]))
            var options = EncodeOptions()
            options.isLossless = true
            var data = try WebPEncoder().encode(picture, options)
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

        @Test(
            "a smaller picture is what the whole one gives when areas are averaged", arguments: ["lossy", "lossless"])
        func smaller(name: String) throws {
            let data = try Pictures.data("webp/\(name).webp")
            let size = PixelSize(width: 21, height: 16)
            let image = try decoder.decode(data, .init(target: TargetSize(size, .stretch)))
            #expect(image.size == size)
            let averaged = try Golden("webp/\(name).rgba").averaged(to: size)
            let difference = Difference(image.pixels, averaged)
            #expect(difference.mean < 3, "\(difference)")
        }

        @Test("a turned picture is fitted as it is displayed")
        func smallerTurned() throws {
            let data = try Pictures.data("webp/turned.webp")
            let target = TargetSize(PixelSize(width: 1000, height: 21))
            #expect(try decoder.decode(data, .init(target: target)).size == PixelSize(width: 16, height: 21))
        }

        @Test("a larger picture is made where that is asked for")
        func larger() throws {
            let target = TargetSize(PixelSize(width: 126, height: 94), .stretch, allowsUpscaling: true)
            let image = try decoder.decode(Pictures.data("webp/lossy.webp"), .init(target: target))
            #expect(image.size == target.size)
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
    }

    extension Golden {
        /// Returns a smaller picture whose pixels are the means of the pixels that they cover.
        func averaged(to smaller: PixelSize) -> [UInt8] {
            let source = premultiplied
            func weights(_ index: Int, _ from: Int, _ to: Int) -> [(Int, Double)] {
                let scale = Double(from) / Double(to)
                let (start, end) = (Double(index) * scale, Double(index + 1) * scale)
                return (Int(start)..<min(from, Int(end.rounded(.up)))).map {
                    ($0, (min(end, Double($0 + 1)) - max(start, Double($0))) / scale)
                }
            }
            return (0..<smaller.height).flatMap { y in
                (0..<smaller.width).flatMap { x in
                    (0..<4).map { channel in
                        var sum = 0.0
                        for (row, high) in weights(y, size.height, smaller.height) {
                            for (column, wide) in weights(x, size.width, smaller.width) {
                                sum += high * wide * Double(source[(row * size.width + column) * 4 + channel])
                            }
                        }
                        return UInt8(min(255, sum.rounded()))
                    }
                }
            }
        }
    }
#endif
