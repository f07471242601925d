import TestSupport
import Testing

@Suite("Pictures that are written", .timeLimit(.minutes(2))) struct EncodingTests {
    private static let codecs = CodecRegistry.standard

    private func roundTrip(
        _ image: Image, _ format: ImageFormat, _ options: EncodeOptions = .init()
    ) throws -> (data: Data, image: Image) {
        let data = try Self.codecs.encode(image, as: format, options)
        return (data, try Self.codecs.decode(data))
    }

    @Test(
        "without loss come back as they were, with alpha only where there is some",
        arguments: [(ImageFormat.png, 1, 1), (.png, 45, 31), (.png, 300, 7), (.webp, 40, 30), (.avif, 40, 30)]
            .filter { codecs.writable.contains($0.0) }, [true, false])
    func withoutLoss(_ file: (format: ImageFormat, width: Int, height: Int), isOpaque: Bool) throws {
        let image = try TestPicture.waves(file.width, file.height, opaque: isOpaque).image()
        let (data, again) = try roundTrip(image, file.format, .lossless)
        // libwebp multiplies colours by alpha in a way of its own.
        let tolerance = file.format == .webp && !isOpaque ? 1 : 0
        #expect(Difference(again.pixels, image.pixels).largest <= tolerance)
        #expect(again.isOpaque == image.isOpaque)
        guard file.format == .png else { return }
        let chunks = PNGFile(data).chunks
        // Colour type: 2 without alpha, 6 with.
        #expect(chunks[0].body[9] == (image.isOpaque ? 2 : 6))
        #expect(chunks.contains { $0.kind == "sRGB" } && chunks.last?.kind == "IEND")
    }

    @Test("as PNG have every colour with every alpha exactly")
    func allPairs() throws {
        let pixels = (0..<65_536).flatMap { index -> [UInt8] in
            let alpha = UInt8(index / 256)
            return [min(UInt8(index % 256), alpha), 0, alpha, alpha]
        }
        let picture = TestPicture(size: PixelSize(width: 256, height: 256), pixels: pixels)
        let isSame = try roundTrip(picture.image(), .png).image.pixels == pixels
        #expect(isSame)
    }

    @Test(
        "are nearer and larger with a higher quality",
        arguments: [(ImageFormat.jpeg, 0.5), (.webp, 3.3), (.avif, 1)].filter { codecs.writable.contains($0.0) })
    func quality(_ format: ImageFormat, _ best: Double) throws {
        let image = try Self.codecs.decode(Pictures.data("jpeg/444.jpg"))
        var last = (error: Double.infinity, count: 0)
        for quality in [0, 0.3, 0.6, 0.89, 0.9, 1] {
            let (data, result) = try roundTrip(image, format, EncodeOptions(quality: quality))
            let error = Difference(result.pixels, image.pixels).mean
            #expect(error < last.error && data.count > last.count, "\(quality): \(error)")
            last = (error, data.count)
            guard format == .jpeg else { continue }
            let frame = try #require(JPEGFile(data).header.first { $0[1] == 0xC0 })
            #expect(frame[11] == (quality < 0.9 ? 0x22 : 0x11), "halved colours below 0.9")
        }
        #expect(last.error < best)
        func encoded(_ quality: Double) throws -> Data {
            try roundTrip(image, format, EncodeOptions(quality: quality)).data
        }
        #expect(try encoded(-3) == encoded(0) && encoded(7) == encoded(1))
        #expect(try encoded(.nan) == encoded(EncodeOptions().quality))
    }

    @Test("as JPEG have the background where they are transparent")
    func background() throws {
        let columns: [[UInt8]] = [[0, 0, 0, 0], [128, 0, 0, 128], [0, 0, 255, 255], [10, 10, 10, 20]]
        let picture = TestPicture(
            size: PixelSize(width: 32, height: 20), pixels: (0..<32 * 20).flatMap { columns[$0 % 32 / 8] })
        var options = EncodeOptions(quality: 1)
        options.background = Color(hex: 0x00c864)
        let result = try roundTrip(picture.image(), .jpeg, options).image
        #expect(result.isOpaque)
        for (x, color) in [(4, [0, 200, 100]), (12, [128, 100, 50]), (20, [0, 0, 255]), (28, [10, 194, 102])] {
            #expect((0..<3).allSatisfy { abs(Int(result[x, 10][$0]) - color[$0]) <= 3 }, "\(x)")
        }
    }

    @Test(
        "with too large a side, without frames, or with what the format cannot hold are refused",
        arguments: [(ImageFormat.png, Int.max), (.jpeg, 65_500), (.gif, 65_535), (.webp, 16_383), (.avif, 65_536)]
            .filter { codecs.writable.contains($0.0) })
    func refused(_ format: ImageFormat, _ longest: Int) throws {
        let encoder = try Self.codecs.encoder(for: format)
        if longest < .max {
            #expect(try roundTrip(.filled(with: .white, longest, 1), format).image.width == longest)
            for (width, height) in [(longest + 1, 1), (1, longest + 1)] {
                let image = Image.filled(with: .white, width, height)
                #expect(throws: DipperError.unencodable) { try encoder.encode(image, .init()) }
            }
        }
        let picture = try TestPicture.waves(40, 30).image()
        let one = AnimationFrame(image: picture, duration: .milliseconds(100))
        let other = AnimationFrame(image: .filled(with: .clear, 1, 1), duration: .milliseconds(100))
        let long = AnimationFrame(image: picture, duration: .seconds(10_000_000))
        var refused: [([AnimationFrame], Int)] = [
            ([], 0), ([one, other], 0), ([one], format == .png ? 1 << 31 : 70_000),
        ]
        if format != .gif { refused.append(([long, one], 0)) }
        if format == .jpeg || format == .avif { refused.append(([one], 0)) }
        for (frames, loops) in refused {
            #expect(throws: DipperError.unencodable) { try encoder.encode(frames, loopCount: loops, .init()) }
        }
    }

    @Test(
        "have the frames, durations and loop count of the animation",
        arguments: [
            ("gif/clear.gif", [0, 1, 2, 7, 65_536]), ("webp/moving.webp", [0, 1, 7]),
            ("apng/clear-over-soft.png", [0, 1, 2_147_483_647]), ("apng/no-alpha.png", [3]), ("apng/apart.png", [2]),
            ("apng/restore-first.png", [2]),
        ].filter { Pictures.isReadable($0.0) } as [(String, [Int])])
    func animation(_ path: String, _ loopCounts: [Int]) throws {
        let original = try Pictures.data(path)
        let decoder = try Self.codecs.decoder(for: original)
        let frames = try decoder.allFrames(of: original)
        for loops in loopCounts {
            let encoder = try Self.codecs.encoder(for: decoder.format)
            let data = try encoder.encode(frames, loopCount: loops, .lossless)
            let again = try decoder.allFrames(of: data)
            #expect(again.map(\.image.pixels) == frames.map(\.image.pixels))
            #expect(again.map(\.duration) == frames.map(\.duration))
            #expect(try decoder.decode(data, .init()).animation?.loopCount == loops)
        }
    }

    #if GIF
        @Test("as GIF have few colours exactly", arguments: ["still", "transparent", "mixed"])
        func exact(name: String) throws {
            let image = try Self.codecs.decode(Pictures.data("gif/\(name).gif"))
            let again = try roundTrip(image, .gif).image
            #expect(again.pixels == image.pixels)
            #expect(again.isOpaque == image.isOpaque)
            #expect(again.animation?.frameCount == image.animation?.frameCount)
        }

        @Test("as GIF have many colours nearly, and white among them exactly")
        func reduced() throws {
            let image = try TestPicture.waves(40, 30).image()
            let again = try roundTrip(image, .gif).image
            #expect(Difference(again.pixels, image.pixels).mean < 6)
            #expect(again.isOpaque)
            var white = TestPicture.waves(40, 30)
            white.pixels.replaceSubrange(0..<40 * 15 * 4, with: repeatElement(255, count: 40 * 15 * 4))
            #expect(try roundTrip(white.image(), .gif).image[20, 3] == SIMD4(255, 255, 255, 255))
        }

        @Test("as GIF are transparent below an alpha of one half, and opaque above")
        func alpha() throws {
            let pixels: [UInt8] = [50, 60, 70, 127, 50, 60, 70, 128, 0, 0, 0, 0, 9, 9, 9, 255]
            let picture = TestPicture(size: PixelSize(width: 4, height: 1), pixels: pixels)
            let again = try roundTrip(picture.image(), .gif).image
            #expect(again.pixels == [0, 0, 0, 0, 100, 120, 139, 255, 0, 0, 0, 0, 9, 9, 9, 255])
            let clear = Image.filled(with: .clear, 3, 2)
            #expect(try roundTrip(clear, .gif).image.pixels == clear.pixels)
        }
    #endif
}
