import Dipper
import Foundation
import Testing

@Suite("Boxes made byte by byte", .timeLimit(.minutes(2))) struct HeaderBoxTests {
    private func info(_ bytes: [UInt8]) throws(DipperError) -> ImageInfo { try ImageInfo(Data(bytes)) }
    private let extent = HeaderBytes.extent(30, 20)

    @Test("only the primary item's properties count")
    func own() throws {
        let properties = [HeaderBytes.extent(8, 9), extent, HeaderBytes.box("irot", [1])]
        #expect(try info(HeaderBytes.heif(properties: properties, own: [2])).size == PixelSize(width: 30, height: 20))
        let turned = try info(HeaderBytes.heif(properties: properties, own: [2, 0x83]))
        #expect(turned.size == PixelSize(width: 20, height: 30))
        #expect(turned.orientation == .left)
        #expect(throws: DipperError.undecodable) {
            try info(HeaderBytes.heif(properties: properties, own: [3, 0, 99]))
        }
    }

    @Test("a clean aperture of whole pixels inside the picture is what is shown")
    func aperture() throws {
        func size(_ width: (Int, Int), _ height: (Int, Int), _ x: (Int, Int), _ y: (Int, Int)) throws -> PixelSize? {
            let fractions = [width, height, x, y].flatMap { HeaderBytes.big32($0.0) + HeaderBytes.big32($0.1) }
            return try info(HeaderBytes.heif(properties: [extent, HeaderBytes.box("clap", fractions)])).size
        }
        let whole = PixelSize(width: 30, height: 20)
        #expect(try size((40, 2), (10, 1), (0, 1), (0, 1)) == PixelSize(width: 20, height: 10))
        #expect(try size((20, 1), (9, 1), (-10, 2), (1, 2)) == PixelSize(width: 20, height: 9))
        #expect(try size((20, 1), (10, 1), (6, 1), (0, 1)) == whole)
        #expect(try size((20, 1), (9, 1), (0, 1), (0, 1)) == whole)
        #expect(try size((20, 0), (10, 1), (0, 1), (0, 1)) == whole)
        #expect(try size((-20, 1), (10, 1), (0, 1), (0, 1)) == whole)
        #expect(try size((0x7FFF_FFFF, 1), (10, 1), (0x7FFF_FFFF, 1), (-0x8000_0000, 1)) == whole)
    }

    @Test("the depth is that of the pixels, else that of the coding")
    func depth() throws {
        let coding = HeaderBytes.box("av1C", [0x81, 0, 0x60, 0])
        let pixels = HeaderBytes.fullBox("pixi", [3, 10, 10, 10])
        #expect(try info(HeaderBytes.heif(properties: [extent, coding])).bitDepth == 12)
        #expect(try info(HeaderBytes.heif(properties: [extent, coding, pixels])).bitDepth == 10)
    }

    @Test("boxes of length 0 go to the end, of length 1 have a long one, and shorter ones are broken")
    func lengths() throws {
        let meta = Array(HeaderBytes.heif(properties: [extent]).dropFirst(20))
        let start = HeaderBytes.box("ftyp", Array("avif\0\0\0\0mif1".utf8))
        var open = meta
        open.replaceSubrange(0..<4, with: [0, 0, 0, 0])
        // Boxes inside one without an end go on until there are no more bytes.
        #expect(throws: DipperError.undecodable) { try info(start + open) }
        let long: [UInt8] =
            HeaderBytes.big32(1) + Array("meta".utf8) + HeaderBytes.big32(0) + HeaderBytes.big32(meta.count + 8)
            + meta.dropFirst(8)
        #expect(try info(start + long).size == PixelSize(width: 30, height: 20))
        let huge: [UInt8] = HeaderBytes.big32(1) + Array("free".utf8) + HeaderBytes.big32(0xFFFF_FFFF)
        #expect(throws: DipperError.undecodable) { try info(start + huge + HeaderBytes.big32(0xFFFF_FFFF) + meta) }
        for length in 2...7 {
            #expect(throws: DipperError.undecodable) {
                try info(start + HeaderBytes.box("free", [0, 0, 0, 0], length: length) + meta)
            }
        }
        #expect(throws: DipperError.undecodable) {
            try info(HeaderBytes.heif(properties: [extent, HeaderBytes.box("irot", [1], length: 4000)]))
        }
    }

    @Test("numbers of entries that are not there end at the box")
    func counts() {
        let associations = HeaderBytes.fullBox("ipma", HeaderBytes.big32(0xFFFF_FFFF) + [0, 1, 1, 1])
        let properties = HeaderBytes.box("iprp", HeaderBytes.box("ipco", extent) + associations)
        let meta = HeaderBytes.fullBox("meta", HeaderBytes.fullBox("pitm", [0, 1]) + properties)
        #expect(throws: DipperError.undecodable) {
            try info(HeaderBytes.box("ftyp", Array("avif\0\0\0\0mif1".utf8)) + meta)
        }
    }

    /// A film's header with one track.
    private func movie(
        _ handler: String, matrix: [Int] = [1, 0, 0, 1], duration: Int = 6, edit: (flags: Int, duration: Int)? = nil
    ) -> [UInt8] {
        let turn = matrix.map { HeaderBytes.big32($0 << 16) }
        let zero = HeaderBytes.big32(0)
        let places = turn[0] + turn[1] + zero + turn[2] + turn[3] + zero + zero + zero + HeaderBytes.big32(1 << 30)
        let times = zero + zero + HeaderBytes.big32(1) + zero + HeaderBytes.big32(duration)
        let header = HeaderBytes.fullBox(
            "tkhd",
            times + [UInt8](repeating: 0, count: 16) + places + HeaderBytes.big32(30 << 16)
                + HeaderBytes.big32(20 << 16))
        let sizes = HeaderBytes.fullBox("stsz", zero + HeaderBytes.big32(5))
        let media = HeaderBytes.box(
            "mdia",
            HeaderBytes.fullBox("hdlr", zero + Array(handler.utf8))
                + HeaderBytes.box("minf", HeaderBytes.box("stbl", sizes)))
        let edits = edit.map {
            let list = HeaderBytes.big32(1) + HeaderBytes.big32($0.duration) + zero + HeaderBytes.big32(1 << 16)
            return HeaderBytes.box("edts", HeaderBytes.fullBox("elst", flags: $0.flags, list))
        }
        return HeaderBytes.box("moov", HeaderBytes.box("trak", header + (edits ?? []) + media))
    }

    @Test("a film has its first track's size, turned as its matrix says")
    func film() throws {
        let start = HeaderBytes.box("ftyp", Array("isom\0\0\0\0mp42".utf8)) + HeaderBytes.box("mdat", [1, 2, 3])
        #expect(try info(start + movie("vide")).size == PixelSize(width: 30, height: 20))
        let turned = try info(start + movie("vide", matrix: [0, 1, -1, 0]))
        #expect(turned.size == PixelSize(width: 20, height: 30))
        #expect(turned.orientation == .right)
        #expect(try info(start + movie("soun")).size == nil)
        #expect {
            try info(start)
        } throws: {
            ($0 as? DipperError).map(ImageInfo.isHeaderIncomplete) ?? false
        }
    }

    @Test("a sequence without an item has its track's size, frames and loops")
    func sequence() throws {
        let start = HeaderBytes.box("ftyp", Array("avis\0\0\0\0avif".utf8))
        func loops(_ duration: Int, _ edit: (Int, Int)?) throws -> Int {
            let info = try info(start + movie("pict", duration: duration, edit: edit))
            #expect(info.size == PixelSize(width: 30, height: 20))
            #expect(info.frameCount == 5)
            return info.loopCount
        }
        #expect(try loops(6, nil) == 0)
        #expect(try loops(6, (0, 6)) == 1)
        #expect(try loops(6, (1, 6)) == 1)
        #expect(try loops(12, (1, 6)) == 2)
        #expect(try loops(13, (1, 6)) == 3)
        #expect(try loops(0xFFFF_FFFF, (1, 6)) == 0)
        #expect(try loops(6, (1, 0)) == 0)
    }

    @Test("a sequence does without its item, and a still picture does not")
    func brokenItem() throws {
        let movie = movie("pict")
        let meta = HeaderBytes.fullBox("meta", HeaderBytes.fullBox("pitx", [0, 1]))
        let start = { (brand: String) in HeaderBytes.box("ftyp", Array("\(brand)\0\0\0\0mif1".utf8)) }
        #expect(try info(start("avis") + meta + movie).frameCount == 5)
        #expect(throws: DipperError.undecodable) { try info(start("avif") + meta + movie) }
        #expect(throws: DipperError.undecodable) { try info(start("avis") + meta) }
    }

    /// Returns bytes with the bits of the fields, lowest bit first.
    private func bits(_ fields: [(value: Int, count: Int)]) -> [UInt8] {
        var bytes: [UInt8] = []
        var position = 0
        for field in fields {
            for index in 0..<field.count {
                if position % 8 == 0 { bytes.append(0) }
                bytes[position / 8] |= UInt8(field.value >> index & 1) << (position % 8)
                position += 1
            }
        }
        return bytes
    }

    @Test("JPEG XL: size by ratio, orientation, depth and transparency, also in a container")
    func jpegXL() throws {
        // Height in eights, 16:9; all fields, turned, nothing more; 10 bits; one further channel, as usual.
        let header =
            [0xFF, 0x0A]
            + bits([(1, 1), (8, 5), (5, 3), (0, 1), (1, 1), (5, 3), (0, 3), (0, 1), (1, 2), (1, 1), (1, 2), (1, 1)])
        let bare = try info(header)
        #expect(bare.size == PixelSize(width: 72, height: 128))
        #expect(bare.orientation == .right)
        #expect(bare.bitDepth == 10)
        #expect(bare.hasAlpha)
        let start =
            HeaderBytes.box("JXL ", [0x0D, 0x0A, 0x87, 0x0A]) + HeaderBytes.box("ftyp", Array("jxl \0\0\0\0jxl ".utf8))
        #expect(try info(start + HeaderBytes.box("jxlp", [0, 0, 0, 0] + header)) == bare)
    }
}
