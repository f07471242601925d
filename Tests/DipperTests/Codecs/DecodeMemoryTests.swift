import Foundation
import TestSupport
import Testing

@Suite("What a decode will take is known before it begins", .timeLimit(.minutes(2)))
struct DecodeMemoryTests {
    private static let codecs = CodecRegistry.standard

    private func memory(_ data: Data, _ options: DecodeOptions = .init()) throws -> Int {
        try Self.codecs.decoder(for: data).memory(of: data, options)
    }

    private func failure(_ data: Data, _ change: (inout DecodeLimits) -> Void) -> DipperError? {
        Self.codecs.failure(data, .with { change(&$0.limits) })
    }

    @Test(
        "Limits allow as many bytes as the decoder says that it needs",
        arguments: [
            "jpeg/420.jpg", "jpeg/progressive.jpg", "jpeg/scans.jpg", "png/rgb8.png", "png/rgb8-interlaced.png",
            "apng/keep-over.png", "apng/interlaced.png", "apng/linear-turned.png", "gif/still.gif", "gif/restore.gif",
            "webp/lossy.webp", "webp/moving.webp", "webp/tiny-lossless.webp",
            "avif/grey.avif", "avif/alpha.avif", "avif/grid.avif", "avif/moving.avif",
            "heic/grid.heic", "heic/ten-bits.heic", "jxl/lossy.jxl", "jxl/alpha.jxl", "jxl/moving.jxl",
            "svg/shapes.svg", "bmp/rgb24.bmp", "bmp/runs8.bmp", "ico/bits8.ico", "ico/sizes.ico",
        ].filter(Pictures.isReadable))
    func oneNumber(_ name: String) throws {
        let data = try Pictures.data(name)
        for isSmall in [false, true] {
            for preloads in [false, true] {
                var options = DecodeOptions(target: isSmall ? TargetSize(width: 7, height: 5) : nil)
                options.preloadsFrames = preloads
                let needed = try memory(data, options)
                options.preloadsFrames = false
                let least = try memory(data, options)
                #expect(least <= needed)
                options.limits.bytes = least
                #expect(Self.codecs.failure(data, options) == nil)
                options.limits.bytes = least - 1
                #expect(Self.codecs.failure(data, options) == .imageTooLarge)
            }
        }
    }

    @Test(
        "Each codec counts what it holds beside the result",
        arguments: [
            // The coefficients of 4:2:0 take three bytes a pixel, of 4:4:4 six, and of CMYK eight.
            ("jpeg/420.jpg", 4, 4), ("jpeg/progressive.jpg", 7, 9), ("jpeg/scans.jpg", 7, 11), ("png/rgb8.png", 4, 4),
            ("png/rgb8-interlaced.png", 8, 8), ("gif/still.gif", 13, 13), ("webp/moving.webp", 12, 16),
            ("webp/lossy.webp", 4, 6), ("webp/alpha-lossy.webp", 9, 11), ("webp/lossless.webp", 8, 10),
            ("bmp/rgb24.bmp", 4, 4), ("bmp/runs8.bmp", 8, 8), ("ico/bits8.ico", 4, 4),
        ].filter { Pictures.isReadable($0.0) })
    func held(_ name: String, least: Int, most: Int) throws {
        let data = try Pictures.data(name)
        let pixels = try #require(try ImageInfo(data).size.map { $0.width * $0.height })
        // Borders of blocks.
        let needed = try memory(data)
        #expect((pixels * least...pixels * most + 4000).contains(needed), "\(needed) of \(pixels)")
    }

    #if GIF
        @Test("Frames that are decoded ahead count, as far as the limits allow them")
        func ahead() throws {
            let data = try Pictures.data("gif/keep.gif")
            let info = try ImageInfo(data)
            let frame = try #require(info.size.map { $0.width * $0.height * 4 })
            var options = DecodeOptions()
            let one = try memory(data, options)
            options.preloadsFrames = true
            let all = try memory(data, options)
            #expect(all == one + (info.frameCount - 1) * frame)
            options.limits.bytes = all
            #expect(try Self.codecs.decode(data, options).animation?.preloaded?.count == info.frameCount)
            options.limits.bytes = all - 1
            #expect(try memory(data, options) == one)
            #expect(try Self.codecs.decode(data, options).animation?.preloaded == nil)
            options.firstFrameOnly = true
            #expect(try memory(data, options) == one)
        }
    #endif

