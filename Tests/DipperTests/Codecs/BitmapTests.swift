import TestSupport
import Testing

@Suite("Bitmaps and icons", .timeLimit(.minutes(2))) struct BitmapTests {
    private typealias Bytes = HeaderBytes

    private func decode(_ bytes: [UInt8], _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        try CodecRegistry.standard.decode(Data(bytes), options)
    }

    private func failure(_ bytes: [UInt8], _ options: DecodeOptions = .init()) -> DipperError? {
        CodecRegistry.standard.failure(Data(bytes), options)
    }

    /// Two rows of one pixel each, of 32 bits.
    private static let pixels: [UInt8] = [10, 20, 30, 255, 40, 50, 60, 255]

    // MARK: Icons

    @Test(
        "of an icon in several sizes the smallest is decoded that need not be enlarged, or else the largest",
        arguments: [
            (nil, 256, 0xFFFF00), (16, 16, 0xFF0000), (9, 9, 0xFF0000), (17, 17, 0x00FF00), (32, 32, 0x00FF00),
            (33, 33, 0x0000FF), (48, 48, 0x0000FF), (50, 50, 0xFFFF00), (300, 256, 0xFFFF00),
        ] as [(Int?, Int, Int)])
    func sizes(_ wanted: Int?, _ side: Int, _ color: Int) throws {
        let target = wanted.map { TargetSize(width: $0, height: $0) }
        let image = try decode(Array(Pictures.data("ico/sizes.ico")), DecodeOptions(target: target))
        #expect(image.size == PixelSize(width: side, height: side) && image.animation == nil)
        #expect(image.pixels == Image.filled(with: Color(hex: UInt32(color)), side, side).pixels)
    }

    @Test("an icon covers a target, is stretched to one, and is enlarged if that is asked for")
    func modes() throws {
        let data = try Array(Pictures.data("ico/sizes.ico"))
        for target in [
            TargetSize(width: 300, height: 20, .stretch, allowsUpscaling: true), .init(width: 40, height: 9, .fill),
            .init(width: 500, height: 500, .fit, allowsUpscaling: true),
        ] {
            let image = try decode(data, DecodeOptions(target: target))
            #expect(image.size == target.size(for: PixelSize(width: 256, height: 256)))
            #expect(image.isOpaque)
        }
    }

    @Test("the directory of an icon says which size the picture has, whatever the icon itself says")
    func otherSize() throws {
        let bitmap = Bytes.bitmap(1, 4, bits: 32) + Self.pixels
        let small = try Array(Pictures.data("png/rgb8.png"))
        for icon in [bitmap, small] {
            let image = try decode(Bytes.ico([(20, 10, icon)]))
            #expect(image.size == PixelSize(width: 20, height: 10) && image.isOpaque)
        }
    }

    @Test("a moving PNG in an icon stands still")
    func moving() throws {
        let image = try decode(Bytes.ico([(40, 30, Array(Pictures.data("apng/keep-over.png")))]))
        #expect(image.size == PixelSize(width: 40, height: 30) && image.animation == nil)
    }

    @Test("a hostile directory is an error, as is an icon of another format, an icon in an icon, or one cut off")
    func hostileIcons() throws {
        let bitmap = Bytes.bitmap(1, 4, bits: 32) + Self.pixels
        let whole = Bytes.ico([(1, 2, bitmap)])
        #expect(failure(whole) == nil)
        #expect(failure([0, 0, 1, 0, 0, 0] + whole.dropFirst(6)) == .unsupportedFormat)
        var files = [
            Bytes.ico([(1, 2, [])]), Bytes.ico([(1, 2, whole)]), Array(whole.dropLast()),
            Bytes.ico([(16, 16, try Array(Pictures.data("jpeg/420.jpg")))]),
            Bytes.ico([(1, 2, Bytes.bmp(bitmap))]),
            // A directory that is longer than the file.
            [0, 0, 1, 0, 0xFF, 0xFF] + [1, 2, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0] + Bytes.little32(1 << 24),
            // Heights without a mask, and without pixels.
            Bytes.ico([(1, 2, Bytes.bitmap(1, 1, bits: 32) + Self.pixels)]),
            Bytes.ico([(1, 2, Bytes.bitmap(-1, 4, bits: 32) + Self.pixels)]),
            Bytes.ico([(1, 2, Bytes.bitmap(4, 4, bits: 8, coding: 1, colors: 1) + [0, 0, 0, 0, 4, 0, 0, 1])]),
            Bytes.ico([(1, 2, Bytes.bitmap(1, 4, bits: 24, colors: -1) + Self.pixels)]),
        ]
        // Icons outside the file, and in the directory.
        for start in [0, 6, 21, whole.count, 0x7FFF_FFFF, 0xFFFF_FFFF] {
            var file = Bytes.ico([(1, 2, bitmap), (1, 1, bitmap)])
            file.replaceSubrange(18..<22, with: Bytes.little32(start))
            // The first entry tells the format.
            files.append(Array(file[0..<6] + file[22..<38] + file[6..<22] + file[38...]))
        }
        for (index, file) in files.enumerated() { #expect(failure(file) == .undecodable, "\(index)") }
    }

    @Test("a huge picture in a small icon is refused by the limits, before memory is taken for it")
    func bombs() throws {
        let png = PNGFile(try Pictures.data("png/rgb8.png")).claiming(width: 50_000, height: 50_000)
        for icon in [Array(png), Bytes.bitmap(50_000, 100_000, bits: 1, colors: 2) + Array(repeating: 0, count: 99)] {
            #expect(failure(Bytes.ico([(16, 16, icon)])) == .imageTooLarge)
        }
    }

    // MARK: Bitmaps

    @Test(
        "codings that are not supported are an error that says so",
        arguments: [(4, 0), (5, 0), (2, 8), (1, 4), (3, 24), (3, 8), (0, 3), (0, 0), (0, 64), (9, 32)])
    func codings(_ coding: Int, _ bits: Int) throws {
        let error = failure(Bytes.bmp(Bytes.bitmap(1, 2, bits: bits, coding: coding, colors: 1) + Self.pixels))
        #expect(error == .undecodable && error?.detail?.contains("not supported") == true)
    }

    @Test("only bitmaps with a mask for it, or with gaps between their runs, may be transparent by their header")
    func alpha() throws {
        for (name, hasAlpha) in [
            ("rgb32", false), ("palette8", false), ("masks565", false), ("alpha-v3", true), ("alpha-v4", true),
            ("runs4", true),
        ] {
            #expect(try ImageInfo(Pictures.data("bmp/\(name).bmp")).hasAlpha == hasAlpha, "\(name)")
        }
    }

    @Test("where a part is allowed the rows that came are there, which are the lower ones, and the rest is transparent")
    func partial() throws {
        let file = Bytes.bmp(Bytes.bitmap(1, 2, bits: 32) + Self.pixels)
        for count in 0...8 {
            let cut = Array(file.dropLast(8 - count))
            #expect((failure(cut) == nil) == (count == 8))
            guard count >= 4 else {
                #expect(failure(cut, .partial) == .undecodable)
                continue
            }
            let image = try decode(cut, .partial)
            #expect(image.pixels == (count == 8 ? [60, 50, 40, 255] : [0, 0, 0, 0]) + [30, 20, 10, 255])
            #expect(image.isOpaque == (count == 8))
        }
    }

    @Test("runs end at the borders of the picture, and need no mark of the end behind its last pixel")
    func runs() throws {
        let palette: [UInt8] = [0, 0, 0, 0, 3, 2, 1, 0]
        func file(_ code: [UInt8]) -> [UInt8] {
            Bytes.bmp(Bytes.bitmap(2, 2, bits: 8, coding: 1, colors: 2) + palette + code)
        }
        let (clear, one): ([UInt8], [UInt8]) = ([0, 0, 0, 0], [1, 2, 3, 255])
        for (code, upper, lower) in [
            ([255, 1, 0, 0, 9, 1, 9, 1], one + one, one + one),
            ([0, 2, 1, 1, 1, 1, 0, 1], clear + one, clear + clear),
            ([0, 2, 255, 0, 1, 1, 0, 2, 0, 1, 1, 1, 0, 1], clear + clear, clear + clear),
            ([0, 3, 1, 1, 1, 0, 0, 2, 0, 255, 9, 1], clear + clear, one + one),
            ([0, 0, 0, 0, 0, 0, 5, 1], clear + clear, clear + clear),
        ] as [([UInt8], [UInt8], [UInt8])] {
            #expect(try decode(file(code)).pixels == upper + lower, "\(code)")
        }
        for code in [[], [1], [0, 0], [2, 1], [2, 1, 0, 0, 1, 1], [0, 2, 1], [0, 5, 1, 1]] as [[UInt8]] {
            #expect(failure(file(code)) == .undecodable, "\(code)")
        }
    }

    @Test("runs that leave the picture at its right edge without end are given up when nobody waits any more")
    func endlessRuns() throws {
        let code = Array(repeating: [255, 0] as [UInt8], count: 1 << 20).flatMap(\.self)
        let file = Bytes.bmp(Bytes.bitmap(1, 1, bits: 8, coding: 1, colors: 1) + [0, 0, 0, 0] + code)
        let asked = Box(0)
        var options = DecodeOptions()
        options.isCancelled = {
            asked.update { $0 += 1 }
            return asked.value > 3
        }
        #expect(failure(file, options) == .cancelled)
        #expect(failure(file + [0, 1]) == nil)
    }

    @Test("a profile that is too long to be read takes no memory")
    func longProfile() throws {
        func file(_ length: Int) throws -> Data {
            var header = Bytes.bitmap(1, 1, bits: 24)
            header.replaceSubrange(0..<4, with: Bytes.little32(124))
            header += Array(repeating: 0, count: 84)
            header.replaceSubrange(56..<60, with: Array("DEBM".utf8))
            header.replaceSubrange(112..<120, with: Bytes.little32(128) + Bytes.little32(length))
            return Data(Bytes.bmp(header + [1, 2, 3, 0] + Array(repeating: 0, count: length)))
        }
        let least = try CodecRegistry.standard.decoder(for: file(0)).memory(of: file(0), .init())
        for (length, memory) in [(100, 100), (8 << 20, 8 << 20), ((8 << 20) + 1, 0)] {
            let file = try file(length)
            let decoder = try CodecRegistry.standard.decoder(for: file)
            #expect(try decoder.memory(of: file, .init()) == least + memory)
            #expect(try decoder.decode(file, .init()).pixels == [3, 2, 1, 255])
        }
    }
}
