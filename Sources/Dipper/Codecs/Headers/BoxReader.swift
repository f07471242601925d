/// A box of the ISO base media file format (ISO/IEC 14496-12, section 4.2).
struct Box {
    let type: FourCC
    let content: ByteReader
}

/// A reader of consecutive boxes.
struct BoxReader {
    private let bytes: ByteReader
    private var offset: Int

    /// Creates a reader of the boxes in some bytes.
    /// - Parameter start: the position of the first box.
    init(_ bytes: ByteReader, from start: Int = 0) {
        self.bytes = bytes
        offset = start
    }

    /// Reads the next box; returns `nil` at the end.
    mutating func next() throws(DipperError) -> Box? {
        guard offset < bytes.count else { return nil }
        var length = try bytes.u32(at: offset)
        let type = try bytes.code(at: offset + 4)
        var header = 8
        switch length {
        case 0: length = bytes.count - offset  // up to the end
        case 1:
            header = 16
            length = try bytes.u64(at: offset + 8)
        default: break
        }
        guard length >= header, length <= bytes.count - offset else { throw ByteReader.broken }
        let content = try bytes.part(at: offset + header, count: length - header)
        offset += length
        return Box(type: type, content: content)
    }

    /// Returns the content of the first box of a type.
    /// - Throws: `DipperError.undecodable` if there is none.
    static func first(_ type: FourCC, in bytes: ByteReader) throws(DipperError) -> ByteReader {
        var boxes = BoxReader(bytes)
        while let box = try boxes.next() {
            if box.type == type { return box.content }
        }
        throw ByteReader.broken
    }
}
