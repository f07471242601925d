extension ImageInfo {
    /// JPEG (ITU-T T.81, annex B): the segments before the first scan.
    mutating func readJPEG(_ file: ByteReader) throws(DipperError) -> PixelSize {
        let header = JPEGHeader(file.bytes)
        // Once the frame's header is known, the size does not wait for the other segments, which rarely matter.
        guard let frame = header.frame else { throw header.isComplete ? ByteReader.broken : ByteReader.incomplete }
        bitDepth = frame.bits
        isProgressive = frame.isProgressive
        orientation = header.orientation ?? .up
        hasColorProfile = header.hasProfile
        return frame.size
    }

    /// PNG (W3C, third edition, section 11): the chunks before the first with pixels. Frames of APNG are not counted.
    mutating func readPNG(_ file: ByteReader) throws(DipperError) -> PixelSize {
        guard try file.u32(at: 8) == 13, try file.name(at: 12) == "IHDR" else { throw ByteReader.broken }
        let stored = PixelSize(width: try file.u32(at: 16), height: try file.u32(at: 20))
        let depth = try file.u8(at: 24)
        let colorType = try file.u8(at: 25)
        // With a palette, the depth in the file is that of the index.
        bitDepth = colorType == 3 ? 8 : depth
        hasAlpha = colorType & 4 != 0
        isProgressive = try file.u8(at: 28) == 1

        var offset = 33
        while true {
            let length = try file.u32(at: offset)
            let type = try file.name(at: offset + 4)
            if type == "IDAT" || type == "IEND" { return stored }
            // Lengths of 2^31 and more are invalid.
            guard length <= Int(Int32.max) else { throw ByteReader.broken }
            let chunk = try file.part(at: offset + 8, count: length)
            switch type {
            case "eXIf":
                guard chunk.available == length else { throw ByteReader.incomplete }
                orientation = Image.Orientation(exif: chunk) ?? .up
            case "tRNS": hasAlpha = true
            case "iCCP": hasColorProfile = true
            case "sRGB": isSRGB = true
            // Colours of video range, or with a matrix, are none of PNG.
            case "cICP" where length == 4 && (try? chunk.u16(at: 2)) == 1:
                codedColor = CodedColor(primaries: try chunk.u8(at: 0), transfer: try chunk.u8(at: 1))
            default: break
            }
            offset &+= 12 &+ length
        }
    }
}
