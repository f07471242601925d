/// The value of `Content-Range: bytes first-last/total` (RFC 9110, section 14.4).
struct ContentRange: Sendable, Equatable {
    var first: Int
    var last: Int
    /// The length of the whole body; `nil` for `*`.
    var total: Int?

    /// Parses a value; `nil` for another unit, a malformed value, or a range that contradicts itself.
    init?(_ value: String) {
        guard let (range, size) = Self.parts(of: value), let dash = range.firstIndex(of: UInt8(ascii: "-")),
            let first = Self.number(range[..<dash]), let last = Self.number(range[(dash + 1)...]), first <= last
        else { return nil }
        self.first = first
        self.last = last
        if !size.elementsEqual("*".utf8) {
            guard let total = Self.number(size), last < total else { return nil }
            self.total = total
        }
    }

    /// Returns the text between the unit and the slash, and the text after the slash.
    private static func parts(of value: String) -> (ArraySlice<UInt8>, ArraySlice<UInt8>)? {
        let bytes = Array(value.trimmingOptionalSpace.utf8)
        guard bytes.prefix(6).map(\.asciiLowercased).elementsEqual("bytes ".utf8),
            let slash = bytes.firstIndex(of: UInt8(ascii: "/"))
        else { return nil }
        return (bytes[6..<slash].drop(while: \.isSpaceOrTab), bytes[(slash + 1)...])
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy(\.isDigit) else { return nil }
        return Int(String(decoding: digits, as: UTF8.self))
    }
}
