/// Four characters that name a box or a chunk.
struct FourCC: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The first character is the highest byte.
    let rawValue: UInt32

    init(rawValue: UInt32) { self.rawValue = rawValue }

    init(stringLiteral value: StaticString) {
        precondition(value.utf8CodeUnitCount == 4, "A name has four characters.")
        rawValue = value.withUTF8Buffer { $0.reduce(0) { $0 << 8 | UInt32($1) } }
    }
}
