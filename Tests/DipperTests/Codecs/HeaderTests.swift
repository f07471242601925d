import Dipper
import Foundation
import Testing

/// The header of a test picture as Pillow reads it.
struct ExpectedHeader: Decodable, CustomTestStringConvertible {
    let name: String
    let width, height, turn, frameCount: Int
    /// The loop count; `nil` if Pillow does not report one.
    let loopCount: Int?
    let hasAlpha, isProgressive, hasColorProfile: Bool

    var size: PixelSize { PixelSize(width: width, height: height) }
    var orientation: Image.Orientation? { Image.Orientation(rawValue: turn) }
    var testDescription: String { name }
    var fileExtension: String { String(name.split(separator: ".").last ?? "") }

    static let all =
        (try? JSONDecoder().decode([ExpectedHeader].self, from: Pictures.data("headers/expected.json"))) ?? []

    func data() throws -> Data { try Pictures.data("headers/\(name)") }
}

@Suite("Headers made byte by byte, and of whole files without decoding", .timeLimit(.minutes(2))) struct HeaderTests {
    private typealias Bytes = HeaderBytes

    /// A header, and the size that it announces; `nil` where it is broken.
    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        let size: PixelSize?

        init(_ rule: String, _ bytes: [UInt8], _ width: Int = 0, _ height: Int = 0) {
            (testDescription, self.bytes) = (rule, bytes)
            size = width == 0 ? nil : PixelSize(width: width, height: height)
        }
    }

    private func info(_ bytes: [UInt8]) throws(DipperError) -> ImageInfo { try ImageInfo(Data(bytes)) }

    private static let extent = Bytes.extent(30, 20)
    private static func exif(_ orientation: Int) -> [UInt8] { Bytes.directory([(0x112, 3, 1, orientation)]) }
    private static func start(_ brand: String, _ other: String = "mif1") -> [UInt8] {
        Bytes.box("ftyp", Array("\(brand)\0\0\0\0\(other)".utf8))
    }

    static let cases: [Case] = png + gif + webP + tiffAndIcons + apertures + boxes

    private static let png =
        [0x8000_0000, 0xFFFF_FFFF].map {
            Case("PNG: a length of 2^31 and more", Bytes.pngHeader(3, 2) + Bytes.chunk("tEXt", [1], length: $0))
        } + [Case("PNG: another chunk first", Bytes.pngSignature + Bytes.chunk("CgBI", [1, 2, 3, 4]))]

    private static let gif = [
        Case("GIF: a screen without pixels holds the first frame", Bytes.gif(0, 0, Bytes.gifFrame), 1, 1),
        Case("GIF: a screen without pixels, and no frame", Bytes.gif(0, 5, [0x3B])),
        Case("GIF: a screen without pixels, and half a frame", Bytes.gif(0, 0, [0x2C, 0, 0])),
    ]

    private static let webP: [Case] = {
        let canvas = Bytes.riff("VP8X", [0x0A, 0, 0, 0, 29, 0, 0, 19, 0, 0])
        let tag = Bytes.riff("EXIF", exif(6))
        let frames = [0xFFFF_FFFF, 0xFFFF_FFFE, 0x7FFF_FFFF].map { Bytes.riff("ANMF", [], length: $0) }
        return frames.map { Case("WebP: a false length ends the reading", Bytes.webP(canvas + $0 + tag), 30, 20) } + [
            Case("WebP: a tag past the end", Bytes.webP(canvas + tag, length: canvas.count + 4), 30, 20),
            Case("WebP: no known chunk", Bytes.webP(Bytes.riff("ABCD", [1, 2, 3, 4]))),
            Case("WebP: no key frame", Bytes.webP(Bytes.riff("VP8 ", [1, 0, 0, 0x9D, 1, 0x2A, 9, 0, 9, 0]))),
        ]
    }()

    private static let tiffAndIcons: [Case] = {
        let sized = [(256, 4, 1, 30), (257, 3, 1, 20)]
        func icon(_ sides: [UInt8]) -> [UInt8] {
            [0, 0, 1, 0, 3, 0] + sides.flatMap { [$0, $0, 0, 0, 1, 0, 32, 0, 9, 0, 0, 0] + Bytes.little32(1000) }
        }
        return [
            Case("TIFF: turned", Bytes.directory(sized + [(274, 3, 1, 5)]), 20, 30),
            Case("TIFF: no height", Bytes.directory([(256, 4, 1, 30)])),
            Case("TIFF: a directory outside", Bytes.directory(sized, offset: 0xFFFF_FFFF)),
            Case("Icon: the largest counts, and 0 is 256", icon([16, 0, 48]), 256, 256),
            Case("Icon: fewer entries than announced", icon([16])),
        ]
    }()

    /// Width, height and offsets of the centre, as fractions; only an aperture of whole pixels inside counts.
    private static let apertures = [
        ([40, 2, 10, 1, 0, 1, 0, 1], 20, 10), ([20, 1, 9, 1, -10, 2, 1, 2], 20, 9),
        ([20, 1, 10, 1, 6, 1, 0, 1], 30, 20), ([20, 1, 9, 1, 0, 1, 0, 1], 30, 20),
        ([20, 0, 10, 1, 0, 1, 0, 1], 30, 20), ([-20, 1, 10, 1, 0, 1, 0, 1], 30, 20),
        ([0x7FFF_FFFF, 1, 10, 1, 0x7FFF_FFFF, 1, -0x8000_0000, 1], 30, 20),
    ].map { numbers, width, height in
        let aperture = Bytes.box("clap", numbers.flatMap(Bytes.big32))
        return Case("HEIF: a clean aperture", Bytes.heif(properties: [extent, aperture]), width, height)
    }

    private static let boxes: [Case] = {
        let properties = [Bytes.extent(8, 9), extent, Bytes.box("irot", [1])]
        let meta = Array(Bytes.heif(properties: [extent]).dropFirst(20))
        let (type, content) = (meta[4..<8], meta.dropFirst(8))
        let long = Bytes.big32(1) + type + Bytes.big32(0) + Bytes.big32(meta.count + 8) + content
        let huge = Bytes.big32(1) + Array("free".utf8) + Bytes.big32(0xFFFF_FFFF) + Bytes.big32(0xFFFF_FFFF)
        let associations = Bytes.fullBox("ipma", Bytes.big32(0xFFFF_FFFF) + [0, 1, 1, 1])
        let counted = Bytes.box("iprp", Bytes.box("ipco", extent) + associations)
        let item = Bytes.fullBox("meta", Bytes.fullBox("pitx", [0, 1]))
        return [
            Case("HEIF: the primary item's properties count", Bytes.heif(properties: properties, own: [2]), 30, 20),
            Case("HEIF: no size among them", Bytes.heif(properties: properties, own: [3, 0, 99])),
            // Boxes inside one without an end go on until there are no more bytes.
            Case("Boxes: a length of 0", start("avif") + Bytes.big32(0) + type + content),
            Case("Boxes: a long length", start("avif") + long, 30, 20),
            Case("Boxes: a length past all bytes", start("avif") + huge + meta),
            Case(
                "Boxes: longer than the one around",
                Bytes.heif(properties: [extent, Bytes.box("irot", [1], length: 4000)])),
            Case(
                "HEIF: more entries than there are",
                start("avif") + Bytes.fullBox("meta", Bytes.fullBox("pitm", [0, 1]) + counted)),
            Case("HEIF: a sequence with neither item nor film", start("avis") + item),
            Case("HEIF: a still picture without its item", start("avif") + item + movie("pict")),
            Case("HEIF: a sequence without its item", start("avis") + item + movie("pict"), 30, 20),
            Case("Film: the first track", start("isom", "mp42") + Bytes.box("mdat", [1, 2]) + movie("vide"), 30, 20),
        ]
            + (2...7).map {
                let short = Bytes.box("free", [0, 0, 0, 0], length: $0)
                return Case("Boxes: a length of \($0)", start("avif") + short + meta)
            }
    }()

    @Test("give a size where it is sure, else they are broken", arguments: cases)
    func sizes(_ test: Case) throws {
        if let size = test.size {
            #expect(try info(test.bytes).size == size)
        } else {
            #expect(throws: DipperError.undecodable) { try info(test.bytes) }
        }
    }

    @Test("JPEG: what is no segment is stepped over, and the first Exif counts")
    func jpeg() throws {
        let exif = [6, 3].map { Bytes.segment(0xE1, Array("Exif\0\0".utf8) + Self.exif($0)) }
        let segments: [[UInt8]] =
            [
                [0xFF, 0xFF, 0xFF], Bytes.segment(0xFE, [0xFF, 0xC0, 0, 9]), [0, 1, 2],
                Bytes.segment(0xE0, [], length: 0), Bytes.segment(0xE0, [], length: 1),
                Bytes.segment(0xE1, Array("http://ns.adobe.com/xap/1.0/\0".utf8)),
            ] + exif + [Bytes.segment(0xC4, [1, 2, 3, 4, 5, 6, 7])]
        let turned = try info(Bytes.jpeg(30, 20, segments, frame: 0xC2))
        #expect(turned.size == PixelSize(width: 20, height: 30) && turned.orientation == .right)
        #expect(turned.isProgressive && turned.bitDepth == 8)
    }

    @Test("an Exif that points outside, loops, or has no meaning is none")
    func brokenExif() throws {
        let tag = Self.exif(6)
        // More entries announced than there are.
        let past = tag[..<8] + [0xFF, 0xFF] + tag[10...]
        let entries = [
            (0x112, 3, 1, 0), (0x112, 3, 1, 9), (0x112, 3, 0, 6), (0x112, 5, 1, 6), (0x112, 3, 0xFFFF_FFFF, 6),
        ]
        let broken =
            entries.map { Bytes.directory([$0]) }
            + [0xFFFF_FFFF, 0x7FFF_FFF0, 0].map { Bytes.directory([(0x112, 3, 1, 6)], offset: $0) }
            + [Array(past), Array(tag.prefix(11)), Array("II*\0".utf8), []]
        for content in broken {
            let segment = Bytes.segment(0xE1, Array("Exif\0\0".utf8) + content)
            #expect(try info(Bytes.jpeg(30, 20, [segment])).orientation == .up, "\(content)")
        }
    }

    @Test("PNG: transparency and orientation count where they come before the pixels")
    func transparency() throws {
        let (header, pixels) = (Bytes.pngHeader(30, 20), Bytes.chunk("IDAT", [1, 2, 3]))
        let tag = Bytes.chunk("eXIf", Self.exif(8))
        let before = try info(header + tag + Bytes.chunk("tRNS", [0, 0]) + pixels)
        #expect(before.size == PixelSize(width: 20, height: 30))
        #expect(before.orientation == .left && before.hasAlpha)
        #expect(try info(header + pixels + tag).orientation == .up)
    }

    @Test("GIF: frames are counted up to what is no block, and loops told by either extension")
    func loops() throws {
        func loop(_ name: String, _ block: [UInt8]) -> [UInt8] { [0x21, 0xFF, 11] + Array(name.utf8) + block + [0] }
        let frame = Bytes.gifFrame
        let cases: [(blocks: [UInt8], frames: Int, loops: Int)] = [
            (frame + frame + [0x3B], 2, 1), (frame + [0x77] + frame, 1, 1), ([], 1, 1),
            (loop("NETSCAPE2.0", [3, 1, 0, 0]) + frame, 1, 0), (loop("ANIMEXTS1.0", [3, 1, 2, 1]) + frame, 1, 259),
            (loop("NETSCAPE2.0", [1, 1]) + frame, 1, 1), (loop("XMP DataXMP", [3, 1, 5, 0]) + frame, 1, 1),
            (loop("NETSCAPE2.0", [3, 2, 9, 0]) + frame, 1, 1),
        ]
        for test in cases {
            let info = try info(Bytes.gif(1, 1, test.blocks))
            #expect(info.frameCount == test.frames && info.loopCount == test.loops, "\(test)")
        }
    }

    @Test("WebP: orientation and loops count behind a broken frame")
    func brokenFrame() throws {
        let chunks = [
            ("VP8X", [0x0A, 0, 0, 0, 29, 0, 0, 19, 0, 0]), ("ANMF", [0, 0]), ("ANIM", [0, 0, 0, 0, 7, 0]),
            ("EXIF", Self.exif(6)),
        ]
        let turned = try info(Bytes.webP(chunks.flatMap { Bytes.riff($0.0, $0.1) }))
        #expect(turned.size == PixelSize(width: 20, height: 30))
        #expect(turned.frameCount == 1 && turned.loopCount == 7)
    }

    @Test("of BigTIFF, and of films that are only heard, no size is known; a film without a header is incomplete")
    func unknown() throws {
        #expect(try info(Array("II+\0\u{8}\0\0\0".utf8)).size == nil)
        let start = Self.start("isom", "mp42") + Bytes.box("mdat", [1, 2, 3])
        #expect(try info(start + Self.movie("soun")).size == nil)
        #expect {
            try info(start)
        } throws: {
            ($0 as? DipperError).map(ImageInfo.isHeaderIncomplete) ?? false
        }
    }

    @Test("the turn of the primary item, and of a film's matrix, is the orientation")
    func turned() throws {
        let item = try info(Bytes.heif(properties: [Self.extent, Bytes.box("irot", [1])], own: [1, 0x82]))
        #expect(item.size == PixelSize(width: 20, height: 30) && item.orientation == .left)
        let film = try info(Self.start("isom", "mp42") + Self.movie("vide", matrix: [0, 1, -1, 0]))
        #expect(film.size == PixelSize(width: 20, height: 30) && film.orientation == .right)
    }

    @Test("the depth is that of the pixels, else that of the coding")
    func depth() throws {
        let coding = Bytes.box("av1C", [0x81, 0, 0x60, 0])
        let pixels = Bytes.fullBox("pixi", [3, 10, 10, 10])
        #expect(try info(Bytes.heif(properties: [Self.extent, coding])).bitDepth == 12)
        #expect(try info(Bytes.heif(properties: [Self.extent, coding, pixels])).bitDepth == 10)
    }

    @Test(
        "a sequence without an item has its track's size, frames and loops",
        arguments: [
            (6, nil, 0), (6, (0, 6), 1), (6, (1, 6), 1), (12, (1, 6), 2), (13, (1, 6), 3), (0xFFFF_FFFF, (1, 6), 0),
            (6, (1, 0), 0),
        ] as [(Int, (Int, Int)?, Int)])
    func sequence(duration: Int, edit: (Int, Int)?, loops: Int) throws {
        let info = try info(Self.start("avis", "avif") + Self.movie("pict", duration: duration, edit: edit))
        #expect(info.size == PixelSize(width: 30, height: 20))
        #expect(info.frameCount == 5 && info.loopCount == loops)
    }

    private static func movie(
        _ handler: String, matrix: [Int] = [1, 0, 0, 1], duration: Int = 6, edit: (flags: Int, duration: Int)? = nil
    ) -> [UInt8] {
        func numbers(_ values: Int...) -> [UInt8] { values.flatMap(Bytes.big32) }
        let turn = matrix.map { $0 << 16 }
        let header = Bytes.fullBox(
            "tkhd",
            numbers(0, 0, 1, 0, duration, 0, 0, 0, 0)
                + numbers(turn[0], turn[1], 0, turn[2], turn[3], 0, 0, 0, 1 << 30, 30 << 16, 20 << 16))
        let table = Bytes.box("minf", Bytes.box("stbl", Bytes.fullBox("stsz", numbers(0, 5))))
        let media = Bytes.box("mdia", Bytes.fullBox("hdlr", numbers(0) + Array(handler.utf8)) + table)
        let edits = edit.map {
            Bytes.box("edts", Bytes.fullBox("elst", flags: $0.flags, numbers(1, $0.duration, 0, 1 << 16)))
        }
        return Bytes.box("moov", Bytes.box("trak", header + (edits ?? []) + media))
    }

    @Test("JPEG XL: size by ratio, orientation, depth and transparency, also in a container")
    func jpegXL() throws {
        // Height in eights, 16:9; all fields, turned, nothing more; 10 bits; one further channel, as usual. Each field is
        // a value and its count of bits, lowest bit first.
        let fields = [
            (1, 1), (8, 5), (5, 3), (0, 1), (1, 1), (5, 3), (0, 3), (0, 1), (1, 2), (1, 1), (1, 2), (1, 1),
        ]
        let bits = fields.flatMap { value, count in (0..<count).map { UInt8(value >> $0 & 1) } }
        let bytes = stride(from: 0, to: bits.count, by: 8).map { start in
            bits[start..<min(bits.count, start + 8)].reversed().reduce(0) { $0 << 1 | $1 }
        }
        let header = [0xFF, 0x0A] + bytes
        let bare = try info(header)
        #expect(bare.size == PixelSize(width: 72, height: 128) && bare.orientation == .right)
        #expect(bare.bitDepth == 10 && bare.hasAlpha)
        let start = Bytes.box("JXL ", [0x0D, 0x0A, 0x87, 0x0A]) + Self.start("jxl ", "jxl ")
        #expect(try info(start + Bytes.box("jxlp", [0, 0, 0, 0] + header)) == bare)
    }

    // MARK: Headers of whole files

    @Test("size, frames, transparency and the rest are those Pillow reads", arguments: ExpectedHeader.all)
    func fields(_ expected: ExpectedHeader) throws {
        #expect(ExpectedHeader.all.count > 60)
        let info = try ImageInfo(expected.data())
        #expect(info.size == expected.size && info.orientation == expected.orientation)
        #expect(info.format.fileExtension == expected.fileExtension)
        #expect(info.hasAlpha == expected.hasAlpha && info.isProgressive == expected.isProgressive)
        // Pillow makes a profile for JPEG XL where the file has none.
        if info.format != .jpegXL { #expect(info.hasColorProfile == expected.hasColorProfile) }
        #expect(info.frameCount == expected.frameCount)
        // Pillow does not tell the loops of AVIF; written without an edit list that says otherwise they are endless.
        if expected.name.hasSuffix("avif") {
            #expect(info.loopCount == (expected.frameCount > 1 ? 0 : 1))
        } else if expected.name.hasSuffix("gif"), let repetitions = expected.loopCount, repetitions > 0 {
            // What the file tells, and Pillow with it, is how often frames are shown again.
            #expect(info.loopCount == repetitions + 1)
        } else {
            #expect(info.loopCount == expected.loopCount ?? 1)
        }
    }

    @Test(
        "bits are those of a colour",
        arguments: [
            ("mode-1.png", 1), ("mode-P.png", 8), ("mode-I16.png", 16), ("mode-RGBA.png", 8), ("mode-1.tiff", 1),
            ("mode-CMYK.tiff", 8), ("highest-first.tiff", 16), ("turned1.jpg", 8), ("still.gif", 8),
            ("lossy.webp", 8), ("turned1.avif", 8), ("plain.heic", 8), ("plain.jxl", 8), ("mode-RGB.bmp", 8),
        ])
    func bits(_ name: String, _ bits: Int) throws {
        #expect(try ImageInfo(Pictures.data("headers/\(name)")).bitDepth == bits)
    }

    @Test("a file's beginning gives the same size as all of it, or is incomplete", arguments: ExpectedHeader.all)
    func beginnings(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let whole = try ImageInfo(data)
        // WebP keeps the orientation after the pixels.
        let isLate = whole.format == .webp && whole.orientation != .up
        var isKnown = false
        for length in 32...data.count {
            do throws(DipperError) {
                let info = try ImageInfo(data.prefix(length))
                isKnown = true
                #expect(isLate || (info.size == whole.size && info.orientation == whole.orientation))
            } catch {
                #expect(ImageInfo.isHeaderIncomplete(error), "\(length) bytes: \(error)")
                #expect(!isKnown, "\(length) bytes: what was known is not")
            }
        }
    }

    @Test("a slice of other bytes is read from its own start")
    func slices() throws {
        let data = try Pictures.data("headers/turned6.jpg")
        let slice = (Data(repeating: 7, count: 13) + data).dropFirst(13)
        #expect(slice.startIndex == 13)
        #expect(try ImageInfo(slice) == ImageInfo(data))
        #expect(ImageFormat(sniffing: slice) == .jpeg)
    }
}
