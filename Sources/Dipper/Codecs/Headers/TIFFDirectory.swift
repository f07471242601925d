/// The first directory of a TIFF structure (TIFF 6.0, section 2), which Exif uses too.
struct TIFFDirectory {
    /// The tags that are read, with their numbers in TIFF 6.0 and its supplement for ICC profiles.
    enum Tag: Int {
        case width = 256
        case height = 257
        case bitsPerSample = 258
        case orientation = 274
        case extraSamples = 338
        case colorProfile = 34675
    }

    private let file: ByteReader
    private let order: ByteReader.Order
    private let start: Int
    private let entryCount: Int

    /// Finds the first directory.
    /// - Parameter file: the bytes from the byte order mark on, to which offsets are relative.
    init(_ file: ByteReader) throws(DipperError) {
        self.file = file
        switch try file.u16(at: 0) {
        case 0x4949: order = .little
        case 0x4D4D: order = .big
        default: throw ByteReader.broken
        }
        guard try file.u16(at: 2, order) == 42 else { throw ByteReader.broken }
        start = try file.u32(at: 4, order)
        entryCount = try file.u16(at: start, order)
    }

    /// Returns the first value of each known entry. An entry whose value is outside the file is left out.
    func values() throws(DipperError) -> [Tag: Int] {
        var values: [Tag: Int] = [:]
        for index in 0..<entryCount {
            // An offset near the largest number wraps to a negative one, which cannot be read.
            let offset = start &+ 2 &+ index * 12
            let tag = try file.u16(at: offset, order)
            guard let tag = Tag(rawValue: tag), values[tag] == nil else { continue }
            values[tag] = try value(ofEntryAt: offset)
        }
        return values
    }

    private func value(ofEntryAt offset: Int) throws(DipperError) -> Int? {
        let type = try file.u16(at: offset + 2, order)
        let count = try file.u32(at: offset + 4, order)
        guard count > 0, let size = [1: 1, 3: 2, 4: 4, 7: 1][type] else { return nil }
        // Values of up to four bytes are in the entry itself.
        let place = count <= 4 / size ? offset + 8 : try file.u32(at: offset + 8, order)
        return switch size {
        case 1: try? file.u8(at: place)
        case 2: try? file.u16(at: place, order)
        default: try? file.u32(at: place, order)
        }
    }
}
