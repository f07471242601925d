/// Names of parameters whose values are secret. Names are compared by their words: `accessToken`, `access_token` and
/// `ACCESS-TOKEN` are the same name, and each contains `token`.
struct SecretNames: Sendable, Hashable {
    /// The words of each name in lower case, joined so that `PassWord` is found as `password`.
    private let joined: Set<String>
    private let reach: Int

    init(standard: [String], further: some Sequence<String>) {
        let names = (standard + further).map { Self.words(of: $0.utf8) }.filter { !$0.isEmpty }
        joined = Set(names.map { $0.joined() })
        // A name of one word may be written as two words.
        reach = max(2, names.map(\.count).max() ?? 0)
    }

    /// A name with too many levels of encoding counts as secret.
    func contains(_ name: some Collection<UInt8>) -> Bool {
        guard let decoded = PercentCoding.fullyDecoded(Array(name)) else { return true }
        let words = Self.words(of: decoded)
        return words.indices.contains { start in
            var candidate = ""
            return words[start...].prefix(reach).contains { word in
                candidate += word
                return joined.contains(candidate)
            }
        }
    }

    /// Splits a name at other characters than letters and digits, between letters and digits, and before capital
    /// letters.
    private static func words(of name: some Collection<UInt8>) -> [String] {
        var words: [[UInt8]] = []
        var last = Kind.other
        for byte in name {
            let kind = Kind(byte)
            defer { last = kind }
            switch (last, kind) {
            case (_, .other): continue
            case (.lower, .lower), (.digit, .digit), (.upper, .upper): words[words.count - 1].append(byte)
            case (.upper, .lower):
                // The last of several capitals begins the next word: `APIKey`.
                if words[words.count - 1].count > 1 { words.append([words[words.count - 1].removeLast()]) }
                words[words.count - 1].append(byte)
            default: words.append([byte])
            }
        }
        return words.map { String(decoding: $0, as: UTF8.self).lowercased() }
    }

    private enum Kind {
        case lower, upper, digit, other

        init(_ byte: UInt8) {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), 0x80...: self = .lower
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): self = .upper
            case UInt8(ascii: "0")...UInt8(ascii: "9"): self = .digit
            default: self = .other
            }
        }
    }
}

/// Percent-encoded bytes (RFC 3986, section 2.1).
enum PercentCoding {
    static func escape(_ byte: UInt8) -> [UInt8] {
        Array((byte < 16 ? "%0" : "%").utf8) + String(byte, radix: 16, uppercase: true).utf8
    }

    /// The byte of the escape that a text begins with, if it does.
    static func escape<Text: RandomAccessCollection<UInt8>>(at text: Text) -> UInt8? where Text.Index == Int {
        let start = text.startIndex
        guard text.count > 2, text[start] == UInt8(ascii: "%"), let high = digit(text[start + 1]) else { return nil }
        return digit(text[start + 2]).map { high << 4 | $0 }
    }

    /// Writes other bytes in place of each escape.
    static func replacing(_ bytes: [UInt8], _ replacement: (UInt8) -> [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var rest = bytes[...]
        while let first = rest.first {
            let byte = escape(at: rest)
            if let byte { result += replacement(byte) } else { result.append(first) }
            rest = rest.dropFirst(byte == nil ? 1 : 3)
        }
        return result
    }

    /// `nil` without any escape. Bytes that are no escape stay as they are.
    static func decoded(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.contains(UInt8(ascii: "%")) else { return nil }
        let result = replacing(bytes) { [$0] }
        return result.count == bytes.count ? nil : result
    }

    private static let mostLevels = 4

    /// `nil` for more than ``mostLevels`` of encoding: each takes a pass, and `%252525…` has one for every two bytes.
    fileprivate static func fullyDecoded(_ bytes: [UInt8]) -> [UInt8]? {
        var bytes = bytes
        for _ in 0..<mostLevels {
            guard let next = decoded(bytes) else { return bytes }
            bytes = next
        }
        return decoded(bytes) == nil ? bytes : nil
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46, 0x61...0x66: (byte & 0xDF) - 0x37
        default: nil
        }
    }
}
