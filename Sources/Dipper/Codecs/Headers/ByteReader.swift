import Foundation

/// Numbers out of bytes that may be anything: each read is checked against their end, and nothing is copied.
///
/// Valid as long as the bytes are.
struct ByteReader {
    enum Order {
        /// The highest byte first.
        case big
        /// The lowest byte first.
        case little
    }

    private let bytes: UnsafeRawBufferPointer
    /// The length that a surrounding header announces; there may be fewer bytes, of which the rest is still to come.
    let count: Int

    /// A file that may go on after these bytes.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.init(bytes, count: .max)
    }

    private init(_ bytes: UnsafeRawBufferPointer, count: Int) {
        self.bytes = bytes
        self.count = count
    }

    /// Calls a function with a reader of the bytes.
    static func read<Result>(
        _ data: Data, _ body: (ByteReader) throws(DipperError) -> Result
    ) throws(DipperError) -> Result {
        let result: Swift.Result<Result, DipperError> = data.withUnsafeBytes { bytes in
            Swift.Result { () throws(DipperError) in try body(ByteReader(bytes)) }
        }
        return try result.get()
    }

    /// Bytes that are there.
    var available: Int { bytes.count }

    /// A part with an end of its own.
    /// - Throws: `DipperError.undecodable` if it goes past this one's end; not if its bytes are still to come.
    func part(at offset: Int, count: Int) throws(DipperError) -> ByteReader {
        guard offset >= 0, count >= 0, offset <= self.count, count <= self.count - offset else { throw Self.broken }
        let start = min(offset, bytes.count)
        let end = start + min(count, bytes.count - start)
        return ByteReader(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), count: count)
    }

    /// All that follows.
    func part(from offset: Int) throws(DipperError) -> ByteReader {
        guard offset >= 0, offset <= count else { throw Self.broken }
        return try part(at: offset, count: count - offset)
    }

    func u8(at offset: Int) throws(DipperError) -> Int {
        Int(try load(UInt8.self, at: offset))
    }

    func u16(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        let value = try load(UInt16.self, at: offset)
        return Int(order == .big ? UInt16(bigEndian: value) : UInt16(littleEndian: value))
    }

    /// Three bytes, the lowest first.
    func littleU24(at offset: Int) throws(DipperError) -> Int {
        try u16(at: offset, .little) | u8(at: offset + 2) << 16
    }

    /// As large as an `Int` can be where that is smaller.
    func u32(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        let value = try load(UInt32.self, at: offset)
        return Int(clamping: order == .big ? UInt32(bigEndian: value) : UInt32(littleEndian: value))
    }

    func i32(at offset: Int, _ order: Order = .big) throws(DipperError) -> Int {
        let value = try load(Int32.self, at: offset)
        return Int(order == .big ? Int32(bigEndian: value) : Int32(littleEndian: value))
    }

    /// As large as an `Int` can be if it is larger; the highest byte comes first.
    func u64(at offset: Int) throws(DipperError) -> Int {
        Int(clamping: UInt64(bigEndian: try load(UInt64.self, at: offset)))
    }

    func code(at offset: Int) throws(DipperError) -> FourCC {
        FourCC(rawValue: UInt32(bigEndian: try load(UInt32.self, at: offset)))
    }

    /// Whether these bytes are there; a reader's end is no error.
    func holds(_ text: StaticString, at offset: Int = 0) -> Bool {
        let length = text.utf8CodeUnitCount
        guard offset >= 0, length <= bytes.count, offset <= bytes.count - length else { return false }
        return text.withUTF8Buffer { $0.elementsEqual(bytes[offset..<offset + length]) }
    }

    private func load<T: FixedWidthInteger & BitwiseCopyable>(_: T.Type, at offset: Int) throws(DipperError) -> T {
        let size = MemoryLayout<T>.size
        guard offset >= 0, offset <= count - size else { throw Self.broken }
        guard offset <= bytes.count - size else { throw Self.incomplete }
        return bytes.loadUnaligned(fromByteOffset: offset, as: T.self)
    }

    /// More bytes are needed.
    static let incomplete = DipperError.undecodable.with(detail: "the header is incomplete")
    /// More bytes would not help.
    static let broken = DipperError.undecodable.with(detail: "the header is broken")
}
