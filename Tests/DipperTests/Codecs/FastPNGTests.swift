import CFastPNG
import CZlib
import CodecShims
import Synchronization
import TestSupport
import Testing

/// libpng decodes a file whose last bytes are missing, so that leaving them out shows what libpng makes of the same pixels.
@Suite("Complete PNG is decoded without libpng, and as libpng would", .timeLimit(.minutes(2)))
struct FastPNGTests {
    private static let forms: [MadePNG.Form] = [
        (1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (1, 3), (2, 3), (4, 3), (8, 3), (8, 4), (16, 4),
        (8, 6), (16, 6),
    ].map { MadePNG.Form(depth: $0.0, colorType: $0.1) }

    @Test(
        "Pictures of every form, size, filter and compression, with and without transparent colours, in any pieces",
        arguments: forms)
    func everyForm(_ form: MadePNG.Form) throws {
        var random = SeededRandom(UInt64(form.depth * 10 + form.colorType))
        for width in 1...40 {
            for filter: UInt8? in [0, 1, 2, 3, 4, nil] {
                let height = width % 5 == 0 ? width : Int.random(in: 1...9, using: &random)
                let size = PixelSize(width: width, height: height)
                var made = MadePNG(form, size, filter, &random)
                if form.mayBeTransparent, random.next() % 2 == 0 { made.addTransparency(&random) }
                let file = try made.file(&random)
                #expect(Self.isFast(file.data), "\(form), \(size), filter \(filter.map(Int.init) ?? 9)")
                try expectAlike(file)
                if width % 10 == 3 {
                    let target = TargetSize(width: 7, height: 5, .stretch, allowsUpscaling: true)
                    try expectAlike(file, DecodeOptions(target: target))
                }
            }
        }
    }

    @Test("Pictures larger than what is inflated at a time, and with rows of up to 64 KiB")
    func large() throws {
        var random = SeededRandom(8)
        for (form, width, height, isFast) in [
            (MadePNG.Form(depth: 8, colorType: 6), 700, 400, true), (.init(depth: 8, colorType: 2), 1001, 350, true),
            (.init(depth: 8, colorType: 0), 40_000, 20, true), (.init(depth: 8, colorType: 6), 16_384, 9, true),
            (.init(depth: 8, colorType: 6), 16_385, 9, false), (.init(depth: 1, colorType: 0), 64_007, 40, true),
        ] {
            for level: Int32 in [0, 1, 9] {
                var made = MadePNG(form, PixelSize(width: width, height: height), nil, &random)
                made.level = level
                let file = try made.file(&random)
                #expect(Self.isFast(file.data) == isFast)
                try expectAlike(file)
            }
        }
    }

    @Test("All pictures of the tests that are complete and not interlaced")
    func testPictures() throws {
        for test in PictureTests.png {
            let file = PNGFile(try Pictures.data(test.path))
            let isInterlaced = file.chunks[0].body[12] == 1
            #expect(Self.isFast(file.data) == !isInterlaced, "\(test.path)")
            try expectAlike(file)
        }
    }

    @Test("Streams with too much or too little in them are what libpng makes of them")
    func oddStreams() throws {
        var random = SeededRandom(5)
        let made = MadePNG(.init(depth: 8, colorType: 2), PixelSize(width: 20, height: 30), nil, &random)
        let rows = try made.stream(&random)
        let expected = try CodecRegistry.standard.decode(made.file(of: rows).data).pixels
        let checksum = Array(rows.suffix(4))
        var longer = made
        longer.raw += [0, 1, 2]
        let odd: [(name: String, stream: [UInt8], isPicture: Bool)] = [
            ("bytes after the checksum", rows + [1, 2, 3], true),
            ("no checksum", rows.dropLast(4), false),
            ("half a checksum", rows.dropLast(2), false),
            ("bytes after the last row", try longer.stream(&random), true),
            ("a wrong checksum", rows.dropLast() + [checksum[3] ^ 1], false),
            ("another method", [0x79] + rows.dropFirst(), false),
            ("a dictionary", [0x78, 0x20] + rows.dropFirst(2), false),
            ("nothing", [], false),
            ("a header alone", Array(rows.prefix(2)), false),
            ("half of it", Array(rows.prefix(rows.count / 2)), false),
        ]
        for (name, stream, isPicture) in odd {
            let file = made.file(of: stream)
            #expect(!Self.isFast(file.data), "\(name)")
            let image = try? CodecRegistry.standard.decode(file.data)
            #expect((image != nil) == isPicture, "\(name)")
            #expect(image == nil || image?.pixels == expected, "\(name)")
            try expectAlike(file)
        }
        var unknown = made
        unknown.raw[0] = 5
        #expect(CodecRegistry.standard.failure(try unknown.file(&random).data) == .undecodable)
        // What is behind the pixels is nobody's concern, and may be another IDAT.
        var file = made.file(of: rows)
        file.chunks.insert(("teSt", [1]), at: file.chunks.count - 1)
        file.chunks.insert(("IDAT", [1, 2, 3]), at: file.chunks.count - 1)
        #expect(Self.isFast(file.data))
        #expect(try CodecRegistry.standard.decode(file.data).pixels == expected)
    }

    @Test("A few blocks without pixels are passed over; thousands, for which tables would be made, are left to libpng")
    func tinyBlocks() throws {
        var random = SeededRandom(6)
        let made = MadePNG(.init(depth: 8, colorType: 2), PixelSize(width: 20, height: 30), 0, &random)
        // Stored, so that what is before it need not be aligned by hand: the blocks below fill whole bytes.
        let rows =
            [1] + HeaderBytes.little16(made.raw.count) + HeaderBytes.little16(0xFFFF - made.raw.count) + made.raw
            + HeaderBytes.big32(Int(adler32(1, made.raw, uInt(made.raw.count))))
        // Dynamic codes of one bit: for a zero and the end of the block, and for one distance.
        var bits = [0, 0, 1] + Array(repeating: 0, count: 10) + [0, 1, 1, 1]
        for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
            bits += [1, 18].contains(symbol) ? [1, 0, 0] : [0, 0, 0]
        }
        bits += [0] + [1] + Array(repeating: 1, count: 7) + [1] + [0, 1, 0, 1, 0, 1, 1] + [0, 0] + [1]
        let eight = Array(repeatElement(bits, count: 8).joined())
        let blocks = stride(from: 0, to: eight.count, by: 8).map { start in
            (0..<8).reduce(UInt8(0)) { $0 | UInt8(eight[start + $1]) << $1 }
        }
        for (count, isFast) in [(1, true), (40, true), (41, false), (3000, false)] {
            let file = made.file(of: [0x78, 0x01] + Array(repeatElement(blocks, count: count).joined()) + rows)
            #expect(Self.isFast(file.data) == isFast, "\(count * 8) blocks")
            #expect(try expectAlike(file))
        }
    }

