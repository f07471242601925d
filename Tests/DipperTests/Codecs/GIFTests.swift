#if GIF
    import Dipper
    import Foundation
    import TestSupport
    import Testing

    @Suite("GIF", .timeLimit(.minutes(2)))
    struct GIFTests {
        private let decoder = GIFDecoder()

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

        @Test("decoding ends when it is cancelled in the middle of a frame")
        func cancelled() throws {
            let tall = TinyGIF(width: 1, height: 3000).data(frames: 1)
            expectError(.cancelled) { _ = try decoder.decode(tall, .cancelled(after: 3)) }
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
