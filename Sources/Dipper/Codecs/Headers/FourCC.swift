/// A code of four characters that names a box or a chunk.
struct FourCC: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The four characters; the first one is the highest byte.
    let rawValue: UInt32

    init(rawValue: UInt32) { self.rawValue = rawValue }

    init(stringLiteral value: StaticString) {
        precondition(value.utf8CodeUnitCount == 4, "A name has four characters.")
        rawValue = value.withUTF8Buffer { $0.reduce(0) { $0 << 8 | UInt32($1) } }
    }
}
