extension HTTPHeaders {
    /// All values of a field, in order, without the white space around them.
    func values(_ name: String) -> [String] {
        fields.lazy.filter { $0.name.isSameHeaderName(as: name) }.map { $0.value.trimmingOptionalSpace }
    }

    /// These fields with the changes that make other fields of some.
    func changed(from old: HTTPHeaders, to new: HTTPHeaders) -> HTTPHeaders {
        var headers = self
        let names = Set((old.fields + new.fields).map(\.name.asciiLowercased))
        for name in names.sorted() where old.values(name) != new.values(name) {
            headers[name] = nil
            for field in new.fields where field.name.isSameHeaderName(as: name) {
                headers.append(field.name, field.value)
            }
        }
        return headers
    }

    /// Without the fields whose names, in lower case, are not wanted.
    func removing(_ isUnwanted: (String) -> Bool) -> HTTPHeaders {
        HTTPHeaders(fields.filter { !isUnwanted($0.name.asciiLowercased) })
    }
}

extension String {
    /// Lower case for A to Z alone: the Unicode mapping would make ASCII of some other letters.
    var asciiLowercased: String {
        utf8.contains { $0 >= 0x41 && $0 <= 0x5A } ? String(decoding: utf8.map(\.asciiLowercased), as: UTF8.self) : self
    }

    /// Without spaces and tabs at its ends (RFC 9110, section 5.6.3).
    var trimmingOptionalSpace: String {
        guard let first = utf8.first, let last = utf8.last, first.isSpaceOrTab || last.isSpaceOrTab else { return self }
        guard let start = utf8.firstIndex(where: { !$0.isSpaceOrTab }),
            let end = utf8.lastIndex(where: { !$0.isSpaceOrTab })
        else { return "" }
        return String(decoding: utf8[start...end], as: UTF8.self)
    }

    /// What a quoted string says; `nil` if this is not one from end to end (RFC 9110, section 5.6.4).
    var unquoted: String? {
        let bytes = Array(utf8)
        guard bytes.first == UInt8(ascii: "\""), let end = bytes.endOfQuotedString(from: 0),
            end == bytes.count - 1
        else { return nil }
        var plain: [UInt8] = []
        var isEscaped = false
        for byte in bytes[1..<end] {
            if !isEscaped, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else {
                plain.append(byte)
                isEscaped = false
            }
        }
        return String(decoding: plain, as: UTF8.self)
    }
}

extension UInt8 {
    var isSpaceOrTab: Bool { self == 0x20 || self == 0x09 }
    var isDigit: Bool { self >= 0x30 && self <= 0x39 }
}
