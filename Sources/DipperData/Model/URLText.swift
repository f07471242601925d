import Foundation

extension URL {
    /// Creates a URL from text by the rules of the WHATWG URL parser, as far as a `URL` can hold the result.
    ///
    /// Spaces and control characters at the ends, tabs and line breaks are dropped, and a backslash in an http or https
    /// URL is a slash. Only bytes that a URL cannot contain are percent-encoded, so escapes stay as they are.
    // Every URL that is made of text from outside is made here.
    package init?(text: String, relativeTo base: URL? = nil) {
        let bytes = URLText.cleaned(text)
        let end = RedactionScanner.endOfScheme(bytes) ?? 0
        let baseScheme = base?.scheme?.asciiLowercased
        let scheme = end == 0 ? baseScheme : String(decoding: bytes[..<(end - 1)], as: UTF8.self).asciiLowercased
        let isWeb = scheme.map(URLText.isWeb) ?? false
        var rest = bytes[end...]
        if isWeb {
            let tail = rest.firstIndex { "?#".utf8.contains($0) } ?? rest.endIndex
            for index in rest.startIndex..<tail where rest[index] == UInt8(ascii: "\\") {
                rest[index] = UInt8(ascii: "/")
            }
        }
        let hasSlashes = rest.starts(with: "//".utf8)
        let isRelative = end == 0 || (isWeb && scheme == baseScheme && !hasSlashes)
        var result = isRelative ? [] : Array(bytes[..<end])
        if hasSlashes || (isWeb && !isRelative) {
            rest = isWeb ? rest.drop { $0 == UInt8(ascii: "/") } : rest.dropFirst(2)
            let authority = rest.prefix { !"/?#".utf8.contains($0) }
            let user = authority.lastIndex(of: UInt8(ascii: "@")) ?? authority.startIndex
            // `URL` makes an international host ASCII.
            result += "//".utf8 + URLText.encoded(authority[..<user], allowing: "") + authority[user...]
            rest = rest[authority.endIndex...]
        } else if isRelative, rest.prefix(while: { !"/?#".utf8.contains($0) }).contains(UInt8(ascii: ":")) {
            // What precedes the colon is no scheme.
            result += "./".utf8
        }
        let mark = rest.firstIndex(of: UInt8(ascii: "#")) ?? rest.endIndex
        result += URLText.encoded(rest[..<mark], allowing: "/?@") + rest[mark...].prefix(1)
        result += URLText.encoded(rest[mark...].dropFirst(), allowing: "/?@")
        guard let url = URL(string: String(decoding: result, as: UTF8.self), relativeTo: base) else { return nil }
        self = url.absoluteURL
    }
}

/// The bytes of URLs.
enum URLText {
    static func isWeb(_ scheme: some StringProtocol) -> Bool { scheme == "http" || scheme == "https" }

    /// Drops spaces and control characters at the ends, and tabs and line breaks.
    static func cleaned(_ text: String) -> [UInt8] {
        let bytes = text.fieldBytes
        guard let last = bytes.lastIndex(where: { $0 > 0x20 }) else { return [] }
        return bytes[...last].drop { $0 <= 0x20 }.filter { !isBreak($0) }
    }

    static func isBreak(_ byte: UInt8) -> Bool { byte == 0x09 || byte == 0x0A || byte == 0x0D }

