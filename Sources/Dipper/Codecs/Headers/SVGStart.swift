/// A check for the start of an SVG document, without a full XML parser.
enum SVGStart {
    /// The number of bytes that are examined.
    private static let limit = 4096

    /// Returns whether the root element is `svg`, after a byte order mark, white space, declarations and comments.
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

    /// Returns the position after the next occurrence of a text, or the end of the bytes examined.
    private static func end(_ text: StaticString, in bytes: ByteReader, from start: Int) -> Int {
        let end = min(limit, bytes.available)
        guard start < end else { return end }
        return (start..<end).first { bytes.holds(text, at: $0) }.map { $0 + text.utf8CodeUnitCount } ?? end
    }
}