    @Test("Bytes changed anywhere give the picture or the error of libpng's", arguments: forms)
    func mutated(_ form: MadePNG.Form) throws {
        var random = SeededRandom(UInt64(100 + form.depth * 10 + form.colorType))
        var (pictures, errors) = (0, 0)
        for round in 0..<300 {
            let size = PixelSize(
                width: Int.random(in: 1...30, using: &random), height: Int.random(in: 1...30, using: &random))
            let made = MadePNG(form, size, nil, &random)
            var file = try made.file(&random)
            switch round % 3 {
            case 0:
                var stream = try made.stream(&random)
                for _ in 0...round % 4 { MadePNG.change(&stream, &random) }
                // With the right end, so that what is changed is met.
                file = made.file(of: try MadePNG.mended(stream))
            case 1:
                let chunk = Int.random(in: 0..<file.chunks.count, using: &random)
                MadePNG.change(&file.chunks[chunk].body, &random)
            default:
                // A wrong checksum is an error, unless libpng does not look at it behind the last row.
                let expected = try CodecRegistry.standard.decode(file.data).pixels
                var data = file.data
                let place = try #require(data.range(of: Data("IDAT".utf8))).upperBound
                data[Int.random(in: place..<data.count - 12, using: &random)] ^= UInt8(1 << (random.next() & 7))
                let isSame = (try? CodecRegistry.standard.decode(data)).map { $0.pixels == expected }
                #expect(isSame != false && !(isSame == true && Self.isFast(data)))
                continue
            }
            for options in [DecodeOptions(), .partial] {
                if try expectAlike(file, options) { pictures += 1 } else { errors += 1 }
            }
        }
        #expect(pictures > 50 && errors > 50, "\(pictures) pictures, \(errors) errors")
    }

