import Foundation

/// A decoder for BMP, the bitmaps of Windows and OS/2, in Swift: palettes, run lengths (RLE4, RLE8), 16, 24 and 32 bits, and
/// any masks.
///
/// As in browsers, alpha counts in bitmaps that state a mask for it, unless it is 0 everywhere, and pixels that run lengths
/// pass over are transparent. An embedded profile is converted to sRGB. A JPEG or PNG inside a bitmap, and the run lengths
/// and the Huffman code of OS/2, are not decoded.
public struct BMPDecoder: ImageDecoder {
    /// The format ``ImageFormat/bmp``.
    public let format = ImageFormat.bmp

    /// Creates a decoder.
    public init() {}

    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        try data.withBytes { bytes throws(DipperError) in try Bitmap(file: bytes).memory(options) }
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        return try data.withBytes { bytes throws(DipperError) in try Bitmap(file: bytes).decode(options) }
    }
}

/// A bitmap of a BMP file or of an icon, valid as long as its bytes.
struct Bitmap {
    private let header: BitmapHeader
    private let size: PixelSize
    /// As many colours as there are indices, each in the memory order of pixels.
    private let palette: [UInt32]
    /// From the first pixel to the end of the bytes.
    private let pixels: UnsafeRawBufferPointer
    private let isIcon: Bool
    private let profile: ByteReader?

    init(file bytes: UnsafeRawBufferPointer) throws(DipperError) {
        let file = ByteReader(bytes, count: bytes.count)
        try self.init(file.part(from: 14), pixelsAt: file.u32(at: 10, .little) - 14)
    }

    /// The height of an icon's bitmap counts its mask too, which follows the pixels.
    init(icon bytes: UnsafeRawBufferPointer) throws(DipperError) {
        try self.init(ByteReader(bytes, count: bytes.count), pixelsAt: nil)
    }

    /// - Parameters:
    ///   - bytes: from the header on.
    ///   - start: where the pixels are in these bytes; `nil` for an icon, whose pixels follow the palette.
    private init(_ bytes: ByteReader, pixelsAt start: Int?) throws(DipperError) {
        let header = try BitmapHeader(bytes)
        isIcon = start == nil
        guard header.coding == .rows || header.coding == .runs && !isIcon else {
            throw .undecodable.with(detail: "BMP: a coding that is not supported, of \(header.bits) bits")
        }
        size = PixelSize(width: header.size.width, height: isIcon ? header.size.height / 2 : header.size.height)
        try size.checkNotEmpty()
        let indices = header.bits > 8 ? 0 : 1 << header.bits
        let (width, first) = (header.length == 12 ? 3 : 4, header.length + header.masksLength)
        let count = header.colorCount == 0 ? indices : header.colorCount
        var palette: [UInt32] = []
        for index in 0..<min(indices, count) {
            let color = try bytes.part(at: first + index * width, count: width)
            palette.append(try Self.color(color.u8(at: 2), color.u8(at: 1), color.u8(at: 0)))
        }
        palette += Array(repeating: Self.color(0, 0, 0), count: indices - palette.count)
        let end = first + count * width
        pixels = try bytes.part(from: start.map { $0 < header.length ? end : $0 } ?? end).bytes
        // `MBED`, stored in reverse order.
        let isEmbedded = header.hasProfile && bytes.holds("DEBM", at: 56)
        let profile =
            try? isEmbedded ? bytes.part(at: bytes.u32(at: 112, .little), count: bytes.u32(at: 116, .little)) : nil
        self.profile = profile.flatMap { $0.available <= ColorTransform.largestProfile ? $0 : nil }
        (self.header, self.palette) = (header, palette)
    }

    private static func color(_ red: Int, _ green: Int, _ blue: Int) -> UInt32 {
        UInt32(red | green << 8 | blue << 16 | 255 << 24).littleEndian
    }

    func memory(_ options: DecodeOptions) throws(DipperError) -> Int {
        try RowWriter.byteCount(from: size, to: options.storedTarget(for: size, .up))
            + (header.coding == .runs ? size.byteCount() : 0) + (profile?.available ?? 0)
    }

