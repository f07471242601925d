/// The start of an SVG document, as far as it takes to tell it: not a parser of XML.
enum SVGStart {
    /// Bytes that are looked at.
    private static let limit = 4096

    /// Whether the root is `svg`, after a byte order mark, blanks, declarations and comments.
    static func matches(_ bytes: ByteReader) -> Bool {
        var offset = bytes.holds("\u{FEFF}") ? 3 : 0
        while offset < min(limit, bytes.available) {
            if bytes.holds(" ", at: offset) || bytes.holds("\n", at: offset) || bytes.holds("\r", at: offset)
                || bytes.holds("\t", at: offset)
            {
                offset += 1
            } else if bytes.holds("<svg", at: offset) {
                let next = (try? bytes.u8(at: offset + 4)).map(UInt8.init(truncatingIfNeeded:))
                return next.map { " \t\r\n>/:".utf8.contains($0) } ?? false
            } else if bytes.holds("<!DOCTYPE svg", at: offset) {
                return true
            } else if bytes.holds("<!--", at: offset) {
                offset = end("-->", in: bytes, from: offset + 4)
            } else if bytes.holds("<?", at: offset) {
                offset = end("?>", in: bytes, from: offset + 2)
            } else {
                return false
            }
        }
        return false
    }

    /// After the next of these characters, or past all.
    private static func end(_ text: StaticString, in bytes: ByteReader, from start: Int) -> Int {
        let end = min(limit, bytes.available)
        guard start < end else { return end }
        return (start..<end).first { bytes.holds(text, at: $0) }.map { $0 + text.utf8CodeUnitCount } ?? end
    }
}