    #if WebP
        @Test("An animation of WebP with a huge canvas and a small frame is refused by the memory of its canvases")
        func canvas() throws {
            let pixel = Array(try Pictures.data("webp/tiny-lossless.webp").dropFirst(12))
            let frame = HeaderBytes.riff(
                "ANMF", Array(repeating: 0, count: 6) + [9, 0, 0, 7, 0, 0, 1, 0, 0, 0] + pixel)
            let size = Array(HeaderBytes.little32(3999).prefix(3))
            let file = Data(
                HeaderBytes.webP(
                    HeaderBytes.riff("VP8X", [2, 0, 0, 0] + size + size)
                        + HeaderBytes.riff("ANIM", [0, 0, 0, 0, 0, 0]) + frame + frame))
            #expect(try memory(file) >= 4000 * 4000 * 12)
            // In a small size, two canvases are left.
            let small = DecodeOptions(target: TargetSize(width: 10, height: 10))
            #expect(try memory(file, small) >= 4000 * 4000 * 8)
            #expect(failure(file) { $0.bytes = 4000 * 4000 * 12 - 1 } == .imageTooLarge)
        }
    #endif

    #if AVIF
        /// Each file announces a picture of 64 by 64 pixels, and has a frame of 2048 by 2048 somewhere.
        private static let oversized: [(name: String, file: Data)] = {
            let (small, large) = (AVIFFile.frame64, AVIFFile.frame2048)
            var alpha = AVIFFile([small, large])
            alpha.items[1].alphaOf = 1
            var grid = AVIFFile([small, large])
            grid.makeGrid(width: 64, height: 64)
            var beside = AVIFFile([large])
            beside.items[0].isBeside = true
            var pieces = AVIFFile([large])
            pieces.items[0].pieces = 3
            let hidden = AVIFFile([small + [0, 0] + large])
            // The unit has no length, and an extension.
            let unsized = AVIFFile([[0x12, 0] + Array(large.prefix(9)) + [0x34, 0] + Array(large.dropFirst(11))])
            return [
                ("item", AVIFFile([large]).data), ("alpha", alpha.data), ("tile", grid.data), ("beside", beside.data),
                ("pieces", pieces.data), ("later header", hidden.data), ("without length", unsized.data),
                ("sample", AVIFFile.sequence([small, small, large])), ("first sample", AVIFFile.sequence([large])),
            ]
        }()

        @Test("The size of frames of AVIF counts, whatever the file announces", arguments: oversized)
        func sequenceHeaders(_ name: String, _ file: Data) throws {
            #expect(try ImageInfo(file).size == PixelSize(width: 64, height: 64))
            #expect(failure(file) { $0.pixels = 1 << 20 } == .imageTooLarge)
            #expect(failure(file) { $0.bytes = 32 << 20 } == .imageTooLarge)
            // libavif took 14 bytes a pixel.
            #expect(try memory(file) > 14 << 22)
        }

        @Test("A cache refuses such a file by its limits")
        func cached() async throws {
            var configuration = ImageCache.Configuration()
            configuration.limits.pixels = 1 << 20
            let cache = ImageCache(configuration)
            let file = AVIFFile([AVIFFile.frame2048]).data.base64EncodedString()
            let url = try #require(URL(string: "data:image/avif;base64,\(file)"))
            #expect(await cache.getImage(url).error == .imageTooLarge)
            await cache.shutdown()
        }

        @Test("Grids of many tiles count each of them, and the size to which each is scaled")
        func tiles() throws {
            let tile = AVIFFile.frame64
            var grid = AVIFFile(Array(repeating: tile, count: 16))
            grid.makeGrid(width: 256, height: 256)
            let plain = try memory(grid.data)
            #expect(plain > 16 << 20)
            for index in grid.items.indices.dropLast() { grid.items[index].size = PixelSize(width: 256, height: 256) }
            #expect(try memory(grid.data) > plain + 16 * 256 * 256)
            // Tiles may share their bytes, but not make a small file a long list.
            grid.items = Array(repeating: grid.items[0], count: 40_000)
            for index in grid.items.indices { grid.items[index].bytes = [0x12, 0, 0x12, 0] }
            #expect(failure(grid.data) { _ in } == .undecodable)
        }

