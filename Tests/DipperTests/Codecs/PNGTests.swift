import TestSupport
import Testing

@Suite("PNG is read and written as the standard says, and broken PNG is refused", .timeLimit(.minutes(2)))
struct PNGTests {
    private func decode(_ data: Data, _ options: DecodeOptions = .init()) throws -> Image {
        try CodecRegistry.standard.decode(data, options)
    }

    @Test("An interlaced picture that ends early is coarse")
    func coarse() throws {
        let data = try Pictures.data("png/rgb8-interlaced.png")
        let whole = try decode(data)
        // All but the last passes.
        let image = try decode(data.prefix(data.count / 3), .partial)
        #expect(image.isOpaque)
        let difference = Difference(image.pixels, whole.pixels)
        #expect(difference.largest > 0 && difference.mean < 12, "\(difference)")
        let start = try #require((60..<400).lazy.compactMap { try? decode(data.prefix($0), .partial) }.first)
        #expect(!start.isOpaque)
        #expect(start[0, 0] == whole[0, 0] && start[0, start.height - 1] == SIMD4(0, 0, 0, 0))
    }

    /// The values expected are by the definitions of H.273, of light brighter than white clipped.
    @Test(
        "Coded colours are converted to sRGB",
        arguments: [
            ("Display P3", [12, 13, 0, 1], [180, 120, 90], [190, 117, 84]),
            ("BT.2020", [9, 14, 0, 1], [150, 120, 100], [176, 128, 110]),
            ("linear", [1, 8, 0, 1], [180, 60, 10], [219, 133, 56]),
            ("PQ", [9, 16, 0, 1], [120, 100, 90], [182, 98, 82]),
            ("HLG", [9, 18, 0, 1], [160, 120, 100], [214, 118, 99]),
            ("sRGB", [1, 13, 0, 1], [180, 120, 90], [180, 120, 90]),
            // Of video range, with a matrix, and unknown ones.
            ("video", [12, 13, 0, 0], [180, 120, 90], [180, 120, 90]),
            ("matrix", [12, 13, 1, 1], [180, 120, 90], [180, 120, 90]),
            ("unknown", [12, 99, 0, 1], [180, 120, 90], [180, 120, 90]),
        ] as [(String, [UInt8], [UInt8], [Int])])
    func codedColors(_ name: String, _ codes: [UInt8], _ stored: [UInt8], _ expected: [Int]) throws {
        let size = PixelSize(width: 3, height: 2)
        var file = try PNGFile(size, straight: Array(repeating: stored + [255], count: 6).flatMap(\.self))
        file.chunks.insert(("cICP", codes), at: 1)
        // The chunks that count less say something else.
        if codes[2] == 0, codes[3] == 1, codes[1] != 99 {
            file.chunks.insert(("gAMA", HeaderBytes.big32(100_000)), at: 1)
            file.chunks.insert(("sRGB", [0]), at: 1)
        }
        let pixel = try decode(file.data)[1, 1]
        for (found, value) in zip([pixel.x, pixel.y, pixel.z], expected) {
            #expect(abs(Int(found) - value) <= 2, "\(pixel), not \(expected)")
        }
    }

    @Test("A profile counts before sRGB, and sRGB before gamma, in whatever order they come")
    func orderOfColors() throws {
        let profiled = PNGFile(try Pictures.data("png/icc-p3.png"))
        let place = try #require(profiled.chunks.firstIndex { $0.kind == "iCCP" })
        let expected = try decode(profiled.data).pixels
        for offset in [place, place + 1] {
            var file = profiled
            file.chunks.insert(("sRGB", [0]), at: offset)
            #expect(try decode(file.data).pixels == expected)
            file.chunks.insert(("cICP", [1, 13, 0, 1]), at: offset)
            #expect(try decode(file.data).pixels != expected)
        }
        var linear = PNGFile(try Pictures.data("png/gamma-linear.png"))
        let gamma = try #require(linear.chunks.firstIndex { $0.kind == "gAMA" })
        let bright = try decode(linear.data).pixels
        linear.chunks.insert(("sRGB", [0]), at: gamma + 1)
        #expect(try decode(linear.data).pixels != bright)
    }

