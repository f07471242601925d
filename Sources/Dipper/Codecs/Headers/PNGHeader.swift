/// The header of PNG (W3C, third edition, section 11): the chunks before the first one with pixels. Frames of APNG are
/// not counted, because only the still picture is displayed.
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
