/// The header of JPEG (ITU-T T.81, annex B): the segments before the first scan.
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

    /// Moves past the next marker and returns it. Other bytes before it are skipped, as in libjpeg.
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
