/// The members of a list field (RFC 9110, section 5.6.1).
///
/// Reading takes time by the length of the field, and ends at ``most`` members, because a server may send any amount.
/// Code that decides by a list must check ``isCut`` and choose the cautious way.
struct FieldList: Sendable {
    static let most = 1_000

    private(set) var members: [String] = []
    private(set) var isCut = false

    init(_ lines: some Sequence<String>, most: Int = Self.most) {
        for line in lines where !isCut { read(Array(line.utf8), most: most) }
    }

    /// Commas within quotes do not separate members. A quote that is never closed is an ordinary character.
    private mutating func read(_ bytes: [UInt8], most: Int) {
        var start = 0
        var position = 0
        // After a search that found no closing quote, every later search would find none either.
        var mayClose = true
        func endMember(at end: Int) {
            let member = String(decoding: bytes[start..<end], as: UTF8.self).trimmingOptionalSpace
            if member.isEmpty { return }
            if members.count < most { members.append(member) } else { isCut = true }
        }
        while position < bytes.count, !isCut {
            if bytes[position] == UInt8(ascii: "\""), mayClose {
                let end = bytes.endOfQuotedString(from: position)
                mayClose = end != nil
                position = end ?? position
            } else if bytes[position] == UInt8(ascii: ",") {
                endMember(at: position)
                start = position + 1
            }
            position += 1
        }
        if !isCut { endMember(at: bytes.count) }
    }
}

extension HTTPHeaders {
    func list(_ name: String) -> [String] { fieldList(name).members }

    func fieldList(_ name: String) -> FieldList { FieldList(values(name)) }

    /// The lower-cased names in `Vary`; with `*`, which no request matches, if there are too many to read.
    var varying: Set<String> {
        let list = fieldList("Vary")
        let names = Set(list.members.map(\.asciiLowercased))
        return list.isCut ? names.union(["*"]) : names
    }

    /// The values of the fields with this name, in order, without space at their ends.
    func values(_ name: String) -> [String] {
        guard mayHave(name) else { return [] }
        return fields.lazy.filter { $0.name.isSameHeaderName(as: name) }.map { $0.value.trimmingOptionalSpace }
    }

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

    func removing(_ isUnwanted: (String) -> Bool) -> HTTPHeaders {
        HTTPHeaders(fields.filter { !isUnwanted($0.name) })
    }
}

/// A set of names of fields, without regard to case.
struct FieldNames: Sendable, ExpressibleByArrayLiteral {
    private static let few = 16

    private var filter = NameFilter([])
    /// Compared in turn, which takes less time than to hash.
    private var names: [String] = []
    /// The names after the first few, lower-cased: a server may send thousands.
    private var rest: Set<String> = []

    init(_ names: some Sequence<String>) {
        for name in names { insert(name) }
    }

    init(arrayLiteral names: String...) { self.init(names) }

    mutating func insert(_ name: String) {
        if contains(name) { return }
        filter.insert(name)
        if names.count < Self.few { names.append(name) } else { rest.insert(name.asciiLowercased) }
    }

    func contains(_ name: String) -> Bool {
        filter.mayContain(name)
            && (names.contains(where: name.isSameHeaderName) || !rest.isEmpty && rest.contains(name.asciiLowercased))
    }
}

extension [UInt8] {
    fileprivate func endOfQuotedString(from start: Int) -> Int? {
        var position = start + 1
        while position < count {
            switch self[position] {
            case UInt8(ascii: "\""): return position
            case UInt8(ascii: "\\"): position += 2
            default: position += 1
            }
        }
        return nil
    }
}

extension String {
    /// The string with A to Z in lower case. The Unicode mapping turns some other letters into ASCII.
    var asciiLowercased: String {
        guard utf8.contains(where: { $0 >= 0x41 && $0 <= 0x5A }) else { return self }
        return String(unsafeUninitializedCapacity: utf8.count) { bytes in
            let (_, count) = bytes.initialize(from: utf8)
            for index in 0..<count { bytes[index] = bytes[index].asciiLowercased }
            return count
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

    /// The content of a quoted string (RFC 9110, section 5.6.4); `nil` if it is not quoted from end to end.
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
