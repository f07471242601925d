/// JPEG (ITU-T T.81, annex B): the segments before the first scan.
enum JPEGHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .jpeg)
        var orientation: Orientation?
        var stored: PixelSize?
        var offset = 2
        do throws(DipperError) {
            walk: while true {
                let marker = try nextMarker(file, &offset)
                switch marker {
                case 0x01, 0xD0...0xD8: continue  // alone, without a length
                case 0xD9, 0xDA: break walk
                default: break
                }
                // The length includes itself. libjpeg treats a smaller one as an empty segment.
                let length = max(2, try file.u16(at: offset))
                let segment = try file.part(at: offset + 2, count: length - 2)
                switch marker {
                case 0xC4, 0xC8, 0xCC: break  // tables, not frames
                case 0xC0...0xCF where stored == nil:
                    info.bitDepth = try segment.u8(at: 0)
                    stored = PixelSize(width: try segment.u16(at: 3), height: try segment.u16(at: 1))
                    info.isProgressive = marker & 3 == 2
                case 0xE1 where orientation == nil && segment.holds("Exif\0\0"):
                    if offset + length > file.available { throw ByteReader.incomplete }
                    orientation = ExifOrientation.read(segment)
                case 0xE2 where segment.holds("ICC_PROFILE\0"):
                    info.hasColorProfile = true
                default: break
                }
                offset += length
            }
        } catch {
            // Once the frame's header is known, the size does not wait for the other segments, which rarely matter.
            if stored == nil { throw error }
        }
        guard let stored else { throw ByteReader.broken }
        info.orientation = orientation ?? .up
        try info.setStoredSize(stored)
        return info
    }

    /// Other bytes before the marker are skipped, as in libjpeg.
    private static func nextMarker(_ file: ByteReader, _ offset: inout Int) throws(DipperError) -> Int {
        while true {
            guard try file.u8(at: offset) == 0xFF else {
                offset += 1
                continue
            }
            offset += 1
            // 0xFF bytes may repeat as fill; 0xFF and 0 are a byte of data.
            let marker = try file.u8(at: offset)
            if marker == 0xFF { continue }
            offset += 1
            if marker != 0 { return marker }
        }
    }
}

/// PNG (W3C, third edition, section 11): the chunks before the first one with pixels. Frames of APNG are not counted,
/// because only the still picture is displayed.
enum PNGHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .png)
        guard try file.u32(at: 8) == 13, try file.code(at: 12) == "IHDR" else { throw ByteReader.broken }
        let stored = PixelSize(width: try file.u32(at: 16), height: try file.u32(at: 20))
        let depth = try file.u8(at: 24)
        let colorType = try file.u8(at: 25)
        // With a palette, the depth in the file is that of the index.
        info.bitDepth = colorType == 3 ? 8 : depth
        info.hasAlpha = colorType & 4 != 0
        info.isProgressive = try file.u8(at: 28) == 1

        var offset = 33
        while true {
            let length = try file.u32(at: offset)
            let type = try file.code(at: offset + 4)
            if type == "IDAT" || type == "IEND" { break }
            // Lengths of 2^31 and more are invalid.
            guard length <= Int(Int32.max) else { throw ByteReader.broken }
            let chunk = try file.part(at: offset + 8, count: length)
            switch type {
            case "eXIf":
                guard chunk.available == length else { throw ByteReader.incomplete }
                info.orientation = ExifOrientation.read(chunk) ?? .up
            case "tRNS": info.hasAlpha = true
            case "iCCP": info.hasColorProfile = true
            default: break
            }
            offset &+= 12 &+ length
        }
        try info.setStoredSize(stored)
        return info
    }
}
