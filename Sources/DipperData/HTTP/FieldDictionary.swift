/// A dictionary of a structured field (RFC 8941, section 3.2). Text with anything wrong in it is refused whole (section
/// 4.2).
struct FieldDictionary: Sendable {
    enum Value: Sendable, Hashable {
        case boolean(Bool)
        case integer(Int)
        case string(String)
        /// A token, a number with decimals, bytes, or a list.
        case other
    }

    /// The last value of each name. Parameters are read and left out.
    private(set) var members: [String: Value] = [:]
    /// Whether there are more members than ``FieldList/most``, and so unread ones.
    private(set) var isCut = false

    init?(_ lines: [String]) {
        var reader = Reader(rest: Array(lines.filter { !$0.isEmpty }.joined(separator: ", ").utf8)[...])
        reader.skip(" ")
        if reader.rest.isEmpty { return }
        var count = 0
        repeat {
            reader.skip(" \t")
            guard let name = reader.key(), let value = reader.take("=") ? reader.member() : .boolean(true),
                reader.skipParameters()
            else { return nil }
            members[name] = value
            count += 1
            reader.skip(" \t")
            guard reader.take(",") else { break }
            isCut = count == FieldList.most
        } while !isCut
        if isCut { return }
        guard reader.rest.isEmpty else { return nil }
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func take(_ mark: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: mark) else { return false }
            rest.removeFirst()
            return true
        }

        mutating func skip(_ marks: String) { _ = text { marks.utf8.contains($0) } }

        private mutating func text(while isPart: (UInt8) -> Bool) -> String {
            let part = rest.prefix(while: isPart)
            rest = rest[part.endIndex...]
            return String(decoding: part, as: UTF8.self)
        }

        mutating func key() -> String? {
            guard let first = rest.first, first.isLowercase || first == UInt8(ascii: "*") else { return nil }
            return text { $0.isLowercase || $0.isDigit || "_-.*".utf8.contains($0) }
        }

        mutating func skipParameters() -> Bool {
            while take(";") {
                skip(" ")
                guard key() != nil, !take("=") || item() != nil else { return false }
            }
            return true
        }

        mutating func member() -> Value? {
            guard take("(") else { return item() }
            var isApart = true
            while true {
                let before = rest.count
                skip(" ")
                if take(")") { return .other }
                guard isApart || rest.count < before, item() != nil, skipParameters() else { return nil }
                isApart = false
            }
        }

        mutating func item() -> Value? {
            if take("\"") { return string() }
            if take("?") { return take("1") ? .boolean(true) : take("0") ? .boolean(false) : nil }
            if take(":") {
                _ = text { $0.isLetter || $0.isDigit || "+/=".utf8.contains($0) }
                return take(":") ? .other : nil
            }
            guard let first = rest.first, first.isLetter || first == UInt8(ascii: "*") else { return number() }
            _ = text { $0.isTokenCharacter || ":/".utf8.contains($0) }
            return .other
        }

        private mutating func number() -> Value? {
            let sign = take("-") ? -1 : 1
            let digits = text(while: \.isDigit)
            guard take(".") else { return digits.utf8.count <= 15 ? Int(digits).map { .integer(sign * $0) } : nil }
            let decimals = text(while: \.isDigit)
            return (1...12).contains(digits.utf8.count) && (1...3).contains(decimals.utf8.count) ? .other : nil
        }

        private mutating func string() -> Value? {
            var text: [UInt8] = []
            while let byte = rest.popFirst(), (0x20...0x7E).contains(byte) {
                if byte == UInt8(ascii: "\"") { return .string(String(decoding: text, as: UTF8.self)) }
                guard byte == UInt8(ascii: "\\") else {
                    text.append(byte)
                    continue
                }
                guard let escaped = rest.popFirst(), "\"\\".utf8.contains(escaped) else { return nil }
                text.append(escaped)
            }
            return nil
        }
    }
}

extension UInt8 {
    fileprivate var isLowercase: Bool { self >= 0x61 && self <= 0x7A }
    fileprivate var isLetter: Bool { isLowercase || self >= 0x41 && self <= 0x5A }
}
