/// The header fields of a request or a response: an ordered list of names and values.
///
/// Names compare without regard to case (RFC 9110, section 5.1); values are kept as they are. A byte of a value that is
/// not UTF-8 becomes the character U+10FE00 plus the byte, and is sent as that byte.
///
/// ```swift
/// var headers: HTTPHeaders = ["Accept": "application/json", "Accept-Language": "en"]
/// headers["User-Agent"] = "Kiosk/2.0"
/// print(headers["accept"] ?? "")      // application/json
/// ```
public struct HTTPHeaders: Sendable, Hashable, ExpressibleByDictionaryLiteral, RandomAccessCollection,
    RedactedStringConvertible
{
    /// The fields in order. A name may occur more than once.
    public private(set) var fields: [Field]
    private var names: NameFilter

    /// One header field.
    public struct Field: Sendable, Hashable, RedactedStringConvertible {
        /// The name as given.
        public var name: String
        /// The value as given.
        public var value: String

        /// Creates a field with a name and a value.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }

        /// The name of the field without its value, which may be secret.
        public var description: String { "\(name): \(Redaction.mark)" }
    }

    /// Creates headers with these fields, in this order.
    public init(_ fields: [Field] = []) {
        self.fields = fields
        names = NameFilter(fields.lazy.map(\.name))
    }

    /// Creates headers with the fields of the literal, in its order. A name may occur more than once.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.init(elements.map { Field($0.0, $0.1) })
    }

    /// Creates headers from a dictionary, in the order of the names. Names that differ in case alone stay two fields.
    public init(_ dictionary: [String: String]) {
        self.init(dictionary.sorted { $0.key < $1.key }.map { Field($0.key, $0.value) })
    }

    /// The first value of the field with this name. Setting replaces all values of the name; `nil` removes the field.
    public subscript(name: String) -> String? {
        get { mayHave(name) ? fields.first { $0.name.isSameHeaderName(as: name) }?.value : nil }
        set {
            let position = fields.firstIndex { $0.name.isSameHeaderName(as: name) }
            fields.removeAll { $0.name.isSameHeaderName(as: name) }
            if let newValue {
                fields.insert(Field(name, newValue), at: Swift.min(position ?? fields.count, fields.count))
            }
            names = NameFilter(fields.lazy.map(\.name))
        }
    }

    /// Adds a field at the end, even if one with that name is there.
    public mutating func append(_ name: String, _ value: String) {
        if fields.isEmpty { fields.reserveCapacity(12) }
        fields.append(Field(name, value))
        names.insert(name)
    }

    /// Adds a folded line to the last field's value (RFC 9112, section 5.2).
    mutating func extendLast(with text: String) {
        guard let last = fields.indices.last, !text.isEmpty else { return }
        fields[last].value += fields[last].value.isEmpty ? text : " " + text
    }

    func has(_ name: String) -> Bool { mayHave(name) && fields.contains { $0.name.isSameHeaderName(as: name) } }

    /// `false` for most names that no field has.
    func mayHave(_ name: String) -> Bool { names.mayContain(name) }

    /// Whether every name is a token and no value holds a line break or a NUL (RFC 9110, section 5.5).
    package var isWellFormed: Bool {
        fields.allSatisfy { field in
            field.name.isHeaderName && field.value.isHeaderValue
        }
    }

    /// The position of the first field.
    public var startIndex: Int { 0 }
    /// The number of fields.
    public var endIndex: Int { fields.count }
    /// The field at a position.
    public subscript(position: Int) -> Field { fields[position] }

    /// The names of the fields, in order, without their values, which may be secret.
    public var description: String { "[\(fields.map(\.description).joined(separator: ", "))]" }
}

/// Tells of most names that they are not in a set, which makes look-ups of fields that an answer does not have cheap, as
/// most are. Of a set of a dozen names, about a fifth of the others remain to be compared; of a hundred, all.
struct NameFilter: Sendable, Hashable {
    private var bits: UInt64 = 0

    init(_ names: some Sequence<String>) {
        for name in names { insert(name) }
    }

    mutating func insert(_ name: String) { bits |= Self.bit(of: name) }

    func mayContain(_ name: String) -> Bool { bits & Self.bit(of: name) != 0 }

    /// Returns the same for names that differ in case alone.
    private static func bit(of name: String) -> UInt64 {
        let bit = name.withBytes { bytes in
            guard let first = bytes.first, let last = bytes.last else { return 0 }
            return Int(first | 0x20) + 5 * Int(last | 0x20) + 11 * bytes.count
        }
        return 1 << UInt64(bit % 64)
    }
}

extension String {
    /// Whether the string is a token (RFC 9110, section 5.6.2).
    var isHeaderName: Bool { !utf8.isEmpty && utf8.allSatisfy(\.isTokenCharacter) }

    var isHeaderValue: Bool { utf8.allSatisfy { $0 != 0 && $0 != 0x0A && $0 != 0x0D } }

    /// Reads text that should be UTF-8. Of other text, each byte beyond ASCII becomes a character for private use, so
    /// that ``fieldBytes`` returns the same bytes. Only those characters, in plane 16, begin with the byte F4.
    package init(fieldBytes bytes: some Collection<UInt8>) {
        if bytes.allSatisfy({ $0 < 0x80 }) {
            self.init(decoding: bytes, as: UTF8.self)
        } else if let text = String(validating: bytes, as: UTF8.self), text.isOfText {
            self = text
        } else {
            let scalars = bytes.lazy.compactMap { Unicode.Scalar($0 < 0x80 ? UInt32($0) : 0x10FE00 + UInt32($0)) }
            self.init(String.UnicodeScalarView(scalars))
        }
    }

    /// Whether every byte that the string stands for is part of text in UTF-8.
    var isOfText: Bool { !utf8.contains(0xF4) }

    package var fieldBytes: [UInt8] {
        if isOfText { return Array(utf8) }
        return unicodeScalars.flatMap { scalar in
            (0x10FE80...0x10FEFF).contains(scalar.value) ? [UInt8(scalar.value & 0xFF)] : Array(String(scalar).utf8)
        }
    }

    func isSameHeaderName(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        if self == other { return true }
        return withBytes { own in
            other.withBytes { theirs in
                for index in own.indices where own[index] != theirs[index] {
                    if own[index].asciiLowercased != theirs[index].asciiLowercased { return false }
                }
                return true
            }
        }
    }

    fileprivate func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        utf8.withContiguousStorageIfAvailable(body) ?? Array(utf8).withUnsafeBufferPointer(body)
    }
}

extension UInt8 {
    var asciiLowercased: UInt8 { self >= 0x41 && self <= 0x5A ? self | 0x20 : self }

    var isTokenCharacter: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
