/// The value of `ETag` (RFC 9110, section 8.8.3).
struct EntityTag: Sendable, Equatable {
    /// The tag without the `W/` mark of weakness.
    let opaque: String
    let isWeak: Bool

    /// Creates a tag. Text without quotes is accepted as well, because servers recognise the tags that they sent.
    init(_ text: String) {
        let text = text.trimmingOptionalSpace
        isWeak = text.utf8.starts(with: "W/".utf8) || text.utf8.starts(with: "w/".utf8)
        opaque = isWeak ? String(decoding: text.utf8.dropFirst(2), as: UTF8.self) : text
    }

    /// Whether the tag is well-formed and has no mark of weakness: only such a tag identifies every byte.
    var isStrong: Bool {
        let bytes = opaque.utf8
        return !isWeak && bytes.count >= 2 && bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
            && bytes.dropFirst().dropLast().allSatisfy { $0 != UInt8(ascii: "\"") && $0 > 0x20 && $0 != 0x7F }
    }

    /// Returns whether the tags match in weak comparison (section 8.8.3.2).
    func matches(_ other: EntityTag) -> Bool { opaque == other.opaque }
}