    @Test("A wrong checksum in a chunk of the picture is an error; in one beside it is not")
    func checksums() throws {
        let data = try Pictures.data("png/gamma-linear.png")
        for kind in ["IHDR", "IDAT", "gAMA"] {
            let range = try #require(data.range(of: Data(kind.utf8)))
            let length = data[range.lowerBound - 4..<range.lowerBound].reduce(0) { $0 << 8 | Int($1) }
            var broken = data
            broken[range.upperBound + length] ^= 1
            if kind == "gAMA" {
                // Without it there is nothing to be done about colours.
                #expect(try decode(broken).pixels == Golden("png/rgb8.rgba").pixels)
            } else {
                #expect(throws: DipperError.undecodable) { _ = try decode(broken) }
            }
        }
    }

    @Test("Flipped bits are an error or a picture, never a crash", arguments: ["palette4-trns", "rgba16", "icc-p3"])
    func flipped(name: String) throws {
        let file = PNGFile(try Pictures.data("png/\(name).png"))
        var random = SeededRandom(3)
        var options = DecodeOptions.with { $0.limits.bytes = 4 << 20 }
        var pictures = 0
        for round in 0..<250 {
            var copy = file
            // Checksums are right, so that what is behind them is met.
            for _ in 0...round % 3 {
                let chunk = Int.random(in: 0..<copy.chunks.count, using: &random)
                guard let index = copy.chunks[chunk].body.indices.randomElement(using: &random) else { continue }
                copy.chunks[chunk].body[index] ^= UInt8(1 << (random.next() & 7))
            }
            options.allowsPartial = round % 2 == 0
            if reads(copy, options, .imageTooLarge) { pictures += 1 }
        }
        #expect(pictures > 0 && pictures < 250)
    }

