extension HTTPHeaders {
    /// Returns all values of a field in order, without surrounding white space.
    func values(_ name: String) -> [String] {
        fields.lazy.filter { $0.name.isSameHeaderName(as: name) }.map { $0.value.trimmingOptionalSpace }
    }

    /// Returns these fields with the differences between two other sets of fields applied.
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

    /// Returns the fields without those whose lower-cased names are unwanted.
    func removing(_ isUnwanted: (String) -> Bool) -> HTTPHeaders {
        var kept: [Field] = []
        kept.reserveCapacity(fields.count)
        for field in fields where !isUnwanted(field.name.asciiLowercased) { kept.append(field) }
        return HTTPHeaders(kept)
    }
}

extension String {
    /// The string with A to Z in lower case. The Unicode mapping would turn some other letters into ASCII.
    var asciiLowercased: String {
        guard utf8.contains(where: { $0 >= 0x41 && $0 <= 0x5A }) else { return self }
        return String(unsafeUninitializedCapacity: utf8.count) { bytes in
            for (index, byte) in utf8.enumerated() { bytes[index] = byte.asciiLowercased }
            return utf8.count
        }
    }

    /// The string without spaces and tabs at its ends (RFC 9110, section 5.6.3).
    var trimmingOptionalSpace: String {
        guard let first = utf8.first, let last = utf8.last, first.isSpaceOrTab || last.isSpaceOrTab else { return self }
        guard let start = utf8.firstIndex(where: { !$0.isSpaceOrTab }),
            let end = utf8.lastIndex(where: { !$0.isSpaceOrTab })
        else { return "" }
        return String(decoding: utf8[start...end], as: UTF8.self)
    }

    /// The content of a quoted string; `nil` if the string is not quoted from end to end (RFC 9110, section 5.6.4).
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
