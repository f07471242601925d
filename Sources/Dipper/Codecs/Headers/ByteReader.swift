/// Reads numbers from untrusted bytes, checking each against the end; valid as long as the bytes are.
struct ByteReader {
    enum Order {
        case big
        case little
    }

    let bytes: UnsafeRawBufferPointer
    /// The length that the surrounding header states. It may be larger than the number of bytes that have arrived.
    let count: Int

    init(_ bytes: UnsafeRawBufferPointer, count: Int = .max) {
        self.bytes = bytes
        self.count = count
    }

    var available: Int { bytes.count }

    /// Throws `DipperError.undecodable` if the part ends after this reader, whatever bytes have arrived.
    func part(at offset: Int, count: Int) throws(DipperError) -> ByteReader {
        guard offset >= 0, count >= 0, offset <= self.count, count <= self.count - offset else { throw Self.broken }
        let start = min(offset, bytes.count)
        let end = start + min(count, bytes.count - start)
        return ByteReader(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), count: count)
    }

    func part(from offset: Int) throws(DipperError) -> ByteReader { try part(at: offset, count: count - offset) }

    func u8(at offset: Int) throws(DipperError) -> Int { Int(try load(UInt8.self, at: offset)) }

    func u16(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        Int(try load(UInt16.self, at: offset, order))
    }

    func littleU24(at offset: Int) throws(DipperError) -> Int {
        try u16(at: offset, .little) | u8(at: offset + 2) << 16
    }

    /// Clamped to the range of `Int`.
    func u32(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        Int(clamping: try load(UInt32.self, at: offset, order))
    }

    func i32(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        Int(try load(Int32.self, at: offset, order))
    }

    /// Big-endian, clamped to the range of `Int`.
    func u64(at offset: Int) throws(DipperError) -> Int { Int(clamping: try load(UInt64.self, at: offset)) }

    /// Big-endian, of a width in bytes.
    func number(at offset: Int, _ width: Int) throws(DipperError) -> Int {
        switch width {
        case 0: return 0
        case 2: return try u16(at: offset)
        case 4: return try u32(at: offset)
        case 8: return try u64(at: offset)
        default: throw Self.broken
        }
    }

    func name(at offset: Int) throws(DipperError) -> String {
        let code = try load(UInt32.self, at: offset)
        return withUnsafeBytes(of: code.bigEndian) { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether the bytes at an offset are a text; `false` if they have not all arrived.
    func holds(_ text: StaticString, at offset: Int = 0) -> Bool {
        let length = text.utf8CodeUnitCount
        guard offset >= 0, length <= bytes.count, offset <= bytes.count - length else { return false }
        return text.withUTF8Buffer { $0.elementsEqual(bytes[offset..<offset + length]) }
    }

    private func load<T: FixedWidthInteger & BitwiseCopyable>(
        _: T.Type, at offset: Int, _ order: Order = .big
    ) throws(DipperError) -> T {
        let size = MemoryLayout<T>.size
        guard offset >= 0, offset <= count - size else { throw Self.broken }
        guard offset <= bytes.count - size else { throw Self.incomplete }
        let value = bytes.loadUnaligned(fromByteOffset: offset, as: T.self)
        return order == .big ? T(bigEndian: value) : T(littleEndian: value)
    }

    static let incomplete = DipperError.undecodable.with(detail: "the header is incomplete")
    static let broken = DipperError.undecodable.with(detail: "the header is broken")
}

/// The boxes of an ISO base media file, or inside another box (ISO/IEC 14496-12, section 4.2).
struct BoxReader {
    private let bytes: ByteReader
    private var offset: Int

    init(_ bytes: ByteReader, from start: Int = 0) {
        self.bytes = bytes
        offset = start
    }

    mutating func next() throws(DipperError) -> (type: String, content: ByteReader)? {
        guard offset < bytes.count else { return nil }
        var (header, length) = (8, try bytes.u32(at: offset))
        let type = try bytes.name(at: offset + 4)
        if length == 0 {
            length = bytes.count - offset  // up to the end
        } else if length == 1 {
            (header, length) = (16, try bytes.u64(at: offset + 8))
        }
        guard length >= header else { throw ByteReader.broken }
        let content = try bytes.part(at: offset + header, count: length - header)
        offset += length
        return (type, content)
    }

    static func first(
        _ type: String, in bytes: ByteReader, else error: DipperError = ByteReader.broken
    ) throws(DipperError) -> ByteReader {
        var boxes = BoxReader(bytes)
        while let box = try boxes.next() {
            if box.type == type { return box.content }
        }
        throw error
    }
}
