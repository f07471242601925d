/// A reader of bits, lowest bit first, as JPEG XL stores them (ISO/IEC 18181-1, section 6.2).
struct BitReader {
    private let bytes: ByteReader
    private var position: Int

    /// Creates a reader of the bits of some bytes.
    /// - Parameter start: the position of the first byte.
    init(_ bytes: ByteReader, from start: Int) {
        self.bytes = bytes
        position = start * 8
    }

    mutating func flag() throws(DipperError) -> Bool {
        try number(1) == 1
    }

    /// Reads a number with a given count of bits, at most 32.
    mutating func number(_ count: Int) throws(DipperError) -> Int {
        var value: UInt64 = 0
        for index in 0..<count {
            let byte = try bytes.u8(at: position / 8)
            value |= UInt64(byte >> (position % 8) & 1) << index
            position += 1
        }
        return Int(clamping: value)
    }

    /// Reads a number in one of four forms, selected by two bits. Each form is an offset and the count of bits of the
    /// value to add to it.
    mutating func number(_ choices: KeyValuePairs<Int, Int>) throws(DipperError) -> Int {
        let choice = choices[try number(2)]
        return (try number(choice.value)).addingReportingOverflow(choice.key).partialValue
    }
}
