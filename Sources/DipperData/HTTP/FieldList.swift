/// The members of a list field (RFC 9110, section 5.6.1), read once from left to right.
///
/// The time to read a field is proportional to its length, and at most ``most`` members are read, because a server may
/// send any amount. Code that decides by a list must check ``isCut`` and choose the cautious way.
struct FieldList: Sendable {
    /// The most members that are read from the lines of one field together.
    static let most = 1_000

    /// The non-empty parts between commas, in order.
    private(set) var members: [String] = []
    /// Whether the field has more members than were read.
    private(set) var isCut = false
    /// The number of bytes looked at, counted again each time; for tests.
    private(set) var steps = 0

    /// Reads the members of all lines as one list.
    init(_ lines: some Sequence<String>, most: Int = Self.most) {
        for line in lines where !isCut { read(Array(line.utf8), most: most) }
    }

    /// Reads the members of one line. Commas within quotes do not separate members. A quote that is never closed is an
    /// ordinary character, so that the members after it are not lost.
    private mutating func read(_ bytes: [UInt8], most: Int) {
        var start = 0
        var position = 0
        // If a search for the closing quote fails, all quotes it met are escaped. A search that begins at one of them
        // would meet the later ones, escaped as before, and fail as well. So it is left out.
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
    /// Returns the members of a list field from all its lines; at most ``FieldList/most``.
    func list(_ name: String) -> [String] { fieldList(name).members }

    /// Returns the members of a list field from all its lines, and whether there are more.
    func fieldList(_ name: String) -> FieldList { FieldList(values(name)) }

    /// The lower-cased names of the fields that, as `Connection` says, concern the connection alone.
    var namedByConnection: [String] { list("Connection").map(\.asciiLowercased) }

    /// The lower-cased names in `Vary`. Contains `*`, which no request matches, if there are too many names to read.
    var varying: Set<String> {
        let list = fieldList("Vary")
        let names = Set(list.members.map(\.asciiLowercased))
        return list.isCut ? names.union(["*"]) : names
    }
}

extension [UInt8] {
    /// Returns the index of the quote that closes the one at `start`; `nil` if there is none.
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