    func decode(_ options: DecodeOptions) throws(DipperError) -> Image {
        try options.limits.check(size)
        try options.limits.check(bytes: memory(options))
        let color = profile.flatMap { ColorTransform.shared(icc: Data($0.bytes)) }
        if header.coding == .runs {
            let picture = try PixelBuffer(size)
            picture.clear()
            try drawRuns(to: picture.base.assumingMemoryBound(to: UInt32.self), options)
            let image = try RowWriter.image(
                of: picture.base, size, picture: size, alpha: .straight, color: color, options)
            withExtendedLifetime(picture) {}
            return image
        }
        let rows = Rows(pixels, size, bits: header.bits)
        let colors = try Colors(masks(of: rows, options))
        let isMasked = isIcon && !colors.hasAlpha
        let mask = Rows(UnsafeRawBufferPointer(rebasing: pixels.dropFirst(rows.byteCount)), size, bits: 1)
        let isWhole = rows.isWhole && (!isMasked || mask.isWhole)
        guard isWhole || options.allowsPartial && rows.count > 0 else { throw RowWriter.truncated }
        var writer = try RowWriter(
            source: size, of: size, alpha: isWhole && !isMasked && !colors.hasAlpha ? .opaque : .straight, options)
        try writer.fill { memory, first, count throws(DipperError) in
            for y in 0..<count {
                let place = storedRow(first + y)
                let target = memory.assumingMemoryBound(to: UInt32.self) + y * size.width
                guard let row = rows[place] else {
                    target.update(repeating: 0, count: size.width)
                    continue
                }
                unpack(row, to: target, colors)
                if isMasked, let bits = mask[place] {
                    for x in 0..<size.width where bits[x / 8] << (x % 8) & 0x80 != 0 { target[x] = 0 }
                }
            }
            return count
        }
        return try writer.finish(color: color)
    }

    /// The number in the file of a row that is counted from the top, or the other way round.
    private func storedRow(_ y: Int) -> Int { header.isTopFirst ? y : size.height - 1 - y }

    /// Alpha that is 0 everywhere does not count.
    private func masks(of rows: Rows, _ options: DecodeOptions) throws(DipperError) -> SIMD4<UInt32> {
        var masks = header.masks
        if isIcon, header.bits == 32, masks.w == 0 { masks.w = 0xFF00_0000 }
        guard masks.w != 0 else { return masks }
        for y in 0..<rows.count {
            try options.checkCancelled()
            guard let row = rows[y] else { break }
            if (0..<size.width).contains(where: { header.number($0, in: row) & masks.w != 0 }) { return masks }
        }
        masks.w = 0
        return masks
    }

    private func unpack(_ row: UnsafeRawBufferPointer, to target: UnsafeMutablePointer<UInt32>, _ colors: Colors) {
        if header.bits > 8 {
            for x in 0..<size.width { target[x] = colors[header.number(x, in: row)] }
        } else {
            for x in 0..<size.width { target[x] = palette[Int(header.number(x, in: row))] }
        }
    }

    private func drawRuns(
        to picture: UnsafeMutablePointer<UInt32>, _ options: DecodeOptions
    ) throws(DipperError) {
        // Codes since a row began.
        var codes = 0
        var (x, y, offset) = (0, 0, 0)
        let isHalf = header.bits == 4
        // What lies beyond the right edge is not drawn.
        func draw(_ count: Int, _ index: (Int) -> UInt8) {
            let target = picture + storedRow(y) * size.width
            for place in 0..<min(count, max(0, size.width - x)) { target[x + place] = palette[Int(index(place))] }
            x += count
        }
        func half(_ byte: UInt8, _ place: Int) -> UInt8 { byte >> (place % 2 == 0 ? 4 : 0) & 15 }
        while y < size.height, offset + 1 < pixels.count {
            if codes % 4096 == 0 { try options.checkCancelled() }
            codes += 1
            let (count, value) = (Int(pixels[offset]), pixels[offset + 1])
            offset += 2
            switch (count, value) {
            case (0, 0): (x, y, codes) = (0, y + 1, 0)
            case (0, 1): return
            case (0, 2) where offset + 1 < pixels.count:
                (x, y) = (x + Int(pixels[offset]), y + Int(pixels[offset + 1]))
                offset += 2
            case (0, 2): offset = pixels.count
            case (0, _):
                // Indices without runs, in an even number of bytes.
                let length = isHalf ? (Int(value) + 1) / 2 : Int(value)
                let bytes = pixels[offset..<min(offset + length, pixels.count)]
                draw(min(Int(value), bytes.count * (isHalf ? 2 : 1))) { place in
                    isHalf ? half(bytes[offset + place / 2], place) : bytes[offset + place]
                }
                offset += length + length % 2
            default: draw(count) { place in isHalf ? half(value, place) : value }
            }
        }
        // The mark of the end may be missing.
        let isWhole = y >= size.height || y == size.height - 1 && x >= size.width
        guard isWhole || options.allowsPartial && (x, y) != (0, 0) else { throw RowWriter.truncated }
    }
}

