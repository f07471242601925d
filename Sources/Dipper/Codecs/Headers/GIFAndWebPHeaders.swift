/// GIF89a: the logical screen, and the number of frames in the bytes given. Pixels are skipped. Some programs write a
/// screen without pixels: its size is then that of the first frame, including its offset.
struct GIFHeader {
    private let file: ByteReader
    private var info = ImageInfo(format: .gif)
    private var offset: Int
    private var frameCount = 0
    private var firstFrameEnd: PixelSize?

    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        let screen = PixelSize(width: try file.u16(at: 6, .little), height: try file.u16(at: 8, .little))
        var header = try GIFHeader(file: file, offset: 13 + colorTable(file.u8(at: 10)))
        do throws(DipperError) {
            try header.readBlocks()
        } catch {
            // The end of the bytes, or an invalid block, ends the count of the frames.
            if screen.isEmpty, header.firstFrameEnd == nil { throw error }
        }
        header.info.bitDepth = 8
        header.info.frameCount = max(1, header.frameCount)
        try header.info.setStoredSize(screen.isEmpty ? header.firstFrameEnd ?? screen : screen)
        return header.info
    }

    private init(file: ByteReader, offset: Int) {
        self.file = file
        self.offset = offset
    }

    /// In bytes.
    private static func colorTable(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private mutating func readBlocks() throws(DipperError) {
        while true {
            switch try file.u8(at: offset) {
            case 0x21: try readExtension()
            case 0x2C: try readFrame()
            default: return
            }
            // The data, in blocks that begin with their length; one of length zero is the last.
            var length = 0
            repeat {
                length = try file.u8(at: offset)
                offset += 1 + length
            } while length > 0
        }
    }

    private mutating func readFrame() throws(DipperError) {
        let flags = try file.u8(at: offset + 9)
        if frameCount == 0 {
            firstFrameEnd = PixelSize(
                width: try file.u16(at: offset + 1, .little) + file.u16(at: offset + 5, .little),
                height: try file.u16(at: offset + 3, .little) + file.u16(at: offset + 7, .little))
            info.isProgressive = flags & 0x40 != 0
        }
        // The colour table is followed by the length of the first code and then by the pixels.
        offset += 10 + Self.colorTable(flags) + 1
        frameCount += 1
    }

    private mutating func readExtension() throws(DipperError) {
        let label = try file.u8(at: offset + 1)
        offset += 2
        switch label {
        case 0xF9 where frameCount == 0:
            info.hasAlpha = try file.u8(at: offset + 1) & 1 != 0
        case 0xFF where file.holds("NETSCAPE2.0", at: offset + 1) || file.holds("ANIMEXTS1.0", at: offset + 1):
            if try file.u8(at: offset) == 11, try file.u8(at: offset + 12) >= 3,
                try file.u8(at: offset + 13) & 7 == 1
            {
                // The file states the number of repetitions after the first time.
                let repetitions = try file.u16(at: offset + 14, .little)
                info.loopCount = repetitions == 0 ? 0 : repetitions + 1
            }
        default: break
        }
    }
}

/// The chunks of a WebP file (RFC 9649, section 2.3), up to the end that the file states.
struct WebPChunks {
    private let chunks: ByteReader
    private var offset = 0

    init(_ file: ByteReader) throws(DipperError) {
        // Files longer or shorter than the stated length are common.
        let length = try file.u32(at: 4, .little)
        guard length >= 12 else { throw ByteReader.broken }
        chunks = try file.part(at: 12, count: length - 4)
    }

    /// The position in the file after the last chunk read, in bytes.
    var end: Int { 12 + offset }

    mutating func next() throws(DipperError) -> (name: String, content: ByteReader) {
        let name = try chunks.name(at: offset)
        let length = try chunks.u32(at: offset + 4, .little)
        let content = try chunks.part(at: offset + 8, count: length)
        offset += 8 + length + length % 2
        return (name, content)
    }
}

/// WebP (RFC 9649; bit streams by RFC 6386, section 9.1, and RFC 9649, section 3.4).
enum WebPHeader {
    private enum Flag {
        static let animation = 0x02
        static let exif = 0x08
        static let alpha = 0x10
        static let colorProfile = 0x20
    }

    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .webp)
        info.bitDepth = 8
        var chunks = try WebPChunks(file)
        let (name, first) = try chunks.next()
        switch name {
        case "VP8 ":
            guard try first.u8(at: 0) & 1 == 0, try first.u8(at: 3) == 0x9D, try first.u16(at: 4) == 0x012A else {
                throw ByteReader.broken
            }
            try info.setStoredSize(
                PixelSize(
                    width: try first.u16(at: 6, .little) & 0x3FFF, height: try first.u16(at: 8, .little) & 0x3FFF))
        case "VP8L":
            let bits = try first.u32(at: 1, .little)
            guard try first.u8(at: 0) == 0x2F else { throw ByteReader.broken }
            info.hasAlpha = bits >> 28 & 1 != 0
            try info.setStoredSize(PixelSize(width: bits & 0x3FFF + 1, height: bits >> 14 & 0x3FFF + 1))
        case "VP8X":
            let flags = try first.u8(at: 0)
            let canvas = PixelSize(width: try first.littleU24(at: 4) + 1, height: try first.littleU24(at: 7) + 1)
            info.hasAlpha = flags & Flag.alpha != 0
            info.hasColorProfile = flags & Flag.colorProfile != 0
            readChunks(&chunks, flags, &info)
            try info.setStoredSize(canvas)
        default: throw ByteReader.broken
        }
        return info
    }

    private static func readChunks(_ chunks: inout WebPChunks, _ flags: Int, _ info: inout ImageInfo) {
        let isAnimated = flags & Flag.animation != 0
        var frameCount = 0
        // The end of the bytes ends the count of the frames.
        while let (name, content) = try? chunks.next() {
            switch name {
            case "ANIM" where isAnimated: info.loopCount = (try? content.u16(at: 4, .little)) ?? info.loopCount
            case "ANMF" where isAnimated: frameCount += 1
            case "EXIF" where flags & Flag.exif != 0:
                if let orientation = ExifOrientation.read(content) { info.orientation = orientation }
            default: break
            }
        }
        info.frameCount = max(1, frameCount)
    }
}
