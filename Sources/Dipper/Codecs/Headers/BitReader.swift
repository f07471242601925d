/// Bits of bytes, the lowest first, as JPEG XL has them (ISO/IEC 18181-1, section 6.2).
struct BitReader {
    private let bytes: ByteReader
    private var position: Int

    /// - Parameter start: the first byte.
    init(_ bytes: ByteReader, from start: Int) {
        self.bytes = bytes
        position = start * 8
    }

    mutating func flag() throws(DipperError) -> Bool {
        try number(1) == 1
    }

    /// A number of so many bits, 32 at most.
    mutating func number(_ count: Int) throws(DipperError) -> Int {
        var value: UInt64 = 0
        for index in 0..<count {
            let byte = try bytes.u8(at: position / 8)
            value |= UInt64(byte >> (position % 8) & 1) << index
            position += 1
        }
        return Int(clamping: value)
    }

    /// Two bits choose how many follow, and what is added to them.
    mutating func number(_ choices: KeyValuePairs<Int, Int>) throws(DipperError) -> Int {
        let choice = choices[try number(2)]
        return (try number(choice.value)).addingReportingOverflow(choice.key).partialValue
    }
}