    fileprivate static func encoded(_ part: ArraySlice<UInt8>, allowing further: String) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(part.count)
        for (index, byte) in zip(part.indices, part) {
            if isUnreserved(byte) || "!$&'()*+,;=:".utf8.contains(byte) || further.utf8.contains(byte)
                || PercentCoding.escape(at: part[index...]) != nil
            {
                result.append(byte)
            } else {
                result += escape(byte)
            }
        }
        return result
    }

    private static func escape(_ byte: UInt8) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }

    // MARK: The address of a resource

    /// Returns the text of a URL without fragment and user, and the user, which may be a secret. All spellings of an
    /// http or https URL that name one resource have one address (RFC 9110, section 4.2.3; RFC 3986, section 6.2.2).
    static func parts(of text: String) -> (address: String, user: Substring?) {
        if text.utf8.withContiguousStorageIfAvailable(isAddress) == true { return (text, nil) }
        let whole = text.utf8.firstIndex(of: UInt8(ascii: "#")).map { text[..<$0] } ?? text[...]
        let bytes = whole.utf8
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: "://".utf8) else {
            return (String(whole), nil)
        }
        let start = bytes.index(colon, offsetBy: 3)
        let authority = bytes[start...].prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        let mark = authority.lastIndex(of: UInt8(ascii: "@"))
        let user = mark.map { whole[start..<$0] }
        let host = mark.map { bytes.index(after: $0) } ?? start
        let scheme = String(whole[..<colon]).asciiLowercased
        guard isWeb(scheme) else { return (String(whole[..<start] + whole[host...]), user) }
        let rest = Array(bytes[authority.endIndex...])
        let query = rest.firstIndex(of: UInt8(ascii: "?")) ?? rest.count
        let address =
            Array((scheme + "://").utf8)
            + server(normalized(bytes[host..<authority.endIndex]), isSecure: scheme == "https")
            + withoutDots(normalized(rest[..<query])) + normalized(rest[query...])
        return (String(decoding: address, as: UTF8.self), user)
    }

    /// Whether a text is an address already, as nearly every URL is. Allocates nothing: it runs for each hit in memory.
    static func isAddress(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let secure: StaticString = "https://"
        guard let start = text.baseAddress, text.count > 8, memcmp(start, secure.utf8Start, 4) == 0 else {
            return false
        }
        let isSecure = text[4] == UInt8(ascii: "s")
        var index = isSecure ? 8 : 7
        guard memcmp(start + index - 3, secure.utf8Start + 5, 3) == 0 else { return false }
        let host = index
        while index < text.count, isUnreserved(text[index]), text[index].asciiLowercased == text[index] { index += 1 }
        guard index > host, index < text.count else { return false }
        if text[index] == UInt8(ascii: ":") {
            let port = text[(index + 1)...].prefix { (0x30...0x39).contains($0) }
            guard let first = port.first, first != UInt8(ascii: "0"),
                !port.elementsEqual((isSecure ? "443" : "80").utf8)
            else { return false }
            index = port.endIndex
        }
        guard index < text.count, text[index] == UInt8(ascii: "/") else { return false }

        func next(_ mark: Unicode.Scalar, from place: Int) -> Int? {
            guard let found = memchr(start + place, Int32(mark.value), text.count - place) else { return nil }
            return UnsafePointer(found.assumingMemoryBound(to: UInt8.self)) - start
        }
        guard next("#", from: index) == nil else { return false }
        var place = index
        while let found = next(".", from: place) {
            if text[found - 1] == UInt8(ascii: "/") { return false }
            place = found + 1
        }
        place = index
        while let found = next("%", from: place) {
            guard found + 2 < text.count, let byte = PercentCoding.escape(at: text[found...]), !isUnreserved(byte),
                !(0x61...0x7A).contains(text[found + 1]), !(0x61...0x7A).contains(text[found + 2])
            else { return false }
            place = found + 3
        }
        return true
    }

    /// Escapes in capital letters, and only of bytes that must be escaped.
    private static func normalized(_ part: some Collection<UInt8>) -> [UInt8] {
        let part = Array(part)
        guard part.contains(UInt8(ascii: "%")) else { return part }
        var result: [UInt8] = []
        var index = 0
        while index < part.count {
            let byte = PercentCoding.escape(at: part[index...])
            result += byte.map { isUnreserved($0) ? [$0] : escape($0) } ?? [part[index]]
            index += byte == nil ? 1 : 3
        }
        return result
    }

    /// Host and port; nothing for the port of the scheme.
    private static func server(_ text: [UInt8], isSecure: Bool) -> [UInt8] {
        let name = text.map(\.asciiLowercased)
        guard let colon = name.lastIndex(of: UInt8(ascii: ":")),
            let port = String(bytes: name[(colon + 1)...], encoding: .ascii),
            port.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return name }
        if port.isEmpty || Int(port) == (isSecure ? 443 : 80) { return Array(name[..<colon]) }
        return Array(name[...colon]) + (Int(port).map { "\($0)" } ?? port).utf8
    }

    /// A path without the segments `.` and `..` (RFC 3986, section 5.2.4), at least a slash.
    private static func withoutDots(_ path: [UInt8]) -> [UInt8] {
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst()
        var kept: [ArraySlice<UInt8>] = []
        for (index, segment) in zip(segments.indices, segments) {
            let isUp = segment.elementsEqual("..".utf8)
            if isUp { _ = kept.popLast() }
            if !isUp, !segment.elementsEqual(".".utf8) {
                kept.append(segment)
            } else if index == segments.endIndex - 1 {
                kept.append([])
            }
        }
        return Array("/".utf8) + kept.joined(separator: "/".utf8)
    }
}