        @Test("AVIF whose frames cannot be read is refused before it is decoded")
        func unreadable() throws {
            let header = Array(AVIFFile.frame64.prefix(10))
            for bytes in [
                [], [0x12, 0], Array(header.prefix(6)), Array(AVIFFile.frame64.dropFirst(10)), header + [0x32, 0x7F],
            ] as [[UInt8]] {
                let error = failure(AVIFFile([bytes]).data) { _ in }
                #expect(error == .undecodable && error?.detail?.hasPrefix("the header") == true, "\(bytes)")
            }
        }

        @Test("The number of parts that a file announces is bounded, also of parts without bytes")
        func manyParts() {
            typealias Bytes = HeaderBytes
            let items: [UInt8] = (1...0xFFFF).flatMap { Bytes.big16($0) + ([0, 0, 0xFF, 0xFF] as [UInt8]) }
            let boxes: [[UInt8]] = [
                Bytes.fullBox("hdlr", [0, 0, 0, 0] + Array("pict".utf8) + Array(repeating: 0, count: 13)),
                Bytes.fullBox("pitm", Bytes.big16(1)), Bytes.fullBox("iloc", [0, 0, 0xFF, 0xFF] + items),
                Bytes.fullBox(
                    "iinf", Bytes.big16(1) + Bytes.fullBox("infe", flags: 2 << 24, [0, 1, 0, 0] + Array("av01\0".utf8))),
            ]
            let file =
                Bytes.box("ftyp", Array("avif\0\0\0\0avifmif1".utf8)) + Bytes.fullBox("meta", Array(boxes.joined()))
            #expect(failure(Data(file)) { $0.pixels = 1 << 40 } != nil)
        }
    #endif
}

/// An AVIF file, built of coded frames.
struct AVIFFile {
    struct Item {
        var type = "av01"
        var bytes: [UInt8]
        var size: PixelSize
        /// The number of the item, from 1.
        var alphaOf: Int?
        /// Whether the bytes are in the box that describes the item.
        var isBeside = false
        var pieces = 1
    }

    var items: [Item]
    private var primary = 1

    /// Grey frames of 64 by 64 and of 2048 by 2048 pixels, by `ffmpeg -f lavfi -i color=gray -c:v libaom-av1 -f obu`.
    static let frame64: [UInt8] = [
        0x12, 0, 0x0A, 6, 0x18, 0x15, 0x7F, 0xFD, 0xA0, 8, 0x32, 9, 0x1F, 0, 0, 0, 0x58, 0, 0, 2, 0x80,
    ]
    static let frame2048: [UInt8] = [
        0x12, 0, 0x0A, 7, 0x1B, 0x2A, 0xBF, 0xFF, 0xFE, 0x80, 0x23, 0x32, 0x1C, 0x13, 0xC0, 0, 0, 0x16, 0, 0, 1, 0x5C,
        0x8E, 0x3D, 0xA6, 0xB5, 0x81, 0xA4, 0x25, 0x23, 0x7C, 0x9E, 0xD8, 0xE8, 0x37, 0xDE, 0x16, 0xEC, 0x43, 0xD8,
        0xC0,
    ]

    init(_ frames: [[UInt8]]) {
        items = frames.map { Item(bytes: $0, size: PixelSize(width: 64, height: 64)) }
    }

    /// Adds an item for which the others are the tiles of one row.
    mutating func makeGrid(width: Int, height: Int) {
        let grid = [0, 0, 0, UInt8(items.count - 1)] + HeaderBytes.big16(width) + HeaderBytes.big16(height)
        items.append(Item(type: "grid", bytes: grid, size: PixelSize(width: width, height: height)))
        primary = items.count
    }

    var data: Data {
        let start = file(dataAt: 0).count
        return Data(file(dataAt: start)) + Data(items.flatMap { $0.isBeside ? [] : $0.bytes })
    }

