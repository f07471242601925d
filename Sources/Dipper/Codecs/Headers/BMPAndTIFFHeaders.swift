extension ImageInfo {
    /// BMP: a file header of 14 bytes, then a header of Windows or OS/2 (Microsoft, "Bitmap Header Types").
    mutating func readBMP(_ file: ByteReader) throws(DipperError) -> PixelSize {
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
        bitDepth = bits == 16 ? 5 : 8
        if length >= 56 {
            // The alpha mask is only valid with a compression that uses masks.
            let compression = try header.u32(at: 16, .little)
            let mask = try header.u32(at: 52, .little)
            hasAlpha = mask != 0 && (compression == 3 || compression == 6)
        }
        if length >= 124 {
            // `LINK` or `MBED`: the profile is linked or embedded. The letters are stored in reverse order.
            hasColorProfile = ["KNIL", "DEBM"].contains(try header.name(at: 56))
        }
        return size
    }

    /// Windows icons: a directory of pictures, of which the largest counts.
    mutating func readICO(_ file: ByteReader) throws(DipperError) -> PixelSize {
        bitDepth = 8
        hasAlpha = true
        var largest = PixelSize(width: 0, height: 0)
        for index in 0..<(try file.u16(at: 4, .little)) {
            let entry = try file.part(at: 6 + index * 16, count: 16)
            // 256 does not fit into a byte and is written as 0.
            let width = try entry.u8(at: 0)
            let height = try entry.u8(at: 1)
            let size = PixelSize(width: width == 0 ? 256 : width, height: height == 0 ? 256 : height)
            if size.width * size.height > largest.width * largest.height { largest = size }
        }
        return largest
    }

    /// TIFF 6.0: its first directory, which may be anywhere in the file.
    mutating func readTIFF(_ file: ByteReader) throws(DipperError) -> PixelSize? {
        // BigTIFF has offsets of 64 bits, so its size is not read.
        if file.holds("II+") || file.holds("MM\0+") { return nil }
        let values = try TIFFDirectory(file).values
        guard let width = values[.width], let height = values[.height] else { throw ByteReader.broken }
        orientation = values[.orientation].flatMap { Image.Orientation(rawValue: $0) } ?? .up
        bitDepth = values[.bitsPerSample] ?? 1
        // 1 is premultiplied alpha, 2 is straight alpha.
        hasAlpha = values[.extraSamples].map { $0 == 1 || $0 == 2 } ?? false
        hasColorProfile = values[.colorProfile] != nil
        return PixelSize(width: width, height: height)
    }
}

/// The first directory of a TIFF structure (TIFF 6.0, section 2), which Exif uses too.
private struct TIFFDirectory {
    enum Tag: Int {
        case width = 256
        case height = 257
        case bitsPerSample = 258
        case orientation = 274
        case extraSamples = 338
        case colorProfile = 34675
    }

    /// The first value of each known entry. An entry whose value is outside the file is left out.
    private(set) var values: [Tag: Int] = [:]

    /// The bytes begin with the byte order mark, to which offsets are relative.
    init(_ file: ByteReader) throws(DipperError) {
        let order: ByteReader.Order
        switch try file.u16(at: 0) {
        case 0x4949: order = .little
        case 0x4D4D: order = .big
        default: throw ByteReader.broken
        }
        guard try file.u16(at: 2, order) == 42 else { throw ByteReader.broken }
        let start = try file.u32(at: 4, order)
        for index in 0..<(try file.u16(at: start, order)) {
            // An offset near the largest number wraps to a negative one, which cannot be read.
            let entry = start &+ 2 &+ index * 12
            guard let tag = Tag(rawValue: try file.u16(at: entry, order)), values[tag] == nil else { continue }
            let type = try file.u16(at: entry + 2, order)
            let count = try file.u32(at: entry + 4, order)
            guard count > 0, let size = [1: 1, 3: 2, 4: 4, 7: 1][type] else { continue }
            // Values of up to four bytes are in the entry itself.
            let place = count <= 4 / size ? entry + 8 : try file.u32(at: entry + 8, order)
            values[tag] =
                switch size {
                case 1: try? file.u8(at: place)
                case 2: try? file.u16(at: place, order)
                default: try? file.u32(at: place, order)
                }
        }
    }
}

extension Image.Orientation {
    /// Reads the orientation in Exif data (Exif 2.32, tag 0x0112): a TIFF structure, in JPEG after `Exif\0\0`.
    init?(exif: ByteReader) {
        guard let file = try? exif.part(from: exif.holds("Exif\0\0") ? 6 : 0),
            let value = (try? TIFFDirectory(file))?.values[.orientation]
        else { return nil }
        self.init(rawValue: value)
    }
}
