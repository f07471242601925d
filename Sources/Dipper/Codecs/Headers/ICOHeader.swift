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