    private func file(dataAt start: Int) -> [UInt8] {
        typealias Bytes = HeaderBytes
        var (inFile, beside) = (start, 0)
        var (locations, entries, properties, associations, references): ([UInt8], [UInt8], [UInt8], [UInt8], [UInt8]) =
            ([], [], [], [], [])
        for (index, item) in items.enumerated() {
            let number = Bytes.big16(index + 1)
            locations += number + [0, item.isBeside ? 1 : 0, 0, 0] + Bytes.big16(item.pieces)
            var place = item.isBeside ? beside : inFile
            for piece in 0..<item.pieces {
                let end = item.bytes.count * (piece + 1) / item.pieces
                let count = end - item.bytes.count * piece / item.pieces
                locations += Bytes.big32(place) + Bytes.big32(count)
                place += count
            }
            if item.isBeside { beside = place } else { inFile = place }
            entries += Bytes.fullBox("infe", flags: 2 << 24, number + [0, 0] + Array(item.type.utf8) + [0])
            properties += Bytes.extent(item.size.width, item.size.height)
            associations += number + [3] + [index + 3, 1, item.alphaOf == nil ? 1 : 2].flatMap { Bytes.big16($0) }
            if let other = item.alphaOf {
                references += Bytes.box("auxl", number + Bytes.big16(1) + Bytes.big16(other))
            }
            if item.type == "grid" {
                references += Bytes.box("dimg", number + Bytes.big16(index) + (1...index).flatMap { Bytes.big16($0) })
            }
        }
        let shared =
            Bytes.box("av1C", [0x81, 0x0C, 0x0C, 0])
            + Bytes.fullBox("auxC", Array("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0".utf8))
        let kept = items.flatMap { $0.isBeside ? $0.bytes : [] }
        let boxes = [
            Bytes.fullBox("hdlr", [0, 0, 0, 0] + Array("pict".utf8) + Array(repeating: 0, count: 13)),
            Bytes.fullBox("pitm", Bytes.big16(primary)),
            Bytes.fullBox("iloc", flags: 1 << 24, [0x44, 0] + Bytes.big16(items.count) + locations),
            Bytes.fullBox("iinf", Bytes.big16(items.count) + entries),
            references.isEmpty ? [] : Bytes.fullBox("iref", references),
            Bytes.box(
                "iprp",
                Bytes.box("ipco", shared + properties)
                    + Bytes.fullBox("ipma", flags: 1, Bytes.big32(items.count) + associations)),
            kept.isEmpty ? [] : Bytes.box("idat", kept),
        ]
        let data = items.reduce(0) { $0 + ($1.isBeside ? 0 : $1.bytes.count) }
        return Bytes.box("ftyp", Array("avif\0\0\0\0avifmif1".utf8)) + Bytes.fullBox("meta", Array(boxes.joined()))
            + Bytes.big32(data + 8) + Array("mdat".utf8)
    }

    /// A sequence of samples in one chunk, which announces 64 by 64 pixels, without an item beside.
    static func sequence(_ samples: [[UInt8]]) -> Data {
        typealias Bytes = HeaderBytes
        func file(_ start: Int) -> [UInt8] {
            let entry =
                [0, 0, 0, 0, 0, 0, 0, 1] + Array(repeating: 0, count: 16) + Bytes.big16(64) + Bytes.big16(64)
                + Array(repeating: 0, count: 50) + Bytes.box("av1C", [0x81, 0x0C, 0x0C, 0])
            let count = Bytes.big32(samples.count)
            let table = [
                Bytes.fullBox("stsd", Bytes.big32(1) + Bytes.box("av01", entry)),
                Bytes.fullBox("stts", Bytes.big32(1) + count + Bytes.big32(1)),
                Bytes.fullBox("stsc", Bytes.big32(1) + Bytes.big32(1) + count + Bytes.big32(1)),
                Bytes.fullBox("stsz", Bytes.big32(0) + count + samples.flatMap { Bytes.big32($0.count) }),
                Bytes.fullBox("stco", Bytes.big32(1) + Bytes.big32(start)),
            ]
            let media =
                Bytes.fullBox("mdhd", [0, 0, 0, 0, 0, 0, 0, 0] + Bytes.big32(25) + count + [0, 0, 0, 0])
                + Bytes.fullBox("hdlr", [0, 0, 0, 0] + Array("pict".utf8) + Array(repeating: 0, count: 13))
                + Bytes.box("minf", Bytes.box("stbl", Array(table.joined())))
            let matrix = [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30].flatMap { Bytes.big32($0) }
            let header =
                [0, 0, 0, 0, 0, 0, 0, 0] + Bytes.big32(1) + [0, 0, 0, 0] + count + Array(repeating: 0, count: 16)
                + matrix + Bytes.big32(64 << 16) + Bytes.big32(64 << 16)
            return Bytes.box("ftyp", Array("avis\0\0\0\0avismsf1".utf8))
                + Bytes.box(
                    "moov", Bytes.box("trak", Bytes.fullBox("tkhd", header) + Bytes.box("mdia", media)))
                + Bytes.big32(8 + samples.reduce(0) { $0 + $1.count }) + Array("mdat".utf8)
        }
        return Data(file(file(0).count)) + Data(samples.joined())
    }
}
