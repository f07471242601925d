/// The members of a list field (RFC 9110, section 5.6.1), read once from left to right.
///
/// A server writes what it likes, so the time for a field is proportional to its length, and ``most`` members are the
/// most that are read. Who decides something by a list looks at ``isCut`` and takes the cautious way.
struct FieldList: Sendable {
    /// The most members that are read of one field, all its lines together.
    static let most = 1_000

    /// The non-empty parts between commas, in order.
    private(set) var members: [String] = []
    /// There are more members than were read.
    private(set) var isCut = false
    /// Bytes looked at, those looked at again included.
    private(set) var steps = 0

    /// Reads the members of all lines as one list.
    init(_ lines: some Sequence<String>, most: Int = Self.most) {
        for line in lines where !isCut { read(Array(line.utf8), most: most) }
    }

    /// Commas within quotes do not separate. A quote that is never closed is an ordinary character: what follows it must
    /// not be lost.
    private mutating func read(_ bytes: [UInt8], most: Int) {
        var start = 0
        var position = 0
        // A search fails if it meets no quote but escaped ones. One that begins behind any of those meets the rest of
        // them, escaped as before, and fails as well.
        var mayClose = true
        func endMember(at end: Int) {
            let member = String(decoding: bytes[start..<end], as: UTF8.self).trimmingOptionalSpace
            if member.isEmpty { return }
            if members.count < most { members.append(member) } else { isCut = true }
        }
        while position < bytes.count, !isCut {
            steps += 1
            if bytes[position] == UInt8(ascii: "\""), mayClose {
                let end = bytes.endOfQuotedString(from: position)
                steps += (end ?? bytes.count) - position
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
    /// The members of a list field, however they are spread over lines; at most ``FieldList/most``.
    func list(_ name: String) -> [String] { fieldList(name).members }

    /// The members of a list field, however they are spread over lines.
    func fieldList(_ name: String) -> FieldList { FieldList(values(name)) }

    /// The lower-cased names in `Vary`; with a `*`, which no request matches, if there are too many to read.
    var varying: Set<String> {
        let list = fieldList("Vary")
        let names = Set(list.members.map(\.asciiLowercased))
        return list.isCut ? names.union(["*"]) : names
    }
}

extension [UInt8] {
    /// Where the quote that opens at `start` closes.
    func endOfQuotedString(from start: Int) -> Int? {
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