    @Test("A size that cannot be, or of which the rows are not there, is an error", arguments: forms)
    func lyingHeader(_ name: String) throws {
        let file = PNGFile(try Pictures.data("png/\(name).png"))
        for target in [nil, TargetSize(width: 10, height: 10)] {
            for (width, height): (UInt32, UInt32) in [(0, 5), (5, 0), (1 << 31, 5), (5, .max), (3000, 300)] {
                #expect(throws: DipperError.undecodable) {
                    _ = try decode(file.claiming(width: width, height: height), DecodeOptions(target: target))
                }
            }
        }
    }

    @Test("Chunks beside the picture may be large, and their bombs are not unpacked")
    func chunks() throws {
        var file = PNGFile(try Pictures.data("png/rgb8.png"))
        let expected = try decode(file.data).pixels
        file.chunks.insert(("teSt", [UInt8](repeating: 7, count: 9 << 20)), at: 1)
        // Ten thousand texts, each of which would be kept.
        file.chunks.insert(
            contentsOf: repeatElement((kind: "tEXt", body: [65, 0, 66] as [UInt8]), count: 10_000), at: 1)
        #expect(try decode(file.data).pixels == expected)

        // A profile that says it is 256 MiB.
        var bomb = PNGFile(try Pictures.data("png/icc-p3.png"))
        let place = try #require(bomb.chunks.firstIndex { $0.kind == "iCCP" })
        var body: [UInt8] = [80, 0, 0, 0x78, 0x01, 0x01, 0x08, 0x00, 0xF7, 0xFF, 0x10, 0, 0, 0]
        body += [UInt8](repeating: 0, count: 4)
        bomb.chunks[place].body = body
        #expect(try decode(bomb.data).pixels == expected)
    }

    // MARK: Rows as long as the memory for them

    private static let forms = ["rgb8", "palette4-trns", "rgba16", "rgb8-interlaced", "gamma-linear", "icc-p3"]

    private func reads(_ file: PNGFile, _ options: DecodeOptions = .init(), _ other: DipperError? = nil) -> Bool {
        let error = CodecRegistry.standard.failure(file.data, options)
        #expect([nil, .undecodable, other].contains(error))
        return error == nil
    }

    /// Chunks that may change what libpng makes of a row, put before the pixels, in every kind of file.
    @Test("Transparency in odd places and lengths gives a picture or an error", arguments: forms)
    func transparency(_ name: String) throws {
        let file = PNGFile(try Pictures.data("png/\(name).png"))
        let pixels = try #require(file.chunks.firstIndex { $0.kind == "IDAT" })
        var pictures = 0
        for length in [0, 1, 2, 3, 6, 16, 255, 256, 257] {
            for place in [1, pixels, pixels + 1] {
                for count in 1...2 {
                    var copy = file
                    let chunk = (kind: "tRNS", body: [UInt8](repeating: 7, count: length))
                    copy.chunks.insert(contentsOf: repeatElement(chunk, count: count), at: place)
                    for options in [DecodeOptions(), DecodeOptions.partial] where reads(copy, options) { pictures += 1 }
                }
            }
        }
        #expect(pictures > 0)
    }

    @Test("A colour type that the header does not have is an error or a picture, interlaced or not", arguments: forms)
    func colorTypes(_ name: String) throws {
        var file = PNGFile(try Pictures.data("png/\(name).png"))
        for type: UInt8 in 0...7 {
            for depth: UInt8 in [1, 2, 4, 8, 16] {
                for interlace: UInt8 in 0...2 {
                    file.chunks[0].body.replaceSubrange(8..., with: [depth, type, 0, 0, interlace])
                    _ = reads(file)
                }
            }
        }
    }

    // MARK: Pixels

    @Test("Straight colours are multiplied by alpha, rounded to nearest, for all pairs", arguments: [256, 1])
    func premultiplies(width: Int) throws {
        var pixels: [UInt8] = []
        for alpha in 0...255 {
            for color in 0...255 { pixels += [UInt8(color), UInt8(255 - color), UInt8(color / 2), UInt8(alpha)] }
        }
        let file = try PNGFile(PixelSize(width: width, height: 65_536 / width), straight: pixels)
        let image = try decode(file.data)
        let expected = pixels.indices.map { index in
            let alpha = pixels[index | 3]
            return index % 4 == 3 ? alpha : UInt8((Double(pixels[index]) * Double(alpha) / 255).rounded())
        }
        let isSame = image.pixels == expected
        #expect(isSame && !image.isOpaque)
    }

    @Test(
        "Every orientation puts each pixel where it belongs, and a target counts as displayed",
        arguments: Image.Orientation.allCases, [(1, 1), (2, 3), (7, 5), (33, 31), (65, 67)])
    func orientations(_ orientation: Image.Orientation, _ size: (width: Int, height: Int)) throws {
        let (width, height) = size
        let picture = TestPicture.waves(width, height)
        var file = try PNGFile(picture.size, straight: picture.pixels)
        let tag = HeaderBytes.directory([(0x112, 3, 1, orientation.rawValue)])
        file.chunks.insert(("eXIf", tag), at: 1)
        let image = try decode(file.data)
        try #require(image.size == orientation.applied(to: picture.size))
        var expected: [UInt8] = []
        for y in 0..<image.height {
            for x in 0..<image.width {
                // Exif 2.32: where the stored row 0 and column 0 are seen.
                let (column, row) =
                    switch orientation {
                    case .up: (x, y)
                    case .upMirrored: (width - 1 - x, y)
                    case .down: (width - 1 - x, height - 1 - y)
                    case .downMirrored: (x, height - 1 - y)
                    case .leftMirrored: (y, x)
                    case .right: (y, height - 1 - x)
                    case .rightMirrored: (width - 1 - y, height - 1 - x)
                    case .left: (width - 1 - y, x)
                    }
                expected += picture.pixel(column, row)
            }
        }
        #expect(image.pixels == expected)
        let target = TargetSize(width: 20, height: 30, .stretch, allowsUpscaling: true)
        #expect(try decode(file.data, DecodeOptions(target: target)).size == target.size)
    }

    @Test("Nothing of an earlier picture shows in rows that did not come", arguments: Image.Orientation.allCases)
    func noLeak(orientation: Image.Orientation) throws {
        let pixels = [UInt8](repeating: 255, count: 280 * 240 * 4)
        var file = try PNGFile(PixelSize(width: 280, height: 240), straight: pixels)
        file.chunks.insert(("eXIf", HeaderBytes.directory([(0x112, 3, 1, orientation.rawValue)])), at: 1)
        let cut = file.data.prefix(file.data.count / 2)
        for target in [nil, PixelSize(width: 140, height: 140), PixelSize(width: 560, height: 560)] {
            var options = DecodeOptions(target: target.map { TargetSize($0, .stretch, allowsUpscaling: true) })
            // Leaves memory of the same size behind, full of white.
            for _ in 0..<2 { _ = try decode(file.data, options) }
            options.allowsPartial = true
            let image = try decode(cut, options)
            let rows = image.pixels
            let white = stride(from: 0, to: rows.count, by: 4).count { rows[$0 + 3] == 255 }
            let clear = stride(from: 0, to: rows.count, by: 4).count { rows[$0..<$0 + 4].allSatisfy { $0 == 0 } }
            // Beside the edge, resampling mixes the two.
            #expect(white > 0 && clear > 0 && white + clear >= rows.count / 4 * 9 / 10, "\(white), \(clear)")
        }
    }
}
