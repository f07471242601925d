/// GIF89a: the logical screen, and the number of frames in the bytes given. Pixels are skipped. Some programs write a
/// screen without pixels: its size is then that of the first frame, including its offset.
enum GIFHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .gif)
        info.bitDepth = 8
        let screen = PixelSize(width: try file.u16(at: 6, .little), height: try file.u16(at: 8, .little))
        let flags = try file.u8(at: 10)
        var walk = Walk(file: file, offset: 13 + colorTable(flags))
        do throws(DipperError) {
            try walk.run()
        } catch {
            // The end of the bytes, or an invalid block, ends the count of the frames.
            if screen.isEmpty, walk.firstFrameEnd == nil { throw error }
        }
        try info.setStoredSize(screen.isEmpty ? walk.firstFrameEnd ?? screen : screen)
        info.frameCount = max(1, walk.frameCount)
        info.loopCount = walk.loopCount
        info.hasAlpha = walk.hasTransparency
        info.isProgressive = walk.isInterlaced
        return info
    }

    /// In bytes.
    private static func colorTable(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private struct Walk {
        let file: ByteReader
        var offset: Int
        var frameCount = 0
        /// The right and bottom end of the first frame.
        var firstFrameEnd: PixelSize?
        var loopCount = 1
        var hasTransparency = false
        var isInterlaced = false

        init(file: ByteReader, offset: Int) {
            self.file = file
            self.offset = offset
        }

        mutating func run() throws(DipperError) {
            while true {
                switch try file.u8(at: offset) {
                case 0x21: try readExtension()
                case 0x2C: try readFrame()
                default: return
                }
            }
        }

        private mutating func readFrame() throws(DipperError) {
            let flags = try file.u8(at: offset + 9)
            if frameCount == 0 {
                firstFrameEnd = PixelSize(
                    width: try file.u16(at: offset + 1, .little) + file.u16(at: offset + 5, .little),
                    height: try file.u16(at: offset + 3, .little) + file.u16(at: offset + 7, .little))
            }
            // The colour table is followed by the length of the first code and then by the pixels.
            offset += 10 + GIFHeader.colorTable(flags) + 1
            if frameCount == 0 { isInterlaced = flags & 0x40 != 0 }
            frameCount += 1
            try skipBlocks()
        }

        private mutating func readExtension() throws(DipperError) {
            let label = try file.u8(at: offset + 1)
            offset += 2
            switch label {
            case 0xF9 where frameCount == 0:
                let flags = try file.u8(at: offset + 1)
                hasTransparency = flags & 1 != 0
            case 0xFF:
                let isLoop = file.holds("NETSCAPE2.0", at: offset + 1) || file.holds("ANIMEXTS1.0", at: offset + 1)
                if isLoop, try file.u8(at: offset) == 11, try file.u8(at: offset + 12) >= 3,
                    try file.u8(at: offset + 13) & 7 == 1
                {
                    // The file states the number of repetitions after the first time.
                    let repetitions = try file.u16(at: offset + 14, .little)
                    loopCount = repetitions == 0 ? 0 : repetitions + 1
                }
            default: break
            }
            try skipBlocks()
        }

        /// Each block begins with its length, and one of length zero is the last.
        private mutating func skipBlocks() throws(DipperError) {
            while true {
                let length = try file.u8(at: offset)
                offset += 1 + length
                if length == 0 { return }
            }
        }
    }
}

/// WebP (RFC 9649; bit streams by RFC 6386, section 9.1, and RFC 9649, section 3.4). The file stores the orientation
/// after the pixels: it is `up` until those bytes are there.
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
        // Files longer or shorter than the stated length are common.
        let length = try file.u32(at: 4, .little)
        guard length >= 12 else { throw ByteReader.broken }
        let chunks = try file.part(at: 12, count: length - 4)
        let first = try chunks.part(at: 8, count: chunks.u32(at: 4, .little))
        switch try chunks.code(at: 0) {
        case "VP8 ":
            try info.setStoredSize(lossySize(first))
        case "VP8L":
            let bits = try first.u32(at: 1, .little)
            guard try first.u8(at: 0) == 0x2F else { throw ByteReader.broken }
            info.hasAlpha = bits >> 28 & 1 != 0
            try info.setStoredSize(PixelSize(width: bits & 0x3FFF + 1, height: bits >> 14 & 0x3FFF + 1))
        case "VP8X":
            try readExtended(chunks, first, &info)
        default: throw ByteReader.broken
        }
        return info
    }

    private static func lossySize(_ frame: ByteReader) throws(DipperError) -> PixelSize {
        let size = PixelSize(
            width: try frame.u16(at: 6, .little) & 0x3FFF, height: try frame.u16(at: 8, .little) & 0x3FFF)
        guard try frame.u8(at: 0) & 1 == 0, try frame.u8(at: 3) == 0x9D, try frame.u16(at: 4) == 0x012A else {
            throw ByteReader.broken
        }
        return size
    }

    private static func readExtended(
        _ chunks: ByteReader, _ header: ByteReader, _ info: inout ImageInfo
    ) throws(DipperError) {
        let canvas = PixelSize(width: try header.littleU24(at: 4) + 1, height: try header.littleU24(at: 7) + 1)
        let flags = try header.u8(at: 0)
        info.hasAlpha = flags & Flag.alpha != 0
        info.hasColorProfile = flags & Flag.colorProfile != 0
        // The end of the bytes ends the count of the frames.
        try? walk(chunks, from: 8 + header.count + header.count % 2, flags, &info)
        info.frameCount = max(1, info.frameCount)
        try info.setStoredSize(canvas)
    }

    private static func walk(
        _ chunks: ByteReader, from start: Int, _ flags: Int, _ info: inout ImageInfo
    ) throws(DipperError) {
        let isAnimated = flags & Flag.animation != 0
        var offset = start
        if isAnimated { info.frameCount = 0 }
        while true {
            let length = try chunks.u32(at: offset + 4, .little)
            let chunk = try chunks.part(at: offset + 8, count: length)
            switch try chunks.code(at: offset) {
            case "ANIM" where isAnimated: info.loopCount = try chunk.u16(at: 4, .little)
            case "ANMF" where isAnimated: info.frameCount += 1
            case "EXIF" where flags & Flag.exif != 0:
                if let orientation = ExifOrientation.read(chunk) { info.orientation = orientation }
            default: break
            }
            offset &+= 8 &+ length &+ length % 2
        }
    }
}
