#if GIF
    import Dipper
    import Foundation
    import TestSupport
    import Testing

    @Suite("GIF", .timeLimit(.minutes(2)))
    struct GIFTests {
        private let decoder = GIFDecoder()

        @Test(
            "every frame looks as browsers show it",
            arguments: [
                ("still", 1), ("interlaced", 1), ("transparent", 1), ("keep", 4), ("clear", 4), ("restore", 4),
                ("mixed", 6), ("restore-first", 2), ("small-first", 2), ("outside", 5), ("no-screen", 2),
            ])
        func frames(name: String, count: Int) throws {
            let data = try Pictures.data("gif/\(name).gif")
            let frames = try decoder.allFrames(of: data)
            try #require(frames.count == count)
            for (index, frame) in frames.enumerated() {
                let golden = try Golden("gif/\(name).\(index).rgba")
                #expect(try Difference(frame.image, golden).largest == 0, "frame \(index)")
            }
            let image = try decoder.decode(data, .init())
            #expect(image.pixels == frames[0].image.pixels)
            #expect(image.animation?.frameCount ?? 1 == count)
            // A picture whose every pixel is drawn is opaque.
            let pixels = image.pixels
            let alphas = stride(from: 3, to: pixels.count, by: 4)
            #expect(image.isOpaque == alphas.allSatisfy { pixels[$0] == 255 })
        }

        @Test("delays and loop counts are those of the file")
        func times() throws {
            let data = try Pictures.data("gif/keep.gif")
            let frames = try decoder.allFrames(of: data)
            #expect(frames.map(\.duration) == [50, 100, 0, 2500].map { .milliseconds($0) })
            func loops(_ name: String) throws -> Int? {
                try decoder.decode(Pictures.data("gif/\(name).gif"), .init()).animation?.loopCount
            }
            #expect(try loops("keep") == 0)
            // Three times again, as browsers do it.
            #expect(try loops("clear") == 4)
            #expect(try loops("restore") == 1)
            #expect(try loops("still") == nil)
        }

        @Test("frames that are complete are shown when the file ends too early")
        func truncated() throws {
            let data = try Pictures.data("gif/keep.gif")
            let frames = try decoder.allFrames(of: data.prefix(data.count - 100))
            #expect(frames.count == 3)
            expectError(.undecodable) { _ = try decoder.decode(data.prefix(900), .init()) }
        }

        @Test("the part that is there of a first frame is shown where that is asked for")
        func partial() throws {
            let data = try Pictures.data("gif/still.gif")
            var options = DecodeOptions()
            options.allowsPartial = true
            let image = try decoder.decode(data.prefix(data.count * 3 / 4), options)
            let golden = try Golden("gif/still.0.rgba").premultiplied
            #expect(image.pixels.prefix(10 * 160) == golden.prefix(10 * 160))
            #expect(image[39, 29] == SIMD4(0, 0, 0, 0))
            #expect(!image.isOpaque)
        }

        @Test("damaged files give errors of ours, and nothing worse")
        func damaged() throws {
            decoder.survivesDamage(to: try Pictures.data("gif/tiny.gif"))
        }

        @Test("a hundred thousand frames are refused, but the first can be had")
        func manyFrames() throws {
            let data = TinyGIF(width: 1, height: 1).data(frames: 100_000)
            expectError(.imageTooLarge) { _ = try decoder.decode(data, .init()) }
            var options = DecodeOptions()
            options.firstFrameOnly = true
            #expect(try decoder.decode(data, options).size == PixelSize(width: 1, height: 1))
            options = DecodeOptions()
            options.limits.frames = 100_000
            #expect(try decoder.decode(data, options).animation?.frameCount == 100_000)
        }

        @Test("what a header announces is refused before memory is taken")
        func huge() throws {
            expectError(.imageTooLarge) {
                _ = try decoder.decode(TinyGIF(width: 65535, height: 65535).data(frames: 1), .init())
            }
            // A small screen with a frame that is larger than any screen may be.
            let frame = TinyGIF(width: 1, height: 1, frameWidth: 65535, frameHeight: 65535)
            expectError(.imageTooLarge) { _ = try decoder.decode(frame.data(frames: 1), .init()) }
        }

        @Test(
            "frames of no size draw nothing; one whose pixels end early is shown without the rest, and so the next ones"
        )
        func shortFrames() throws {
            let empty = try decoder.allFrames(
                of: TinyGIF(width: 3, height: 2, frameWidth: 0, frameHeight: 0).data(frames: 2))
            #expect(empty.count == 2 && empty[0].image.pixels == [UInt8](repeating: 0, count: 24))
            let frames = try decoder.allFrames(of: TinyGIF(width: 2, height: 4, pixels: 5).data(frames: 3))
            let pixels = (0..<4).flatMap { _ in [0, 0, 0, 255] as [UInt8] } + [UInt8](repeating: 0, count: 16)
            #expect(frames.count == 3 && frames.allSatisfy { $0.image.pixels == pixels })
        }

        @Test("decoding ends when it is cancelled, in the middle of a frame too")
        func cancelled() throws {
            let data = try Pictures.data("gif/keep.gif")
            expectError(.cancelled) { _ = try decoder.decode(data, .cancelled(after: 0)) }
            expectError(.cancelled) { _ = try decoder.decode(data, .cancelled(after: 1)) }
            let tall = TinyGIF(width: 1, height: 3000).data(frames: 1)
            expectError(.cancelled) { _ = try decoder.decode(tall, .cancelled(after: 3)) }
        }

        // MARK: Writing

        private let encoder = GIFEncoder()

        private func image(_ width: Int, _ height: Int, _ pixels: [UInt8]) throws -> Image {
            try #require(Image(size: PixelSize(width: width, height: height), premultiplied: pixels))
        }

        private func photo() throws -> Image { try image(40, 30, TestPicture.waves(40, 30).pixels) }

        @Test("few colours are written exactly", arguments: ["still", "transparent", "mixed"])
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

        @Test("white stays white among many colours, and what is all transparent can be written")
        func white() throws {
            var pixels = TestPicture.waves(40, 30).pixels
            for index in 0..<40 * 15 * 4 { pixels[index] = 255 }
            let white = try image(40, 30, pixels)
            #expect(try decoder.decode(encoder.encode(white, .init()), .init())[20, 3] == SIMD4(255, 255, 255, 255))
            let clear = try image(3, 2, [UInt8](repeating: 0, count: 24))
            #expect(try decoder.decode(encoder.encode(clear, .init()), .init()).pixels == clear.pixels)
        }

        @Test("alpha becomes all or nothing, at one half")
        func alpha() throws {
            let pixels: [UInt8] = [50, 60, 70, 127, 50, 60, 70, 128, 0, 0, 0, 0, 9, 9, 9, 255]
            let again = try decoder.decode(encoder.encode(image(4, 1, pixels), .init()), .init())
            #expect(again.pixels == [0, 0, 0, 0, 100, 120, 139, 255, 0, 0, 0, 0, 9, 9, 9, 255])
        }

        @Test("an animation is written with its frames, delays and loop count", arguments: [0, 1, 2, 7, 65_536])
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
            let other = AnimationFrame(image: try image(1, 1, [0, 0, 0, 0]), duration: .milliseconds(100))
            expectError(.unencodable) { _ = try encoder.encode([one, other], loopCount: 0, .init()) }
            let wide = try image(65_536, 1, [UInt8](repeating: 0, count: 65_536 * 4))
            expectError(.unencodable) { _ = try encoder.encode(wide, .init()) }
        }
    }

    /// A GIF file of identical frames, which may contain fewer pixels than their size requires.
    struct TinyGIF {
        var width: Int
        var height: Int
        var frameWidth: Int?
        var frameHeight: Int?
        /// The number of pixels that each frame has codes for; by default all, but at most 4000.
        var pixels: Int?

        func data(frames: Int) -> Data {
            func word(_ value: Int) -> [UInt8] { [UInt8(value & 0xFF), UInt8(value >> 8)] }
            var data = Data("GIF89a".utf8)
            data += word(width) + word(height) + [0x80, 0, 0, 0, 0, 0, 255, 255, 255]
            let pixels = pixels ?? min(4000, (frameWidth ?? width) * (frameHeight ?? height))
            let frame = [0x2C, 0, 0, 0, 0] + word(frameWidth ?? width) + word(frameHeight ?? height) + [0, 2]
            let blocks = Self.codes(pixels)
            for _ in 0..<frames { data += frame + blocks }
            return data + [0x3B]
        }

        /// Returns the codes for `pixels` pixels of the first colour. Clear codes keep the code size at three bits.
        private static func codes(_ pixels: Int) -> [UInt8] {
            var bits = [UInt8]()
            func put(_ code: UInt8) { bits += (0..<3).map { code >> $0 & 1 } }
            for pixel in 0..<pixels {
                if pixel % 2 == 0 { put(4) }
                put(0)
            }
            put(5)
            bits += Array(repeating: 0, count: (8 - bits.count % 8) % 8)
            let bytes = stride(from: 0, to: bits.count, by: 8).map { start in
                (0..<8).reduce(UInt8(0)) { $0 | bits[start + $1] << $1 }
            }
            var blocks = [UInt8]()
            for start in stride(from: 0, to: bytes.count, by: 255) {
                let block = bytes[start..<min(bytes.count, start + 255)]
                blocks += [UInt8(block.count)] + block
            }
            return blocks + [0]
        }
    }
#endif
