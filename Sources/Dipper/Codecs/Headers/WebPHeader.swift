/// The header of WebP (RFC 9649; bit streams by RFC 6386, section 9.1, and RFC 9649, section 3.4).
///
/// The file stores the orientation after the pixels: it is `up` until those bytes are there.
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
