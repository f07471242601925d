extension ImageInfo {
    /// BMP: a file header of 14 bytes, then that of the bitmap.
    mutating func readBMP(_ file: ByteReader) throws(DipperError) -> PixelSize {
        let header = try BitmapHeader(file.part(from: 14))
        bitDepth = header.bits == 16 ? 5 : 8
        hasAlpha = header.masks.w != 0 || header.coding == .runs
        hasColorProfile = header.hasProfile
        return header.size
    }

    /// Windows icons: a directory of pictures, of which the largest counts.
    mutating func readICO(_ file: ByteReader) throws(DipperError) -> PixelSize {
        bitDepth = 8
        hasAlpha = true
        return try IconDirectory(file).largest.size
    }
}

/// The header of a bitmap of Windows or OS/2 (Microsoft, "Bitmap Header Types").
struct BitmapHeader {
    enum Coding {
        /// Rows of indices of a palette, or of colours.
        case rows
        /// Run lengths of indices (RLE4, RLE8).
        case runs
        case unknown
    }

    static let lengths: Set = [12, 16, 40, 52, 56, 64, 108, 124]

    let length: Int
    let size: PixelSize
    /// Whether the first row is the top.
    let isTopFirst: Bool
    /// The number of bits for each pixel.
    let bits: Int
    let coding: Coding
    /// The number of colours in the palette; 0 for as many as there are indices.
    let colorCount: Int
    /// The bits of red, green, blue and alpha in the number that is a pixel; 0 for no alpha.
    let masks: SIMD4<UInt32>
    /// The number of bytes of the masks behind a header that has no room for them.
    let masksLength: Int
    /// Whether a profile is embedded or linked.
    let hasProfile: Bool

    init(_ bytes: ByteReader) throws(DipperError) {
        length = try bytes.u32(at: 0, .little)
        guard Self.lengths.contains(length) else { throw ByteReader.broken }
        let compression: Int
        if length == 12 {
            size = PixelSize(width: try bytes.u16(at: 4, .little), height: try bytes.u16(at: 6, .little))
            (isTopFirst, bits, compression, colorCount) = (false, try bytes.u16(at: 10, .little), 0, 0)
        } else {
            let height = try bytes.i32(at: 8, .little)
            size = PixelSize(width: try bytes.i32(at: 4, .little), height: Int(clamping: height.magnitude))
            (isTopFirst, bits) = (height < 0, try bytes.u16(at: 14, .little))
            compression = length == 16 ? 0 : try bytes.u32(at: 16, .little)
            colorCount = length == 16 ? 0 : try bytes.u32(at: 32, .little)
        }
        var masks: SIMD4<UInt32> = bits == 16 ? [0x7C00, 0x3E0, 0x1F, 0] : [0xFF0000, 0xFF00, 0xFF, 0]
        var masksLength = 0
        switch (compression, bits) {
        case (0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 24), (0, 32): coding = .rows
        case (1, 8), (2, 4): coding = .runs
        case (3, 16), (3, 32), (6, 16), (6, 32):
            coding = .rows
            let hasAlpha = length >= 56 || compression == 6
            for index in 0..<(hasAlpha ? 4 : 3) {
                masks[index] = UInt32(truncatingIfNeeded: try bytes.u32(at: 40 + index * 4, .little))
            }
            if length == 40 { masksLength = hasAlpha ? 16 : 12 }
        default: coding = .unknown
        }
        (self.masks, self.masksLength) = (masks, masksLength)
        // `LINK` or `MBED`, stored in reverse order.
        hasProfile = try length < 124 ? false : ["KNIL", "DEBM"].contains(bytes.name(at: 56))
    }
}

/// The pictures of an icon of Windows.
struct IconDirectory {
    struct Entry {
        let size: PixelSize
        /// The number of bits for each pixel, or 0 if it is not stated.
        let bits: Int
        /// Where the picture begins in the file.
        let start: Int

        /// By size, and then by the number of colours.
        static func isLess(_ a: Entry, _ b: Entry) -> Bool {
            let (first, second) = (a.size.width * a.size.height, b.size.width * b.size.height)
            return (first, a.bits) < (second, b.bits)
        }
    }

    let largest: Entry
    private let entries: [Entry]

    init(_ file: ByteReader) throws(DipperError) {
        var entries: [Entry] = []
        for index in 0..<(try file.u16(at: 4, .little)) {
            let entry = try file.part(at: 6 + index * 16, count: 16)
            // 256 does not fit into a byte and is written as 0.
            let (width, height) = (try entry.u8(at: 0), try entry.u8(at: 1))
            entries.append(
                Entry(
                    size: PixelSize(width: width == 0 ? 256 : width, height: height == 0 ? 256 : height),
                    bits: try entry.u16(at: 6, .little), start: try entry.u32(at: 12, .little)))
        }
        guard let largest = entries.max(by: Entry.isLess) else { throw ByteReader.broken }
        (self.entries, self.largest) = (entries, largest)
    }

    /// Returns the smallest picture that need not be enlarged, with the proportions of the largest one; of several of this
    /// size the one with the most colours.
    func entry(for size: PixelSize) -> Entry {
        let alike = entries.filter { entry in
            entry.size.width * largest.size.height == entry.size.height * largest.size.width
                && entry.size.width >= size.width && entry.size.height >= size.height
        }
        guard let smallest = alike.min(by: Entry.isLess) else { return largest }
        return alike.filter { $0.size == smallest.size }.max(by: Entry.isLess) ?? smallest
    }
}