    @Test("A decode is cancelled between rows, before and after it is left to libpng")
    func cancels() throws {
        var random = SeededRandom(9)
        var made = MadePNG(.init(depth: 8, colorType: 6), PixelSize(width: 2000, height: 400), 0, &random)
        made.level = 1
        let whole = made.file(of: try made.stream(&random))
        let odd = made.file(of: try made.stream(&random) + [1])
        for (file, calls) in [(whole, 1...8), (odd, 1...16)] {
            for number in calls {
                let asked = Counter()
                var options = DecodeOptions(target: TargetSize(width: 20, height: 20))
                options.isCancelled = { asked.next() >= number }
                #expect(CodecRegistry.standard.failure(file.data, options) == .cancelled, "\(number)")
            }
        }
    }

    // MARK: Comparison

    /// Whether the picture is decoded to its end without libpng.
    private static func isFast(_ data: Data) -> Bool {
        data.withUnsafeBytes { bytes in
            guard let reader = dipper_png_open(bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count, false) else {
                return false
            }
            defer { dipper_png_close(reader) }
            var header = dipper_png_header()
            var description = fastpng_header()
            guard dipper_png_read_header(reader, 1 << 20, &header) == DIPPER_PNG_OK,
                dipper_png_describe(reader, &description), let rows = fastpng_open(&description)
            else { return false }
            defer { fastpng_close(rows) }
            var pixels = [UInt8](repeating: 0, count: Int(header.width * header.height) * 4)
            return fastpng_read(rows, &pixels, Int(header.height))
        }
    }

    /// - Returns: whether there is a picture.
    @discardableResult
    private func expectAlike(_ file: PNGFile, _ options: DecodeOptions = .init()) throws -> Bool {
        let data = file.data
        // The kind of the next chunk stays, because libpng looks at it.
        let last = file.chunks.lastIndex { $0.kind == "IDAT" } ?? file.chunks.count - 1
        let behind = file.chunks[(last + 1)...].reduce(0) { $0 + 12 + $1.body.count }
        let cut = data.dropLast(behind - 11)
        #expect(!Self.isFast(cut), "libpng decodes what has no end")
        return isAlike(data, cut, options)
    }

    private func isAlike(_ data: Data, _ other: Data, _ options: DecodeOptions) -> Bool {
        let (first, second) = (decode(data, options), decode(other, options))
        switch (first, second) {
        case (.success(let image), .success(let reference)):
            let isSame = image.pixels == reference.pixels && image.isOpaque == reference.isOpaque
            #expect(isSame, "\(Array(data.prefix(64)))")
            return true
        case (.failure(let error), .failure(let reference)):
            #expect(error == reference && error.detail == reference.detail, "\(error), \(reference)")
        default:
            Issue.record("\(first), \(second)")
        }
        return false
    }

    private func decode(_ data: Data, _ options: DecodeOptions) -> Result<Image, DipperError> {
        Result { () throws(DipperError) in try CodecRegistry.standard.decode(data, options) }
    }
}

private final class Counter: Sendable {
    private let count = Mutex(0)

    func next() -> Int {
        count.withLock {
            $0 += 1
            return $0
        }
    }
}

/// A PNG file made of random rows: any bytes behind a filter are pixels.
struct MadePNG {
    struct Form: CustomStringConvertible, Sendable {
        let depth: Int
        let colorType: Int

        var mayBeTransparent: Bool { colorType & 4 == 0 }
        var bits: Int { depth * [1, 0, 3, 1, 2, 0, 4][colorType] }
        var description: String { "colour type \(colorType), \(depth) bits" }
    }

    let form: Form
    let size: PixelSize
    var raw: [UInt8] = []
    var level: Int32?
    private var beside: [(kind: String, body: [UInt8])] = []

    init(_ form: Form, _ size: PixelSize, _ filter: UInt8?, _ random: inout SeededRandom) {
        self.form = form
        self.size = size
        let count = (size.width * form.bits + 7) / 8
        // Few values give many matches, and some of what comes before is repeated.
        let values: [UInt8] = (0..<[1, 2, 7, 256][Int(random.next() & 3)]).map { _ in UInt8(random.next() & 255) }
        var word: UInt64 = 0
        for row in 0..<size.height {
            raw.append(filter ?? UInt8(random.next() % 5))
            if row > 0, random.next() % 4 == 0 {
                raw += raw[(raw.count - count - 1)..<(raw.count - 1)]
                continue
            }
            for index in 0..<count {
                if index % 8 == 0 { word = random.next() }
                raw.append(values[Int(word & 255) % values.count])
                word >>= 8
            }
        }
        if form.colorType == 3 {
            let colors = Int.random(in: 1...1 << form.depth, using: &random)
            beside.append(("PLTE", (0..<colors * 3).map { _ in UInt8(random.next() & 255) }))
        }
    }

