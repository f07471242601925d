import Foundation

extension ImageInfo {
    /// TIFF 6.0: its first directory, which may be anywhere in the file.
    mutating func readTIFF(_ file: ByteReader) throws(DipperError) -> PixelSize? {
        // BigTIFF has offsets of 64 bits, so its size is not read.
        if file.holds("II+") || file.holds("MM\0+") { return nil }
        let directory = try TIFFDirectory(file)
        guard let width = directory[.width], let height = directory[.height] else { throw ByteReader.broken }
        orientation = directory[.orientation].flatMap { Image.Orientation(rawValue: $0) } ?? .up
        bitDepth = directory[.bitsPerSample] ?? 1
        // 1 is premultiplied alpha, 2 is straight alpha.
        hasAlpha = directory[.extraSamples].map { $0 == 1 || $0 == 2 } ?? false
        hasColorProfile = directory[.colorProfile] != nil
        metadata.add(directory)
        return PixelSize(width: width, height: height)
    }
}

/// A directory of a TIFF structure (TIFF 6.0, section 2), which Exif uses too.
struct TIFFDirectory {
    /// The tags of pictures, of Exif's directory, and of its directory of places.
    enum Tag: Int {
        case width = 256
        case height = 257
        case bitsPerSample = 258
        case make = 271
        case model = 272
        case orientation = 274
        case dateChanged = 306
        case extraSamples = 338
        case exif = 34665
        case colorProfile = 34675
        case gps = 34853
        case dateTaken = 36867
        case zoneTaken = 36881
        case latitudeSide = 1
        case latitude = 2
        case longitudeSide = 3
        case longitude = 4
        case altitudeSide = 5
        case altitude = 6
    }

    private let file: ByteReader
    private let order: ByteReader.Order
    /// The first entry of each known tag: the type of its values, their number, and where they are.
    private var entries: [Tag: (type: Int, count: Int, place: Int)] = [:]

    /// Reads the first directory, which may be anywhere in the bytes. They begin with the byte order mark, to which
    /// offsets are relative.
    init(_ file: ByteReader) throws(DipperError) {
        let order: ByteReader.Order
        switch try file.u16(at: 0) {
        case 0x4949: order = .little
        case 0x4D4D: order = .big
        default: throw ByteReader.broken
        }
        guard try file.u16(at: 2, order) == 42 else { throw ByteReader.broken }
        try self.init(file, order, at: try file.u32(at: 4, order))
    }

    /// The first directory of Exif data: a TIFF structure, in JPEG after `Exif\0\0`.
    init?(exif: ByteReader) {
        guard let file = try? exif.part(from: exif.holds("Exif\0\0") ? 6 : 0),
            let directory = try? TIFFDirectory(file)
        else { return nil }
        self = directory
    }

    private init(_ file: ByteReader, _ order: ByteReader.Order, at start: Int) throws(DipperError) {
        (self.file, self.order) = (file, order)
        for index in 0..<(try file.u16(at: start, order)) {
            // An offset near the largest number wraps to a negative one, which cannot be read.
            let entry = start &+ 2 &+ index * 12
            guard let tag = Tag(rawValue: try file.u16(at: entry, order)), entries[tag] == nil else { continue }
            let type = try file.u16(at: entry + 2, order)
            let count = try file.u32(at: entry + 4, order)
            guard count > 0, let size = [1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1][type] else { continue }
            // Values of up to four bytes are in the entry itself.
            let place = count <= 4 / size ? entry + 8 : try file.u32(at: entry + 8, order)
            entries[tag] = (type, count, place)
        }
    }

    /// The first value of an entry; `nil` if it is outside the file or no whole number.
    subscript(tag: Tag) -> Int? {
        guard let (type, _, place) = entries[tag] else { return nil }
        switch type {
        case 1, 7: return try? file.u8(at: place)
        case 3: return try? file.u16(at: place, order)
        case 4: return try? file.u32(at: place, order)
        default: return nil
        }
    }

    func directory(_ tag: Tag) -> TIFFDirectory? {
        self[tag].flatMap { try? TIFFDirectory(file, order, at: $0) }
    }

    /// A text of at most 256 bytes, without spaces around it.
    func text(_ tag: Tag) -> String? {
        guard let (type, count, place) = entries[tag], type == 2, count <= 256,
            let bytes = try? file.part(at: place, count: count).bytes
        else { return nil }
        let text = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self).trimmingCharacters(in: .whitespaces)
        return text.isEmpty ? nil : text
    }

    /// Fractions of whole numbers; `nil` if there are fewer, or one is infinite.
    func fractions(_ tag: Tag, count: Int) -> [Double]? {
        guard let entry = entries[tag], entry.type == 5, entry.count >= count else { return nil }
        let values = (0..<count).map { index -> Double in
            let place = entry.place + index * 8
            guard let numerator = try? file.u32(at: place, order),
                let denominator = try? file.u32(at: place + 4, order)
            else { return .nan }
            return Double(numerator) / Double(denominator)
        }
        return values.allSatisfy(\.isFinite) ? values : nil
    }
}

extension Image.Orientation {
    /// Reads the orientation in Exif data (Exif 2.32, tag 0x0112).
    init?(exif: ByteReader) {
        guard let value = TIFFDirectory(exif: exif)?[.orientation] else { return nil }
        self.init(rawValue: value)
    }
}
