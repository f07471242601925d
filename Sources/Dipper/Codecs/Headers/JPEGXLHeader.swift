extension ImageInfo {
    /// JPEG XL (ISO/IEC 18181-1, annex D), bare or in its container (ISO/IEC 18181-2). Frames are not counted.
    mutating func readJPEGXL(_ file: ByteReader) throws(DipperError) -> PixelSize {
        var bits = BitReader(try Self.codestream(file), from: 2)
        let size = try Self.readSize(&bits)
        try readMetadata(&bits)
        return size
    }

    private static func codestream(_ file: ByteReader) throws(DipperError) -> ByteReader {
        if file.holds("JXL ", at: 4) {
            var boxes = BoxReader(file)
            while let box = try boxes.next() {
                if box.type == "jxlc" { return box.content }
                if box.type == "jxlp" { return try box.content.part(from: 4) }
            }
        }
        return file
    }

    private static func readSize(_ bits: inout BitReader) throws(DipperError) -> PixelSize {
        let isSmall = try bits.flag()
        func length(_ bits: inout BitReader) throws(DipperError) -> Int {
            try isSmall ? (bits.number(5) + 1) * 8 : bits.number([1: 9, 1: 13, 1: 18, 1: 30])
        }
        let height = try length(&bits)
        let (numerator, denominator) = [(0, 1), (1, 1), (6, 5), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1)][
            try bits.number(3)]
        // 64 bits hold the product. With a smaller `Int` an overflow is far above every limit.
        let (product, overflows) = height.multipliedReportingOverflow(by: numerator)
        let width = try numerator == 0 ? length(&bits) : overflows ? Int.max : product / denominator
        return PixelSize(width: width, height: height)
    }

    private mutating func readMetadata(_ bits: inout BitReader) throws(DipperError) {
        bitDepth = 8
        // All metadata have their defaults.
        if try bits.flag() { return }
        if try bits.flag() {
            orientation = Image.Orientation(rawValue: try bits.number(3) + 1) ?? .up
            if try bits.flag() { _ = try Self.readSize(&bits) }
            // The header of a preview and all that follows it are not read.
            if try bits.flag() { return }
            isAnimation = try bits.flag()
            if isAnimation { loopCount = try Self.readLoopCount(&bits) }
        }
        let isFloat = try bits.flag()
        bitDepth =
            try isFloat ? bits.number([32: 0, 16: 0, 24: 0, 1: 6]) : bits.number([8: 0, 10: 0, 12: 0, 1: 6])
        if isFloat { _ = try bits.number(4) }
        _ = try bits.flag()
        guard try bits.number([0: 0, 1: 0, 2: 4, 1: 12]) > 0 else { return }
        // Only the first extra channel is read: by default it is alpha, otherwise its type follows.
        let isUsual = try bits.flag()
        let type = try isUsual ? 0 : bits.number([0: 0, 1: 0, 2: 4, 18: 6])
        hasAlpha = type == 0
    }

    private static func readLoopCount(_ bits: inout BitReader) throws(DipperError) -> Int {
        _ = try bits.number([100: 0, 1000: 0, 1: 10, 1: 30])
        _ = try bits.number([1: 0, 1001: 0, 1: 8, 1: 10])
        let count = try bits.number([0: 0, 0: 3, 0: 16, 0: 32])
        _ = try bits.flag()
        return count
    }
}

/// Reads the lowest bit of each byte first, as JPEG XL stores bits (ISO/IEC 18181-1, section 6.2), or the highest.
struct BitReader {
    private let bytes: ByteReader
    private let isHighestFirst: Bool
    var position: Int

    init(_ bytes: ByteReader, from start: Int, highestFirst isHighestFirst: Bool = false) {
        (self.bytes, self.isHighestFirst) = (bytes, isHighestFirst)
        position = start * 8
    }

    mutating func flag() throws(DipperError) -> Bool {
        try number(1) == 1
    }

    mutating func number(_ count: Int) throws(DipperError) -> Int {
        var value: UInt64 = 0
        for index in 0..<count {
            let byte = try bytes.u8(at: position / 8)
            let bit = UInt64(byte >> (isHighestFirst ? 7 - position % 8 : position % 8) & 1)
            value |= bit << (isHighestFirst ? count - 1 - index : index)
            position += 1
        }
        return Int(clamping: value)
    }

    /// A number in one of four forms, selected by two bits: an offset, and the count of bits to read and add.
    mutating func number(_ choices: KeyValuePairs<Int, Int>) throws(DipperError) -> Int {
        let choice = choices[try number(2)]
        return (try number(choice.value)).addingReportingOverflow(choice.key).partialValue
    }
}