    mutating func addTransparency(_ random: inout SeededRandom) {
        var body: [UInt8]
        switch form.colorType {
        case 3:
            let most = beside[0].body.count / 3
            body = (0..<Int.random(in: 1...most, using: &random)).map { _ in UInt8(random.next() & 255) }
        default:
            // Without a filter, that of the first pixel.
            body = []
            for sample in 0..<(form.colorType == 0 ? 1 : 3) {
                let start = 1 + sample * max(1, form.depth / 8)
                if form.depth == 16 {
                    body += raw[start..<start + 2]
                } else {
                    body += [0, raw[start] >> (8 - form.depth)]
                }
            }
        }
        beside.append(("tRNS", body))
    }

    /// The rows, compressed in any of zlib's ways.
    func stream(_ random: inout SeededRandom) throws -> [UInt8] {
        var stream = z_stream()
        let level = level ?? Int32.random(in: 0...9, using: &random)
        let strategy = self.level == nil ? Int32.random(in: 0...4, using: &random) : 0
        try #require(
            deflateInit2_(
                &stream, level, Z_DEFLATED, Int32.random(in: 9...15, using: &random), 8, strategy, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK)
        defer { deflateEnd(&stream) }
        var result = [UInt8](repeating: 0, count: Int(deflateBound(&stream, uLong(raw.count))) + 64)
        var input = raw
        let status = input.withUnsafeMutableBufferPointer { input in
            result.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = uInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(output.count)
                return deflate(&stream, Z_FINISH)
            }
        }
        try #require(status == Z_STREAM_END)
        return Array(result.prefix(Int(stream.total_out)))
    }

    func file(_ random: inout SeededRandom) throws -> PNGFile {
        var file = file(of: [])
        let stream = try stream(&random)
        let place = file.chunks.count - 2
        file.chunks.remove(at: place)
        var rest = stream[...]
        var pieces: [(kind: String, body: [UInt8])] = []
        let longest = [3, 40, 1 << 20][Int(random.next() % 3)]
        repeat {
            let count = min(rest.count, Int.random(in: 0...longest, using: &random))
            pieces.append(("IDAT", Array(rest.prefix(count))))
            rest = rest.dropFirst(count)
        } while !rest.isEmpty
        file.chunks.insert(contentsOf: pieces, at: place)
        return file
    }

    func file(of stream: [UInt8]) -> PNGFile {
        var file = PNGFile(Data(HeaderBytes.pngHeader(size.width, size.height)))
        file.chunks[0].body[8] = UInt8(form.depth)
        file.chunks[0].body[9] = UInt8(form.colorType)
        file.chunks += beside + [("IDAT", stream), ("IEND", [])]
        return file
    }

    /// Changes a byte, takes one out, or repeats some.
    static func change(_ bytes: inout [UInt8], _ random: inout SeededRandom) {
        guard let place = bytes.indices.randomElement(using: &random) else { return }
        switch random.next() % 4 {
        case 0: bytes.remove(at: place)
        case 1: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 5)], at: place)
        default: bytes[place] ^= UInt8(1 << (random.next() & 7))
        }
    }

    /// A stream with a header and a checksum that are right, if what is between them can be unpacked.
    static func mended(_ stream: [UInt8]) throws -> [UInt8] {
        guard stream.count > 2 else { return stream }
        var input = Array(stream.dropFirst(2))
        var output = [UInt8](repeating: 0, count: 1 << 16)
        var state = z_stream()
        try #require(inflateInit2_(&state, -15, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK)
        defer { inflateEnd(&state) }
        let status = input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                state.next_in = input.baseAddress
                state.avail_in = uInt(input.count)
                state.next_out = output.baseAddress
                state.avail_out = uInt(output.count)
                return inflate(&state, Z_FINISH)
            }
        }
        guard status == Z_STREAM_END else { return stream }
        let checksum = adler32(1, output, uInt(state.total_out))
        return [0x78, 0x01] + stream[2..<2 + Int(state.total_in)] + HeaderBytes.big32(Int(checksum))
    }
}