/// The rows of a bitmap that are there, each of whole numbers of 32 bits.
private struct Rows {
    let count: Int
    let isWhole: Bool
    /// The length of all rows, whether they are there or not.
    let byteCount: Int
    private let bytes: UnsafeRawBufferPointer
    private let (stride, length): (Int, Int)

    init(_ bytes: UnsafeRawBufferPointer, _ size: PixelSize, bits: Int) {
        stride = (size.width * bits + 31) / 32 * 4
        length = (size.width * bits + 7) / 8
        byteCount = stride * size.height
        // What fills the last row up may be missing.
        count = bytes.count < length ? 0 : min(size.height, (bytes.count - length) / stride + 1)
        isWhole = count == size.height
        self.bytes = bytes
    }

    subscript(y: Int) -> UnsafeRawBufferPointer? {
        y < count ? UnsafeRawBufferPointer(rebasing: bytes[y * stride..<y * stride + length]) : nil
    }
}

extension BitmapHeader {
    /// The number that is a pixel of a row: an index, or a colour.
    fileprivate func number(_ x: Int, in row: UnsafeRawBufferPointer) -> UInt32 {
        switch bits {
        case 16: UInt32(row[x * 2]) | UInt32(row[x * 2 + 1]) << 8
        case 24: UInt32(row[x * 3]) | UInt32(row[x * 3 + 1]) << 8 | UInt32(row[x * 3 + 2]) << 16
        case 32: UInt32(littleEndian: row.loadUnaligned(fromByteOffset: x * 4, as: UInt32.self))
        // The first index is in the highest bits of a byte.
        default: UInt32((row[x * bits / 8] << (x * bits % 8)) >> (8 - bits))
        }
    }
}

/// The colours of the numbers that are pixels, by masks.
private struct Colors {
    /// One component: at most eight bits, from `shift` on, brought to 0…255.
    private struct Component {
        private let shift: Int
        private let most: UInt32
        private let scale: UInt32
        private let base: UInt32

        /// - Parameter absent: the value of a component without a mask.
        init(_ mask: UInt32, absent: UInt32 = 0) {
            let end = UInt32.bitWidth - mask.leadingZeroBitCount
            let count = mask == 0 ? 0 : min(8, end - mask.trailingZeroBitCount)
            (shift, most) = (end - count, 1 << count - 1)
            (scale, base) = mask == 0 ? (0, absent) : (255 << 16 / most, 0)
        }

        subscript(number: UInt32) -> UInt32 { base + ((number >> shift & most) * scale + 0x8000) >> 16 }
    }

    let hasAlpha: Bool
    private let (red, green, blue, alpha): (Component, Component, Component, Component)

    init(_ masks: SIMD4<UInt32>) {
        hasAlpha = masks.w != 0
        (red, green, blue) = (Component(masks.x), Component(masks.y), Component(masks.z))
        alpha = Component(masks.w, absent: 255)
    }

    /// In the memory order of pixels.
    subscript(number: UInt32) -> UInt32 {
        (red[number] | green[number] << 8 | blue[number] << 16 | alpha[number] << 24).littleEndian
    }
}
