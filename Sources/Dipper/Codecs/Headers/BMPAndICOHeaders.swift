/// The header of BMP: a file header of 14 bytes, then one of the headers of Windows and OS/2, which differ in length
/// (Microsoft, "Bitmap Header Types").
enum BMPHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .bmp)
        let length = try file.u32(at: 14, .little)
        let header = try file.part(at: 14, count: length)
        let size: PixelSize
        let bits: Int
        if length == 12 {
            size = PixelSize(width: try header.u16(at: 4, .little), height: try header.u16(at: 6, .little))
            bits = try header.u16(at: 10, .little)
        } else {
            // A negative height means that the first row is the top.
            size = PixelSize(
                width: try header.i32(at: 4, .little),
                height: Int(clamping: try header.i32(at: 8, .little).magnitude))
            bits = try header.u16(at: 14, .little)
        }
        info.bitDepth = bits == 16 ? 5 : 8
        if length >= 56 {
            // The alpha mask is only valid with a compression that uses masks.
            let compression = try header.u32(at: 16, .little)
            let mask = try header.u32(at: 52, .little)
            info.hasAlpha = mask != 0 && (compression == 3 || compression == 6)
        }
        if length >= 124 {
            // `LINK` or `MBED`: the profile is linked or embedded. The letters are stored in reverse order.
            info.hasColorProfile = ["KNIL", "DEBM"].contains(try header.code(at: 56))
        }
        try info.setStoredSize(size)
        return info
    }
}

/// The header of Windows icons: a directory of pictures. The size is that of the largest one.
enum ICOHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .ico)
        info.bitDepth = 8
        info.hasAlpha = true
        var largest = PixelSize(width: 0, height: 0)
        for index in 0..<(try file.u16(at: 4, .little)) {
            let entry = try file.part(at: 6 + index * 16, count: 16)
            // 256 does not fit into a byte and is written as 0.
            let width = try entry.u8(at: 0)
            let height = try entry.u8(at: 1)
            let size = PixelSize(width: width == 0 ? 256 : width, height: height == 0 ? 256 : height)
            if size.width * size.height > largest.width * largest.height { largest = size }
        }
        try info.setStoredSize(largest)
        return info
    }
}
