extension ImageInfo {
    /// GIF89a: the logical screen, and the number of frames in the bytes given. Pixels are skipped. Some programs write
    /// a screen without pixels: its size is then that of the first frame, including its offset.
    mutating func readGIF(_ file: ByteReader) throws(DipperError) -> PixelSize {
        bitDepth = 8
        let screen = PixelSize(width: try file.u16(at: 6, .little), height: try file.u16(at: 8, .little))
        var offset = try 13 + Self.colorTableLength(file.u8(at: 10))
        var count = 0
        // In hundredths of a second.
        var (delay, time) = (0, 0)
        var firstFrameEnd: PixelSize?
        do throws(DipperError) {
            blocks: while true {
                switch try file.u8(at: offset) {
                case 0x21:
                    try readGIFExtension(file, at: offset + 1, isFirst: count == 0)
                    if try file.u8(at: offset + 1) == 0xF9 { delay = try file.u16(at: offset + 4, .little) }
                    offset += 2
                case 0x2C:
                    let flags = try file.u8(at: offset + 9)
                    if count == 0 {
                        firstFrameEnd = PixelSize(
                            width: try file.u16(at: offset + 1, .little) + file.u16(at: offset + 5, .little),
                            height: try file.u16(at: offset + 3, .little) + file.u16(at: offset + 7, .little))
                        isProgressive = flags & 0x40 != 0
                    }
                    // The colour table is followed by the length of the first code and then by the pixels.
                    offset += 10 + Self.colorTableLength(flags) + 1
                    count += 1
                    (delay, time) = (0, time + delay)
                default: break blocks
                }
                // The data, in blocks that begin with their length; one of length zero is the last.
                var length = 0
                repeat {
                    length = try file.u8(at: offset)
                    offset += 1 + length
                } while length > 0
            }
        } catch {
            // The end of the bytes, or an invalid block, ends the count of the frames.
            if screen.isEmpty, firstFrameEnd == nil { throw error }
        }
        frameCount = max(1, count)
        if count > 1 { loopDuration = .milliseconds(10 * time) }
        return screen.isEmpty ? firstFrameEnd ?? screen : screen
    }

    /// In bytes.
    private static func colorTableLength(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private mutating func readGIFExtension(
        _ file: ByteReader, at offset: Int, isFirst: Bool
    ) throws(DipperError) {
        switch try file.u8(at: offset) {
        case 0xF9 where isFirst:
            hasAlpha = try file.u8(at: offset + 2) & 1 != 0
        case 0xFF where file.holds("NETSCAPE2.0", at: offset + 2) || file.holds("ANIMEXTS1.0", at: offset + 2):
            if try file.u8(at: offset + 1) == 11, try file.u8(at: offset + 13) >= 3,
                try file.u8(at: offset + 14) & 7 == 1
            {
                // The file states the number of repetitions after the first time.
                let repetitions = try file.u16(at: offset + 15, .little)
                loopCount = repetitions == 0 ? 0 : repetitions + 1
            }
        default: break
        }
    }

    /// WebP (RFC 9649; bit streams by RFC 6386, section 9.1, and RFC 9649, section 3.4).
    mutating func readWebP(_ file: ByteReader) throws(DipperError) -> PixelSize {
        bitDepth = 8
        var chunks = try WebPChunks(file)
        let (name, first) = try chunks.next()
        switch name {
        case "VP8 ":
            guard try first.u8(at: 0) & 1 == 0, try first.u8(at: 3) == 0x9D, try first.u16(at: 4) == 0x012A else {
                throw ByteReader.broken
            }
            return PixelSize(
                width: try first.u16(at: 6, .little) & 0x3FFF, height: try first.u16(at: 8, .little) & 0x3FFF)
        case "VP8L":
            let bits = try first.u32(at: 1, .little)
            guard try first.u8(at: 0) == 0x2F else { throw ByteReader.broken }
            hasAlpha = bits >> 28 & 1 != 0
            return PixelSize(width: bits & 0x3FFF + 1, height: bits >> 14 & 0x3FFF + 1)
        case "VP8X":
            let flags = try first.u8(at: 0)
            let canvas = PixelSize(width: try first.littleU24(at: 4) + 1, height: try first.littleU24(at: 7) + 1)
            hasColorProfile = flags & 0x20 != 0
            hasAlpha = flags & 0x10 != 0
            readChunks(&chunks, hasExif: flags & 0x08 != 0, isAnimated: flags & 0x02 != 0)
            return canvas
        default: throw ByteReader.broken
        }
    }

    /// The end of the bytes ends the count of the frames.
    private mutating func readChunks(_ chunks: inout WebPChunks, hasExif: Bool, isAnimated: Bool) {
        var (count, milliseconds) = (0, 0)
        var xmp: ByteReader?
        while let (name, content) = try? chunks.next() {
            switch name {
            case "ANIM" where isAnimated: loopCount = (try? content.u16(at: 4, .little)) ?? loopCount
            case "ANMF" where isAnimated:
                count += 1
                milliseconds += (try? content.littleU24(at: 12)) ?? 0
            case "EXIF" where hasExif: metadata.add(exif: content)
            case "XMP ": xmp = xmp ?? content
            default: break
            }
        }
        orientation = metadata.orientation ?? .up
        if let xmp { metadata.add(xmp: xmp.bytes) }
        frameCount = max(1, count)
        if isAnimated { loopDuration = .milliseconds(milliseconds) }
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
